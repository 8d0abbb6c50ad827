"""Tallystick keeps the tally of reinforcement learning for language models and agents.

Importing this package pulls in NumPy alone; modules that need more import it themselves.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tallystick import credit, random, states
from tallystick._native import __version__
from tallystick._threads import num_threads, set_num_threads
from tallystick.batch import RolloutBatch
from tallystick.groups import group_ids, group_normalize, group_rank
from tallystick.plan import RolloutPlan
from tallystick.ragged import prefix_scan, reverse_scan, segment_reduce

if TYPE_CHECKING:
    from tallystick import methods, objectives, rows

__all__ = [
    "RolloutBatch",
    "RolloutPlan",
    "__version__",
    "credit",
    "group_ids",
    "group_normalize",
    "group_rank",
    "methods",
    "num_threads",
    "objectives",
    "prefix_scan",
    "random",
    "reverse_scan",
    "rows",
    "segment_reduce",
    "set_num_threads",
    "states",
]


def __getattr__(name: str) -> Any:
    if name in ("methods", "objectives", "rows"):
        return importlib.import_module(f"tallystick.{name}")
    raise AttributeError(f"module 'tallystick' has no attribute {name!r}")

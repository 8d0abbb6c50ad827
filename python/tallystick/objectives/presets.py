"""The published policy losses that this room computes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tallystick._arrays import as_text
from tallystick._preset import Preset
from tallystick.errors import UnsupportedError

if TYPE_CHECKING:
    from tallystick.objectives.rules import Rule

_INPUTS = ("log_probs", "advantages", "response_mask", "old_log_probs")

PRESETS = (
    Preset(
        name="ppo",
        room="objectives",
        call="PPOClip",
        needs=_INPUTS,
        seeds=("baseline",),
        mark="verified",
        citation="Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv 1707.06347",
    ),
    Preset(
        name="dapo",
        room="objectives",
        call="PPOClip",
        defaults={"low": 0.2, "high": 0.28},
        needs=_INPUTS,
        seeds=("baseline",),
        mark="verified",
        citation="Yu et al. 2025, DAPO: An Open-Source LLM Reinforcement Learning System at Scale, arXiv 2503.14476",
    ),
)


def preset(name: str, **required: Any) -> Rule:
    """The rule of a published loss.

    Args:
        name: as `tallystick.methods.table` lists it under this room.
        required: constants that the preset leaves open, or that replace its defaults.

    Returns:
        a rule for `policy_loss`. preset("dapo") is PPOClip(low=0.2, high=0.28).

    Raises:
        UnsupportedError: no such preset.
        DTypeError: `name` is no string.
        TypeError: a constant that has no default is missing, or one that the rule does not take.
    """
    wanted = as_text("name", name)
    for row in PRESETS:
        if row.name == wanted:
            rule: Rule = getattr(importlib.import_module("tallystick.objectives.rules"), row.call)(
                **{**row.defaults, **required}
            )
            return rule
    raise UnsupportedError(f"`name` must be one of {', '.join(row.name for row in PRESETS)}, found {name!r}", "name")

"""What `--env NAME` names: an environment with its tasks, tokenizer, model size and hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tallystick.errors import UnsupportedError
from tallystick.lab.rollouts import Rollouts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from tallystick.lab.policy import Policy, PolicyConfig
    from tallystick.objectives.aggregation import Aggregation

Noise = Callable[[NDArray[np.int64], int], NDArray[np.float64]]
"""`noise(ids, turn)` gives one uniform number in [0, 1) for each id: the same arguments, the same numbers, in any order
and any batch. `ids` is the trajectory number and `turn` counts the tokens that a trajectory has drawn (or anything else
that is unique for each draw of a trajectory, below 2**20). Nothing else may be random in a rollout."""

Report = Callable[[str], None]
"""Takes one short line of progress."""


@dataclass(frozen=True)
class Settings:
    """Hyper-parameters of the RL stage.

    Args:
        iterations: rollouts and updates of one run.
        tasks: groups an iteration.
        copies: rollouts a group.
        minibatches: optimiser steps an iteration; the sequences are dealt over them once.
        learning_rate: of AdamW, constant.
        betas: of AdamW.
        weight_decay: of AdamW.
        clip_low: lower width of the clip range of the ratio.
        clip_high: upper width.
        max_grad_norm: the gradient is scaled down to this norm.
        aggregation: how token losses become one number, by the names of `objectives`.
        gamma: discount of the step return (methods with step credit).
        step_weight: weight of the step term (methods with step credit).
        evaluate_every: iterations between held-out evaluations.
    """

    iterations: int = 100
    tasks: int = 16
    copies: int = 8
    minibatches: int = 4
    learning_rate: float = 5e-4
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    max_grad_norm: float = 1.0
    aggregation: Aggregation = "token-mean"
    gamma: float = 0.95
    step_weight: float = 1.0
    evaluate_every: int = 10


class Suite(Protocol):
    """An environment made trainable. Construction is cheap; whatever is expensive starts at the first rollout."""

    name: str
    """What `--env` calls it."""
    settings: Settings
    """Defaults of the RL stage."""
    policy: PolicyConfig
    """Size of the policy."""
    tokenizer: Tokenizer
    """Text to ids; saved with the run."""
    training: Sequence[Any]
    """Tasks that training draws from."""
    held_out: Sequence[Any]
    """Tasks that training never sees."""

    def rollout(self, policy: Policy, tasks: Sequence[Any], copies: int, noise: Noise) -> Rollouts:
        """Plays `copies` episodes of each task with the policy at temperature 1.

        Args:
            policy: called under `torch.no_grad()` here.
            tasks: entries of `training` or `held_out`; entry g is group g.
            copies: episodes a task; trajectory g * copies + c is copy c of task g.
            noise: the only source of randomness.
        """

    def evaluate(self, policy: Policy, noise: Noise) -> dict[str, float]:
        """Figures over fixed held-out tasks.

        `success`, the share of episodes won at temperature 1, and `dropped`, the number of episodes that raised and
        count as lost, are always there.
        """

    def warm_start(self, policy: Policy, seed: int, report: Report) -> dict[str, float]:
        """Trains a fresh policy in place, by imitation, up to a weak start of RL; does nothing where none is needed.

        The result depends on `seed` alone. Returns figures for the log, empty where nothing was done.
        """

    def close(self) -> None:
        """Ends whatever processes the suite has started."""


_SUITES = {
    "larder": ("tallystick.lab.larder_suite", "LarderSuite"),
    "reasoning-gym": ("tallystick.lab.reasoning_gym", "ReasoningGymSuite"),
    "textworld-express": ("tallystick.lab.textworld_express", "twc"),
    "textworld-express:coin": ("tallystick.lab.textworld_express", "coin"),
}


def suite(name: str) -> Suite:
    """The suite that `--env` calls `name`, imported only now.

    Raises:
        UnsupportedError: no such name.
        ImportError: its extra is not installed; the sentence names the extra.
    """
    if name not in _SUITES:
        raise UnsupportedError(f"`env` must be one of {', '.join(_SUITES)}, found {name!r}", "env")
    module, attribute = _SUITES[name]
    made: Suite = getattr(import_module(module), attribute)()
    return made

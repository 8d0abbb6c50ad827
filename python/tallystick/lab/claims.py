"""The headline claims that `tallystick reproduce` measures again: what is run, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One figure over the seeds of a claim.

    Args:
        what: "start" or "end", a held-out figure before or after RL; "gain", end minus start; "difference", the end of
            `arm` minus the end of `against`, seed by seed.
        arm: name of a method.
        mean: what the mean over seeds must reach; an upper bound for "start".
        worst: what each seed must reach.
        against: the other method of a difference.
        figure: name of the held-out figure.
    """

    what: Literal["start", "end", "gain", "difference"]
    arm: str
    mean: float
    worst: float | None = None
    against: str = ""
    figure: str = "success"


@dataclass(frozen=True)
class Claim:
    """A claim and how it is measured.

    Args:
        title: the claim in one sentence.
        env: name of the suite.
        arms: methods, with everything else equal.
        seeds: of the runs.
        iterations: of each run.
        checks: what must come out.
        start_seed: all runs start from the warm start of this seed; None: each seed from its own.
    """

    title: str
    env: str
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    iterations: int
    checks: tuple[Check, ...]
    start_seed: int | None = None


CLAIMS = {
    "gigpo": Claim(
        title="Credit to steps that met in one state learns Larder faster than credit to whole episodes.",
        env="larder",
        arms=("grpo", "gigpo"),
        seeds=(0, 1, 2, 3),
        iterations=100,
        checks=(
            Check("end", "grpo", mean=0.72),
            Check("end", "gigpo", mean=0.87),
            Check("difference", "gigpo", against="grpo", mean=0.08),
        ),
        start_seed=0,
    ),
    "reasoning-gym": Claim(
        title="A small policy learns to spell backward, as the verifier of reasoning-gym judges it.",
        env="reasoning-gym",
        arms=("grpo",),
        seeds=(0, 1, 2),
        iterations=120,
        checks=(
            Check("start", "grpo", mean=0.40, figure="spell_backward"),
            Check("end", "grpo", mean=0.85, worst=0.80, figure="spell_backward"),
            Check("gain", "grpo", mean=0.15, figure="spell_backward_greedy"),
        ),
    ),
    "twc": Claim(
        title="A small policy learns TextWorld Commonsense, a game of TextWorldExpress, without a warm start.",
        env="textworld-express",
        arms=("grpo",),
        seeds=(0, 1, 2),
        iterations=90,
        checks=(Check("gain", "grpo", mean=0.12, worst=0.07),),
    ),
}

"""Advantages from one outcome per trajectory, compared inside its group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tallystick._arrays import as_choice, as_reals, narrowed, require_finite, require_length
from tallystick.credit._trajectories import blamed, trajectories
from tallystick.errors import UnsupportedError
from tallystick.ragged import segment_reduce

Scale = Literal["std", "batch_std", "none"]
Singleton = Literal["zero", "raw", "skip"]


def grpo(
    rewards: Any,
    group: Any,
    *,
    scale: Scale = "std",
    trajectory: Any = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> NDArray[np.float32]:
    """Outcomes minus the mean of their group, over the group's standard deviation.

    A_i = (R_i - mean_g) / (std_g + eps). With `scale="batch_std"` the deviation is that of all outcomes of the batch
    (LitePPO), with `scale="none"` there is none (Dr.GRPO).

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        scale: what centred outcomes are divided by.
        trajectory: `[n]`, any column, counted inside its group; a trajectory enters the statistics once, however many
            rows it was cut into. None: every row is a trajectory.
        singleton: what a trajectory that is alone in its group gets: 0, its outcome ("raw"; over 1 + eps where a scale
            is applied), or 0 without entering the batch's deviation ("skip").
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviation.

    Returns:
        float32 `[n]`; exactly 0 where a group's outcomes are equal. [1, 0] in one group gives [0.707, -0.707].

    Raises:
        NonFiniteError: a NaN or an infinity among `rewards`.
        UnsupportedError: rows of one trajectory carry different outcomes.
        ShapeError: columns of different lengths.

    Source:
        Shao et al. 2024, DeepSeekMath, arXiv 2402.03300; `scale="none"`: Liu et al. 2025, Understanding
        R1-Zero-Like Training, arXiv 2503.20783; `scale="batch_std"`: Liu et al. 2025, Tricks or Traps?, arXiv
        2508.08221, and ROLL, the code that its runs used (eps 1e-6, sample deviation of the outcomes as they came).
        verl has eps 1e-6 and singleton "raw", TRL eps 1e-4.
    """
    as_choice("scale", scale, "std", "batch_std", "none")
    found = trajectories("rewards", rewards, group, trajectory)
    return found.normalized(scale=scale, singleton=singleton, ddof=ddof, eps=eps)


def rloo(
    rewards: Any,
    group: Any,
    *,
    scale: Scale = "none",
    trajectory: Any = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> NDArray[np.float32]:
    """Outcomes minus the mean of the others of their group.

    A_i = R_i - sum_{j != i} R_j / (n_g - 1) = n_g / (n_g - 1) * (R_i - mean_g) [/ (std + eps)].

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        scale: what centred outcomes are divided by, as in `grpo`.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.
        singleton: what a trajectory that is alone in its group gets, as in `grpo`.
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviation.

    Returns:
        float32 `[n]`. [1, 0, 0, 1] in one group gives [2/3, -2/3, -2/3, 2/3].

    Raises:
        NonFiniteError, UnsupportedError, ShapeError: as `grpo`.

    Source:
        Ahmadian et al. 2024, Back to Basics: Revisiting REINFORCE Style Optimization, arXiv 2402.14740.
        The same in the RLOO trainer of TRL, announced with the first author (Huang and Ahmadian 2024, Putting RL back
        in RLHF). verl's loop keeps the raw outcome of a group of one, its vectorised form gives 0.
    """
    as_choice("scale", scale, "none", "std", "batch_std")
    found = trajectories("rewards", rewards, group, trajectory)
    return found.normalized(center="loo", scale=scale, singleton=singleton, ddof=ddof, eps=eps)


def opo(
    rewards: Any,
    group: Any,
    length: Any,
    *,
    scale: Scale = "none",
    trajectory: Any = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> NDArray[np.float32]:
    """Outcomes minus their group's mean weighted by length, the baseline of least variance under equal token gradients.

    A_i = R_i - sum_j L_j R_j / sum_j L_j [/ (std + eps)].

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        length: `[n]`, tokens that the model wrote on each row, not negative; a trajectory's is the sum over its rows.
        scale: what centred outcomes are divided by, as in `grpo`.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.
        singleton: what a trajectory that is alone in its group gets, as in `grpo`.
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviation.

    Returns:
        float32 `[n]`. Outcomes [1, 0] of lengths [1, 3] give [0.75, -0.25].

    Raises:
        NonFiniteError, UnsupportedError, ShapeError: as `grpo`.

    Source:
        Hao et al. 2025, On-Policy RL with Optimal Reward Baseline, arXiv 2505.23585; its code is verl's.
    """
    as_choice("scale", scale, "none", "std", "batch_std")
    found = trajectories("rewards", rewards, group, trajectory)
    tokens = as_reals("length", length).astype(np.float64, copy=False)
    rows = len(found.values) if found.of_row is None else len(found.of_row)
    require_length("length", tokens, rows, "one per row")
    require_finite("length", tokens)
    if (tokens < 0).any():
        row = int(np.argmax(tokens < 0))
        raise UnsupportedError(f"`length` must not be negative, found {tokens[row]} at row {row}", "length", row)
    with np.errstate(over="ignore"):
        if not np.isfinite(tokens.sum()):
            row = int(np.argmax(tokens))
            raise UnsupportedError(
                f"`length` must have a sum that float64 can hold, found {tokens[row]} at row {row}", "length", row
            )
    return found.normalized(
        center="weighted", weight=found.sums(tokens), scale=scale, singleton=singleton, ddof=ddof, eps=eps
    )


def gpg(
    rewards: Any,
    group: Any,
    *,
    alpha: Literal["live_samples", "live_groups", "nonzero_scores"] = "live_samples",
    scale: Literal["none", "std"] = "none",
    trajectory: Any = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-4,
) -> NDArray[np.float32]:
    """Outcomes minus the mean of their group, times a factor that makes up for groups that teach nothing.

    A_i = alpha * (R_i - mean_g) [/ (std_g + eps)]. A group is live where its outcomes differ.

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        alpha: "live_samples": trajectories over trajectories in live groups; "live_groups": groups over live groups, as
            the authors' code has it (the same where groups have one size); "nonzero_scores": trajectories over outcomes
            that are not 0, as verl has it. Each denominator is at least 1.
        scale: whether centred outcomes are divided by the group's deviation.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.
        singleton: what a trajectory that is alone in its group gets before the factor: 0, or its outcome ("raw").
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviation.

    Returns:
        float32 `[n]`. [1, 0] in one group and [0, 0] in another give [1, -1, 0, 0].

    Raises:
        NonFiniteError, UnsupportedError, ShapeError: as `grpo`.

    Source:
        Chu et al. 2025, GPG: A Simple and Strong Reinforcement Learning Baseline, arXiv 2504.02546.
    """
    as_choice("alpha", alpha, "live_samples", "live_groups", "nonzero_scores")
    as_choice("scale", scale, "none", "std")
    found = trajectories("rewards", rewards, group, trajectory)
    if alpha == "live_samples":
        total, counted = len(found.values), found.sizes()[found.spreads() > 0].sum()
    elif alpha == "live_groups":
        total, counted = found.n_groups, np.count_nonzero(found.spreads())
    else:
        total, counted = len(found.values), np.count_nonzero(found.values)
    centred = found.normalized(scale=scale, singleton=singleton, ddof=ddof, eps=eps)
    return narrowed("rewards", centred.astype(np.float64) * (total / max(counted, 1)))


def best_of_group(
    rewards: Any,
    group: Any,
    *,
    scale: Literal["none", "std"] = "none",
    trajectory: Any = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> NDArray[np.float32]:
    """The margin of each group's best outcome over its second best, on that trajectory alone.

    A_best = R_(1) - R_(2) [/ (std_g + eps)], 0 elsewhere; a tie for the best gives 0.

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        scale: whether the margin is divided by the group's deviation.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.
        singleton: what a trajectory that is alone in its group gets: 0, or its outcome ("raw"; over 1 + eps where a
            scale is applied).
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviation.

    Returns:
        float32 `[n]`. [0.2, 0.9, 0.5] in one group gives [0, 0.4, 0].

    Raises:
        NonFiniteError, UnsupportedError, ShapeError: as `grpo`.

    Source:
        Tang et al. 2025, Optimizing Language Models for Inference Time Objectives using Reinforcement Learning, arXiv
        2503.19595, as verl's `grpo_passk` has it; verl refuses a group of one.
    """
    as_choice("scale", scale, "none", "std")
    found = trajectories("rewards", rewards, group, trajectory)
    order, offsets = found.ranked()
    sizes = found.sizes()
    outcomes = found.values.astype(np.float64)
    best = order[offsets[:-1]]
    margin = outcomes[best]
    several = sizes > 1
    with np.errstate(over="ignore"):
        margin[several] -= outcomes[order[offsets[:-1][several] + 1]]
    if singleton != "raw":
        margin[~several] = 0
    advantages = np.zeros(len(outcomes))
    advantages[best] = margin
    deviation: Any = "none"
    if scale == "std":
        with blamed("rewards", best if found.first_row is None else found.first_row[best]):
            spread = segment_reduce(outcomes[order], offsets, "std", ddof=ddof)
        deviation = np.where(several, spread, 1)[found.group]
    return replace(found, values=advantages).normalized(
        center="none", scale=deviation, singleton=singleton, ddof=ddof, eps=eps
    )

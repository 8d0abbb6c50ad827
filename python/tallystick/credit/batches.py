"""What a batch can teach: which groups differ, how many there are, and what an answer pays for its length."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick._arrays import as_number, as_reals, narrowed, require_finite
from tallystick.credit._trajectories import blamed, trajectories
from tallystick.errors import UnsupportedError
from tallystick.ragged import segment_reduce


def informative_groups(
    accuracy: Any,
    group: Any,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    tolerance: float = 1e-6,
    trajectory: Any = None,
) -> NDArray[np.bool_]:
    """True on the rows of groups from which something can be learnt; whole groups stay or go.

    A group stays iff low < mean_g < high and max_g - min_g > tolerance.

    Args:
        accuracy: real `[n]`, the metric of each row; a trajectory of several rows repeats its own on each. With a
            penalty in it, groups whose answers are all right differ.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        low: lower end of the band of mean accuracies that stay, exclusive.
        high: upper end, exclusive.
        tolerance: spread up to which values count as equal, so that rounding keeps no group.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.

    Returns:
        bool `[n]`. [1, 0] in one group and [1, 1] in another give [True, True, False, False].

    Raises:
        NonFiniteError: a NaN or an infinity among `accuracy`; a bound that is NaN.
        UnsupportedError: rows of one trajectory carry different values; an empty band; a negative `tolerance`.
        ShapeError: columns of different lengths.

    Source:
        Yu et al. 2025, DAPO, arXiv 2503.14476, "dynamic sampling".
    """
    lowest, highest = as_number("low", low, finite=False), as_number("high", high, finite=False)
    if not lowest < highest:
        raise UnsupportedError(f"`low` must be below `high`, found {low} and {high}", "low")
    noise = as_number("tolerance", tolerance)
    if noise < 0:
        raise UnsupportedError(f"`tolerance` must not be negative, found {tolerance}", "tolerance")
    found = trajectories("accuracy", accuracy, group, trajectory, warn=False)
    order, offsets = found.ranked()
    best = order[offsets[:-1]]
    with blamed("accuracy", best if found.first_row is None else found.first_row[best]):
        means = segment_reduce(found.values[order], offsets, "mean")
    keep = (lowest < means) & (means < highest) & (found.spreads() > noise)
    return found.to_rows(keep[found.group])


def group_metrics(rewards: Any, group: Any, *, trajectory: Any = None) -> dict[str, float]:
    """How many groups there are, and the share of them that are of size one and that can be learnt from.

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.

    Returns:
        "groups/count"; "groups/size1_frac", 1 where each rollout has an id of its own in place of its prompt's;
        "groups/informative_frac", the share of groups whose outcomes differ. Shares of no group are 0.

    Raises:
        NonFiniteError, UnsupportedError, ShapeError: as `grpo`.
    """
    found = trajectories("rewards", rewards, group, trajectory, warn=False)
    count = max(found.n_groups, 1)
    return {
        "groups/count": float(found.n_groups),
        "groups/size1_frac": float(np.count_nonzero(found.sizes() == 1) / count),
        "groups/informative_frac": float(np.count_nonzero(found.spreads()) / count),
    }


def overlong_penalty(
    length: Any, *, max_length: int, buffer: int, factor: float = 1.0, floor: float | None = -1.0
) -> NDArray[np.float32]:
    """What an answer that comes near the length limit pays, to be added to its reward.

    factor * min(0, max(floor, (max_length - buffer - L) / buffer)).

    Args:
        length: real `[n]`, tokens of each answer, not negative.
        max_length: the length at which the full penalty is reached, in tokens.
        buffer: the stretch before it over which the penalty grows, in tokens, above 0 and at most `max_length`.
        factor: penalty at `max_length`, not negative.
        floor: the least value before `factor`, not above 0; -1 as in the paper, None for the open code, which has none.

    Returns:
        float32 `[n]`. With max_length 120 and buffer 20, lengths [100, 110, 130] give [0, -0.5, -1].

    Raises:
        NonFiniteError: a NaN or an infinity among `length`.
        UnsupportedError: a number outside its range.

    Source:
        Yu et al. 2025, DAPO, arXiv 2503.14476, "soft overlong punishment".
    """
    stretch, limit, most = as_number("buffer", buffer), as_number("max_length", max_length), as_number("factor", factor)
    if not 0 < stretch <= limit:
        raise UnsupportedError(
            f"`buffer` must be above 0 and at most `max_length`, found {buffer} and {max_length}", "buffer"
        )
    if most < 0:
        raise UnsupportedError(f"`factor` must not be negative, found {factor}", "factor")
    least = None if floor is None else as_number("floor", floor)
    if least is not None and least > 0:
        raise UnsupportedError(f"`floor` must not be above 0, found {floor}", "floor")
    tokens = as_reals("length", length).astype(np.float64, copy=False)
    require_finite("length", tokens)
    if (tokens < 0).any():
        row = int(np.argmax(tokens < 0))
        raise UnsupportedError(f"`length` must not be negative, found {tokens[row]} at row {row}", "length", row)
    with np.errstate(over="ignore"):
        overlong = np.minimum((limit - stretch - tokens) / stretch, 0)
        if least is not None:
            overlong = np.maximum(overlong, least)
        narrowed("length", overlong)
        return narrowed("factor", most * overlong)

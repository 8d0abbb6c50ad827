"""Advantages of tokens: ragged rewards in, advantages and returns out."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tallystick import _native
from tallystick._arrays import (
    as_choice,
    as_flag,
    as_integers,
    as_mask,
    as_number,
    as_reals,
    narrowed,
    require_finite,
    require_length,
    require_offsets,
)
from tallystick.credit._trajectories import blamed, trajectories
from tallystick.credit.outcome import Singleton
from tallystick.errors import CapacityError, UnsupportedError
from tallystick.ragged import reverse_scan

DeadRewards = Literal["move", "drop"]
Tokens = tuple[NDArray[np.float32], NDArray[np.float32]]


def gae(
    rewards: Any,
    values: Any,
    offsets: Any,
    *,
    gamma: float,
    lam: float,
    mask: Any,
    dead_rewards: DeadRewards = "move",
    whiten: bool = False,
) -> Tokens:
    """Generalised advantages of tokens against a value model, and the returns that it should have predicted.

    A_t = r_t + gamma * V_{t+1} - V_t + gamma * lam * A_{t+1}, where t+1 is the next live token of the row and V and A
    are 0 after the last; returns are A + V, before whitening.

    Args:
        rewards: real `[L]`, the reward on each token.
        values: real `[L]`, the value model's prediction at each token; those on dead tokens are not used.
        offsets: int `[n + 1]`, row i is tokens offsets[i] to offsets[i + 1].
        gamma: discount of one live token.
        lam: share of the next advantage; 0 is one step, 1 the whole return.
        mask: bool `[L]`, True on tokens that the model wrote; None where it wrote all.
        dead_rewards: "move": a reward on a dead token counts on the last live token before it in the row (on the first
            live one where none stands before), as a verdict written on a tool's output does; "drop" loses it.
        whiten: whether `whitened` is applied to the advantages.

    Returns:
        advantages, returns: float32 `[L]` each, 0 on dead tokens. Rewards [0, 1], values [0.5, 0.5], gamma 1, lam 0
        give advantages [0, 0.5] and returns [0.5, 1].

    Raises:
        NonFiniteError: a NaN or an infinity on a live token.
        UnsupportedError: `gamma` or `lam` is not finite, or `dead_rewards` is unknown.
        ShapeError: columns of different lengths, or offsets that do not fit them.

    Source:
        Schulman et al. 2015, High-Dimensional Continuous Control Using Generalized Advantage Estimation, arXiv
        1506.02438, equation 16; live tokens, "drop" and whitening as in verl.
    """
    starts = as_integers("offsets", offsets)
    live = None if mask is None else as_mask("mask", mask)
    earned = _settled(as_reals("rewards", rewards).astype(np.float64, copy=False), starts, live, dead_rewards)
    predicted = as_reals("values", values).astype(np.float64, copy=False)
    discount, share = as_number("gamma", gamma), as_number("lam", lam)
    try:
        advantages, returns = _native.gae(earned, predicted, starts, discount, share, live)
        return _finished(advantages, live, whiten), narrowed("rewards", returns)
    except UnsupportedError as failure:
        used = predicted if live is None else predicted[live]
        if failure.argument != "rewards" or np.abs(used).max() <= np.abs(earned).max():
            raise
        raise UnsupportedError(
            f"`values` give a result too large for a float at index {failure.index}", "values", failure.index
        ) from None


def reinforce_pp(
    rewards: Any,
    offsets: Any,
    *,
    gamma: float = 1.0,
    mask: Any,
    dead_rewards: DeadRewards = "move",
    whiten: bool = False,
) -> Tokens:
    """Discounted returns of tokens, which are their own advantages, whitened over the batch where asked.

    R_t = r_t + gamma * R_{t+1}, where t+1 is the next live token of the row.

    Args:
        rewards: real `[L]`, the reward on each token.
        offsets: int `[n + 1]`, row i is tokens offsets[i] to offsets[i + 1].
        gamma: discount of one live token.
        mask: bool `[L]`, True on tokens that the model wrote; None where it wrote all.
        dead_rewards: what becomes of a reward on a dead token, as in `gae`.
        whiten: whether `whitened` is applied to the advantages, as the paper does.

    Returns:
        advantages, returns: float32 `[L]` each, 0 on dead tokens. Rewards [0, 0, 1] with mask [1, 0, 1] and gamma 0.5
        give [0.5, 0, 1].

    Raises:
        NonFiniteError, UnsupportedError, ShapeError: as `gae`.

    Source:
        Hu 2025, REINFORCE++, arXiv 2501.03262.
    """
    starts = as_integers("offsets", offsets)
    live = None if mask is None else as_mask("mask", mask)
    earned = _settled(as_reals("rewards", rewards).astype(np.float64, copy=False), starts, live, dead_rewards)
    discount = as_number("gamma", gamma)
    with blamed("rewards"):
        returns = reverse_scan(earned, starts, discount, mask=live)
    return _finished(returns, live, whiten), narrowed("rewards", returns)


def reinforce_pp_baseline(
    rewards: Any,
    group: Any,
    offsets: Any,
    *,
    mask: Any,
    trajectory: Any = None,
    singleton: Singleton = "zero",
    whiten: bool = False,
) -> Tokens:
    """Outcomes minus the mean of their group on each live token of the row, whitened over the batch where asked.

    A_t = R_i - mean_g for each live token t of row i; whitening counts tokens, so that long rows weigh more.

    Args:
        rewards: real `[n]`, the outcome of each row; a trajectory of several rows repeats its own on each.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        offsets: int `[n + 1]`, row i is tokens offsets[i] to offsets[i + 1].
        mask: bool `[L]`, True on tokens that the model wrote; None where it wrote all.
        trajectory: `[n]`, any column, counted inside its group; None: every row is a trajectory.
        singleton: what a trajectory that is alone in its group gets before whitening: 0, or its outcome ("raw").
        whiten: whether `whitened` is applied to the advantages, as the paper does.

    Returns:
        advantages, returns: float32 `[L]` each, 0 on dead tokens; returns are the advantages before whitening. Outcomes
        [1, 0] of one group, rows of 1 and 2 tokens: [0.5, -0.5, -0.5].

    Raises:
        NonFiniteError, UnsupportedError: as `grpo`.
        ShapeError: columns of different lengths, or offsets that do not fit them.
        CapacityError: offsets that ask for more tokens than memory holds.

    Source:
        Hu 2025, REINFORCE++, arXiv 2501.03262, the variant with a group baseline; singleton "raw" in verl.
    """
    found = trajectories("rewards", rewards, group, trajectory)
    centred = found.normalized(scale="none", singleton=singleton)
    starts = as_integers("offsets", offsets)
    require_length("offsets", starts, len(centred) + 1, "one more than rows")
    require_offsets(starts)
    live = None if mask is None else as_mask("mask", mask)
    if live is not None:
        require_length("mask", live, int(starts[-1]), "one per token, the last of `offsets`")
    try:
        returns = np.repeat(centred, np.diff(starts))
    except (MemoryError, ValueError) as failure:
        raise CapacityError(f"`offsets` ask for {starts[-1]} tokens: {failure}", "offsets") from failure
    if live is not None:
        returns[~live] = 0
    return _finished(returns, live, whiten), returns


def whitened(values: Any, mask: Any = None, *, eps: float = 1e-8) -> NDArray[np.float32]:
    """Values of live positions with mean 0 and deviation 1 over all of them.

    (x - mean) / sqrt(var + eps), var with Bessel's correction. Equal values, and a value that is alone, give 0.

    Args:
        values: real `[L]`.
        mask: bool `[L]`, True on live positions; None where all are.
        eps: added to the variance, inside the root; not negative.

    Returns:
        float32 `[L]`, 0 on dead positions. [0, 2] gives [-0.707, 0.707].

    Raises:
        NonFiniteError: a NaN or an infinity on a live position.
        UnsupportedError: values too large to be squared, or so close that their variance is 0 and `eps` too; a negative
            `eps`.
        ShapeError: columns of different lengths.

    Source:
        `masked_whiten` of verl, which refuses a value that is alone. OpenRLHF, the code of REINFORCE++'s author,
        divides by the number of positions instead and floors the variance at 1e-8.
    """
    array = as_reals("values", values).astype(np.float64, copy=False)
    live = np.ones(len(array), dtype=np.bool_) if mask is None else as_mask("mask", mask)
    require_length("mask", live, len(array), "one per value")
    require_finite("values", array, live)
    softening = as_number("eps", eps)
    if softening < 0:
        raise UnsupportedError(f"`eps` must not be negative, found {eps}", "eps")
    out = np.zeros(len(array), dtype=np.float32)
    xs = array[live]
    if len(xs) > 1 and xs.min() != xs.max():
        with np.errstate(over="ignore", invalid="ignore"):
            centred = xs - xs.mean()
            variance = centred @ centred / (len(xs) - 1) + softening
        if not 0 < variance < np.inf:
            index = int(np.flatnonzero(live)[np.argmax(np.abs(xs))])
            raise UnsupportedError(
                f"`values` must have a variance that float64 can hold, found {array[index]} at index {index}",
                "values",
                index,
            )
        out[live] = centred / np.sqrt(variance)
    return out


def _settled(
    rewards: NDArray[np.float64],
    offsets: NDArray[np.int64],
    live: NDArray[np.bool_] | None,
    dead_rewards: DeadRewards,
) -> NDArray[np.float64]:
    """The rewards that live tokens earn."""
    as_choice("dead_rewards", dead_rewards, "move", "drop")
    if live is None or dead_rewards == "drop":
        return rewards
    return _native.rewards_on_live(rewards, offsets, live)


def _finished(
    advantages: NDArray[np.floating[Any]], live: NDArray[np.bool_] | None, whiten: bool
) -> NDArray[np.float32]:
    with blamed("rewards"):
        return whitened(advantages, live) if as_flag("whiten", whiten) else narrowed("rewards", advantages)

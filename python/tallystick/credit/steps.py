"""Advantages of steps, compared with the group's other steps in the same state, or for the same purpose."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tallystick._arrays import (
    as_choice,
    as_integers,
    as_number,
    as_reals,
    as_text,
    narrowed,
    require_finite,
    require_length,
)
from tallystick.credit._trajectories import blamed, trajectories, trajectory_ids
from tallystick.credit.outcome import Singleton
from tallystick.errors import UnsupportedError
from tallystick.groups import group_normalize, ids_of
from tallystick.ragged import reverse_scan


def outcomes(rewards: Any, group: Any, trajectory: Any) -> NDArray[np.float64]:
    """The sum of the rewards of each row's trajectory, on every one of its rows.

    Args:
        rewards: real `[n]`, the reward of each step.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        trajectory: `[n]`, any column, counted inside its group.

    Returns:
        float64 `[n]`. Rewards [0, 1, 0] with trajectories [0, 0, 1] in one group give [1, 1, 0].

    Raises:
        NonFiniteError: a NaN or an infinity among `rewards`.
        ShapeError: columns of different lengths.
    """
    earned, groups = _rewards_and_groups(rewards, group)
    ids, count = trajectory_ids(groups, trajectory)
    totals = np.bincount(ids, weights=earned, minlength=count).astype(np.float64, copy=False)[ids]
    if not np.isfinite(totals).all():
        row = int(np.argmax(~np.isfinite(totals)))
        raise UnsupportedError(f"`rewards` give a sum too large for a float at index {row}", "rewards", row)
    return totals


def step_returns(rewards: Any, group: Any, trajectory: Any, *, step: Any, gamma: float) -> NDArray[np.float64]:
    """The discounted sum of the rewards from each step to the end of its trajectory.

    G_t = r_t + gamma * G_{t+1}, where t+1 is the trajectory's next row in the order of `step`; rows may stand in any
    order, and a number that is missing between two steps adds no discount.

    Args:
        rewards: real `[n]`, the reward of each step.
        group: `[n]`, any column that `group_ids` takes: the prompt.
        trajectory: `[n]`, any column, counted inside its group.
        step: int `[n]`, orders the rows of a trajectory; no two rows of one trajectory share a step.
        gamma: discount of one step.

    Returns:
        float64 `[n]`. Rewards [0, 0, 1] of one trajectory with gamma 0.5 give [0.25, 0.5, 1].

    Raises:
        NonFiniteError: a NaN or an infinity among `rewards`.
        UnsupportedError: two rows of one trajectory share a step.
        ShapeError: columns of different lengths.
    """
    earned, groups = _rewards_and_groups(rewards, group)
    ids, count = trajectory_ids(groups, trajectory)
    steps = as_integers("step", step)
    require_length("step", steps, len(earned), "one per row")
    order = np.lexsort((steps, ids))
    twice = (ids[order[1:]] == ids[order[:-1]]) & (steps[order[1:]] == steps[order[:-1]])
    if twice.any():
        at = int(np.argmax(twice))
        first, second = sorted((int(order[at]), int(order[at + 1])))
        raise UnsupportedError(
            f"`step` must differ among the rows of a trajectory, found {steps[second]} at rows {first} and {second}",
            "step",
            second,
        )
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=count))])
    returns = np.empty(len(earned))
    discount = as_number("gamma", gamma)
    with blamed("rewards", order):
        returns[order] = reverse_scan(earned[order], offsets, discount)
    return returns


def gigpo(
    rewards: Any,
    group: Any,
    trajectory: Any,
    state: Any,
    *,
    step: Any,
    outcome: Any = None,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    scale: Literal["none", "std"] = "none",
    weight: Literal["trajectory", "row"] | None = None,
    compat: Literal["verl-agent"] | None = None,
    singleton: Singleton | None = None,
    ddof: int = 1,
    eps: float = 1e-6,
) -> NDArray[np.float32]:
    """A trajectory's outcome against its group, plus each step's return against steps taken in the same state.

    A = A_E + step_weight * A_S, where A_E = (R - mean_group)[/ (std_group + eps)] compares outcomes and
    A_S = (G - mean_anchor)[/ (std_anchor + eps)] compares the `step_returns` G of all rows of the group, of whatever
    trajectory, that were taken in the same state. A state that was seen once gives A_S = 0.

    Args:
        rewards: real `[n]`, the reward of each step. Rows may stand in any order.
        group: `[n]`, any column that `group_ids` takes: the prompt or task.
        trajectory: `[n]`, any column, counted inside its group.
        state: `[n]`, any column that `group_ids` takes, the keys of `states.keys` included: what was observed before
            the step. Equal states of different groups never meet.
        step: int `[n]`, orders the rows of a trajectory; gaps are allowed, repetitions are not.
        outcome: real `[n]`, R on each row of its trajectory. None: the sum of the trajectory's rewards. With
            `weight="row"` it may differ among the rows of a trajectory.
        gamma: discount of one step in G.
        step_weight: factor of the step term.
        scale: whether both terms are divided by their group's deviation.
        weight: what counts once in the statistics of A_E: a trajectory, or each of its rows, so that long ones weigh
            more. Those of A_S always count rows. None: "trajectory", or what `compat` asks for.
        compat: "verl-agent" gives the numbers of the authors' code: `weight` "row" and `singleton` "raw"; any other
            value of these two is refused beside it.
        singleton: A_E of what is alone in its group: 0 ("zero"), or its outcome ("raw"; over 1 + eps with
            `scale="std"`). None: "zero", or what `compat` asks for.
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviations.

    Returns:
        float32 `[n]`. In one group, trajectory a: states A, B, rewards 0, 1; trajectory b: state A, reward 0. With
        gamma 0.5, G = [0.5, 1, 0]; A_E = [0.5, 0.5, -0.5]; anchor A holds G 0.5 and 0; A = [0.75, 0.5, -0.75].

    Raises:
        NonFiniteError: a NaN or an infinity among `rewards` or `outcome`.
        UnsupportedError: two rows of one trajectory share a step, or differ in `outcome` with `weight="trajectory"`; a
            `weight` or `singleton` that `compat` contradicts.
        ShapeError: columns of different lengths.

    Source:
        Feng et al. 2025, Group-in-Group Policy Optimization for LLM Agent Training, arXiv 2505.10978, equations 3 to 8.

        What `gigpo/core_gigpo.py` of verl-agent does otherwise, and what `compat` makes of it:

        - Mean and deviation of A_E run over rows, so that a long trajectory weighs more; reproduced. A group of one row
          keeps its outcome; reproduced.
        - Its outcome is each row's own token reward, from which the trainer has taken a penalty for an invalid action
          of that very row; reproduced by passing such an `outcome`. The same penalty leaves the row's return after
          discounting and does not reach earlier steps; not reproduced: a penalty inside `rewards` is discounted.
        - Rows of a trajectory are discounted in the order in which they are stored; here `step` orders them.
        - States meet by Python's equality, which merges 1, 1.0 and True, a list and a tuple, a dict and the tuple of
          its sorted items, and arrays of equal elements but different shapes; no NaN equals another. Here two states
          meet where `group_ids` says that they are equal.
        - It computes in float32, where equal rewards may leave a residue of rounding over eps; here exactly 0.
        - Its optional grouping of similar texts is `states.text_clusters`, whose ids are a `state` as well.
    """
    as_choice("scale", scale, "none", "std")
    if compat is not None:
        as_choice("compat", compat, "verl-agent")
    counted = as_choice("weight", _agreed("weight", weight, "trajectory", "row", compat), "trajectory", "row")
    alone = _agreed("singleton", singleton, "zero", "raw", compat)
    returns = step_returns(rewards, group, trajectory, step=step, gamma=gamma)
    found = trajectories(
        "rewards" if outcome is None else "outcome",
        outcomes(rewards, group, trajectory) if outcome is None else outcome,
        group,
        trajectory if counted == "trajectory" else None,
    )
    episode = found.normalized(scale=scale, singleton=alone, ddof=ddof, eps=eps)
    anchors, _ = ids_of(group=group, state=state)
    with blamed("rewards"):
        met = group_normalize(returns, anchors, scale=scale, ddof=ddof, eps=eps)
    return _sum(episode, step_weight, met)


def tag_groups(
    rewards: Any,
    group: Any,
    tag: Any,
    *,
    outcome: Any,
    step_weight: float = 1.0,
    scale: Literal["std", "none"] = "std",
    trajectory: Any = None,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> NDArray[np.float32]:
    """A trajectory's outcome against its group, plus each step's reward against steps of the group with the same tag.

    A = A_E + step_weight * A_T, where A_E = (R - mean_group)[/ (std_group + eps)] compares outcomes and
    A_T = (r - mean_tag)[/ (std_tag + eps)] the rewards of all rows of the group that carry the same tag, undiscounted.

    Args:
        rewards: real `[n]`, the reward of each step for what its tag promises.
        group: `[n]`, any column that `group_ids` takes: the prompt or task.
        tag: `[n]`, any column that `group_ids` takes: the purpose of the step, as plan, explore, reflect.
        outcome: real `[n]`, R on each row of its trajectory.
        step_weight: factor of the tag term.
        scale: whether both terms are divided by their group's deviation.
        trajectory: `[n]`, any column, counted inside its group; a trajectory enters the statistics of A_E once. None:
            every row counts, as in the reference.
        singleton: either term where a row, or its trajectory, is alone: 0, or its value ("raw"; over 1 + eps with
            `scale="std"`), as in the reference.
        ddof: 1 for the sample deviation, 0 for the population's.
        eps: added to the deviations.

    Returns:
        float32 `[n]`. Outcomes [1, 0], rewards [1, 0], one tag, one group, `scale="none"`: [1, -1].

    Raises:
        NonFiniteError: a NaN or an infinity among `rewards` or `outcome`.
        UnsupportedError: rows of one trajectory carry different outcomes.
        ShapeError: columns of different lengths.

    Source:
        Zhang et al. 2025, RLVMR: Reinforcement Learning with Verifiable Meta-Reasoning Rewards, arXiv 2507.22844, and
        its code: `step_weight` 1 in the scripts, 0.5 in the configuration; statistics over rows; singleton "raw".
    """
    as_choice("scale", scale, "std", "none")
    earned, groups = _rewards_and_groups(rewards, group)
    found = trajectories("outcome", outcome, groups, trajectory)
    episode = found.normalized(scale=scale, singleton=singleton, ddof=ddof, eps=eps)
    tags, _ = ids_of(group=groups, tag=tag)
    with blamed("rewards"):
        tagged = group_normalize(earned, tags, scale=scale, singleton=singleton, ddof=ddof, eps=eps)
    return _sum(episode, step_weight, tagged)


def _agreed(name: str, given: str | None, usual: str, compatible: str, compat: str | None) -> Any:
    """The value of an option that `compat` settles; another one beside it is refused."""
    if compat is None:
        return usual if given is None else given
    if given is not None and as_text(name, given) != compatible:
        raise UnsupportedError(
            f'`{name}` must be "{compatible}" with compat="{compat}", found {given!r}; leave out one of the two', name
        )
    return compatible


def _rewards_and_groups(rewards: Any, group: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    earned = as_reals("rewards", rewards).astype(np.float64, copy=False)
    require_finite("rewards", earned)
    groups, _ = ids_of(group=group)
    require_length("group", groups, len(earned), "one per row")
    return earned, groups


def _sum(episode: NDArray[np.float32], step_weight: float, steps: NDArray[np.float32]) -> NDArray[np.float32]:
    factor = as_number("step_weight", step_weight)
    with np.errstate(over="ignore", invalid="ignore"):
        total = episode.astype(np.float64) + factor * steps
    return narrowed("step_weight" if abs(factor) > 1 else "rewards", total)

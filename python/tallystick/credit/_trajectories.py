"""Outcome statistics count trajectories: rows become trajectories, and a trajectory's value goes back to its rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick._arrays import as_reals, require_finite, require_length
from tallystick.errors import SingletonGroupsWarning, TallystickError, UnsupportedError
from tallystick.groups import group_normalize, ids_of


@dataclass(frozen=True)
class Trajectories:
    """One entry per trajectory, in order of first appearance.

    Args:
        argument: what the user passed the outcomes as.
        values: real `[m]`, the outcome of each.
        group: int64 `[m]`, dense group id of each.
        n_groups: number of groups.
        of_row: int64 `[n]`, the trajectory of each row; None where every row is a trajectory.
        first_row: int64 `[m]`, the first row of each trajectory; None where every row is a trajectory.
    """

    argument: str
    values: NDArray[Any]
    group: NDArray[np.int64]
    n_groups: int
    of_row: NDArray[np.int64] | None
    first_row: NDArray[np.int64] | None

    def normalized(self, **rules: Any) -> NDArray[np.float32]:
        """float32 `[n]`: the outcomes centred and scaled as `group_normalize` does it, on every row."""
        with blamed(self.argument, self.first_row):
            return self.to_rows(group_normalize(self.values, self.group, **rules))

    def to_rows(self, per_trajectory: NDArray[Any]) -> NDArray[Any]:
        """`[m]` to `[n]`: the value of a row's trajectory."""
        return per_trajectory if self.of_row is None else per_trajectory[self.of_row]

    def sums(self, per_row: NDArray[Any]) -> NDArray[Any]:
        """`[n]` to `[m]`: the total over a trajectory's rows."""
        if self.of_row is None:
            return per_row
        return np.bincount(self.of_row, weights=per_row, minlength=len(self.values))

    def sizes(self) -> NDArray[np.int64]:
        """int64 `[n_groups]`, the number of trajectories in each group."""
        return np.bincount(self.group, minlength=self.n_groups)

    def ranked(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Trajectories group by group, best outcome first and ties in order of appearance, with the groups' offsets."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes())])
        return np.lexsort((-self.values, self.group)), offsets

    def spreads(self) -> NDArray[np.float64]:
        """`[n_groups]`, greatest minus least outcome: exactly 0 where all are equal."""
        order, offsets = self.ranked()
        ranked = self.values[order].astype(np.float64)
        with np.errstate(over="ignore"):
            return ranked[offsets[:-1]] - ranked[offsets[1:] - 1]


def trajectories(argument: str, values: Any, group: Any, trajectory: Any, *, warn: bool = True) -> Trajectories:
    """The trajectories of rows whose `values` are outcomes, the same on each row of a trajectory.

    `trajectory` counts inside its group: local numbers (0, 1, 2 in every group) and global ones give the same result.
    """
    outcomes = as_reals(argument, values)
    require_finite(argument, outcomes)
    groups, n_groups = ids_of(group=group)
    require_length("group", groups, len(outcomes), "one per row")
    of_row = first = None
    if trajectory is not None:
        of_row, count = trajectory_ids(groups, trajectory)
        first = np.empty(count, dtype=np.int64)
        first[of_row[::-1]] = np.arange(len(of_row))[::-1]
        differs = outcomes != outcomes[first][of_row]
        if differs.any():
            row = int(np.argmax(differs))
            raise UnsupportedError(
                f"`{argument}` must be the outcome of the trajectory on each of its rows, found {outcomes[row]} at row "
                f"{row} after {outcomes[first[of_row[row]]]}; credit.outcomes sums the rewards of steps",
                argument,
                row,
            )
        outcomes, groups = outcomes[first], groups[first]
    if warn and n_groups == len(outcomes) > 1:
        warnings.warn(
            f"each of the {n_groups} groups holds one trajectory, so nothing can be compared: "
            "is `group` the id of the prompt, or of the rollout?",
            SingletonGroupsWarning,
            stacklevel=3,
        )
    return Trajectories(argument, outcomes, groups, n_groups, of_row, first)


@contextmanager
def blamed(argument: str, places: NDArray[np.int64] | None = None) -> Iterator[None]:
    """Names the user's argument where a column that was made from it turns out too large.

    Such a column is finite and of the right length when it is handed on as `x` or `values`, so that nothing else can be
    wrong with it. `places` gives the place in the argument of each of its entries; None: the same.
    """
    try:
        yield
    except TallystickError as failure:
        if failure.argument not in ("x", "values"):
            raise
        index = failure.index if places is None or failure.index is None else int(places[failure.index])
        raise UnsupportedError(
            f"`{argument}` gives a result too large for a float at index {index}", argument, index
        ) from None


def trajectory_ids(group: NDArray[np.int64], trajectory: Any) -> tuple[NDArray[np.int64], int]:
    """Dense id of each row's trajectory, scoped by group, and their number."""
    return ids_of(group=group, trajectory=trajectory)

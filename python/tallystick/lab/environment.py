"""What an environment of the lab must do, and the lockstep driver that keeps one failure from costing a rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Observation:
    """What a player sees.

    Args:
        text: the observation itself, as the policy reads it.
        admissible: the commands that `step` will take, where the environment knows them; empty where anything goes.
    """

    text: str
    admissible: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepResult:
    """What one command led to.

    Args:
        observation: what is seen afterwards; not read once `done`.
        reward: paid for this step; an episode's outcome is the sum over its steps, and it succeeded if that is >= 1.
        done: the episode is over (success, failure or horizon).
    """

    observation: Observation
    reward: float
    done: bool


class Environment(Protocol):
    """A deterministic text game: the same task and the same commands give the same observations and rewards.

    Anything that `reset` or `step` raises costs that one episode only (see `Episodes`).
    """

    def reset(self, task: Any) -> Observation:
        """The first observation of `task`, an entry of the suite's task lists; forgets whatever was played before."""

    def step(self, text: str) -> StepResult:
        """Plays one command; a command that cannot be carried out is answered, not raised."""

    def snapshot(self) -> Any:
        """The present state as an immutable value; where the engine cannot give one, (task, commands so far)."""

    def restore(self, snapshot: Any) -> Observation:
        """Puts the environment back to `snapshot` and returns what was seen there."""

    def state_key(self) -> str:
        """The name of the present state, equal for two states of one task iff step credit may compare them.

        It is read before each `step`, and scoped by task where it is used.
        """


@dataclass(frozen=True)
class Dropped:
    """An episode that was given up because its environment raised.

    Args:
        trajectory: its number.
        reason: type and text of what was raised.
    """

    trajectory: int
    reason: str


class Episodes:
    """Environments played in lockstep, and the step rows that they leave.

    Environment i plays `tasks[i]`, and i is the trajectory's number. One that raises is dropped and its rows with it.

    Args:
        environments: one an episode, as many as `tasks`.
        tasks: what each is reset to.

    Attributes:
        observations: the latest observation of each episode; the last one seen where it is over.
        live: numbers of the episodes that still play, ascending.
        dropped: the episodes that were given up, in the order of their failures.
        length: int64, steps that each episode has played.
    """

    def __init__(self, environments: Sequence[Environment], tasks: Sequence[Any]) -> None:
        self._environments = environments
        self._states: list[list[str]] = [[] for _ in tasks]
        self._rewards: list[list[float]] = [[] for _ in tasks]
        self.observations: list[Observation] = [Observation("")] * len(tasks)
        self.live: list[int] = list(range(len(tasks)))
        self.dropped: list[Dropped] = []
        self.length = np.zeros(len(tasks), dtype=np.int64)
        for i, task in enumerate(tasks):
            try:
                self.observations[i] = environments[i].reset(task)
            except Exception as failure:  # whatever an environment raises costs its episode, nothing else
                self._drop(i, failure)

    def step(self, commands: Mapping[int, str]) -> None:
        """Plays one command in each episode named; `live` shrinks by what ended or failed.

        Args:
            commands: trajectory number to command; every one of `live` has an entry.
        """
        for i in list(self.live):
            environment = self._environments[i]
            try:
                state = environment.state_key()
                result = environment.step(commands[i])
            except Exception as failure:  # as above
                self._drop(i, failure)
                continue
            self._states[i].append(state)
            self._rewards[i].append(result.reward)
            self.length[i] += 1
            self.observations[i] = result.observation
            if result.done:
                self.live.remove(i)

    def kept(self) -> list[int]:
        """Numbers of the episodes that were not dropped, ascending."""
        gone = {d.trajectory for d in self.dropped}
        return [i for i in range(len(self._states)) if i not in gone]

    def rows(self, copies: int) -> StepRows:
        """The step rows of the kept episodes, trajectory by trajectory, each in order of its steps.

        Args:
            copies: episodes a group; episode i belongs to group i // copies.
        """
        kept = self.kept()
        lengths = self.length[kept]
        trajectory = np.repeat(np.asarray(kept, dtype=np.int64), lengths)
        starts = np.cumsum(lengths) - lengths
        first = np.full(len(self._states), -1, dtype=np.int64)
        first[kept] = starts
        return StepRows(
            group=trajectory // copies,
            trajectory=trajectory,
            step=np.arange(len(trajectory), dtype=np.int64) - np.repeat(starts, lengths),
            reward=np.array([r for i in kept for r in self._rewards[i]], dtype=np.float64),
            state=[s for i in kept for s in self._states[i]],
            first=first,
        )

    def _drop(self, trajectory: int, failure: Exception) -> None:
        self.live.remove(trajectory)
        self.dropped.append(Dropped(trajectory, f"{type(failure).__name__}: {failure}"))


@dataclass(frozen=True)
class StepRows:
    """One row a step that an environment took; n rows.

    Args:
        group: int64 [n], which task of the rollout; credit compares inside a group.
        trajectory: int64 [n], which episode; unique over the whole rollout.
        step: int64 [n], 0, 1, ... inside a trajectory.
        reward: float64 [n], paid for the step.
        state: n strings, `state_key()` before the step.
        first: int64 [episodes], index of an episode's step 0 in these rows, -1 where it was dropped.
            Row of (trajectory, step) = first[trajectory] + step.
    """

    group: NDArray[np.int64]
    trajectory: NDArray[np.int64]
    step: NDArray[np.int64]
    reward: NDArray[np.float64]
    state: list[str]
    first: NDArray[np.int64]

"""One iteration of RL: roll out, give credit, update; everything random in it is a function of seed and iteration."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tallystick import credit, groups, methods, objectives
from tallystick.errors import TallystickError, UnsupportedError
from tallystick.lab.clock import Clock
from tallystick.lab.config import Config
from tallystick.lab.policy import Policy
from tallystick.lab.rollouts import Rollouts
from tallystick.lab.suite import Noise, Suite
from tallystick.random import Stream

Metrics = dict[str, float]

_TURNS = 1 << 20  # draws of a trajectory, as `Noise` promises


class FailedEpisodesError(TallystickError):
    """So many episodes of a group raised that fewer than two are left to compare."""

    code = "environment"


class Trainer:
    """A policy, its optimiser and the iteration that changes them.

    Args:
        config: of the run.
        suite: that `config.env` names.
        clock: told where the time goes.
    """

    def __init__(self, config: Config, suite: Suite, clock: Clock) -> None:
        s = config.settings
        self.config, self.suite, self.clock = config, suite, clock
        self._stream = Stream(config.seed)
        self.policy = Policy(suite.policy, config.seed)
        self.optimizer = torch.optim.AdamW(
            self.policy.parameters(), lr=s.learning_rate, betas=s.betas, weight_decay=s.weight_decay, fused=True
        )
        self._rule = objectives.PPOClip(low=s.clip_low, high=s.clip_high)
        self._credit = CreditMethod(config)

    def iteration(self, number: int) -> Metrics:
        """Plays, learns, and returns what happened.

        Raises:
            FailedEpisodesError: a group kept fewer than two rollouts.
        """
        tasks = self._tasks(number)
        with self.clock("rollout"):
            rollouts = self.suite.rollout(
                self.policy, tasks, self.config.settings.copies, self._noise(number, "rollout")
            )
        self._require_pairs(rollouts)
        with self.clock("credit"), self.clock("tallystick"):
            advantages = self._credit(rollouts)
            measured = _measures(rollouts)
        with self.clock("update"):
            measured |= self._update(number, rollouts, advantages)
        return measured

    def evaluate(self) -> Metrics:
        """Held-out figures with noise that is the same at every iteration."""
        with self.clock("evaluation"), torch.no_grad():
            return self.suite.evaluate(self.policy, self._noise(0, "evaluation"))

    def _tasks(self, number: int) -> list[Any]:
        """The tasks of an iteration: each epoch deals all of them in an order of its own; a rest is left out."""
        available, wanted = len(self.suite.training), self.config.settings.tasks
        epoch, part = divmod(number, available // wanted)
        order = self._stream.permutation(available, epoch, "lab/tasks")
        return [self.suite.training[i] for i in order[part * wanted : (part + 1) * wanted]]

    def _noise(self, step: int, purpose: str) -> Noise:
        def drawn(ids: NDArray[np.int64], turn: int) -> NDArray[np.float64]:
            with self.clock("tallystick"):
                uniform: NDArray[np.float64] = self._stream.draw(step, ids * _TURNS + turn, f"lab/{purpose}")
                return uniform

        return drawn

    def _require_pairs(self, rollouts: Rollouts) -> None:
        group, _ = rollouts.outcomes()
        kept = np.bincount(group, minlength=self.config.settings.tasks)
        if (kept < 2).any():
            first = int(np.argmax(kept < 2))
            copies = self.config.settings.copies
            reason = next(d.reason for d in rollouts.dropped if d.trajectory // copies == first)
            raise FailedEpisodesError(
                f"group {first} kept {kept[first]} of {copies} rollouts, expected at least 2 to compare; "
                f"its first failure: {reason}",
                index=first,
            )

    def _update(self, number: int, rollouts: Rollouts, per_step: NDArray[np.float32]) -> Metrics:
        s = self.config.settings
        order = self._stream.permutation(len(rollouts.tokens), number, "lab/minibatches")
        credited = (np.where(rollouts.response_mask, per_step[rollouts.row], 0) != 0).any(1)
        totals: dict[str, float] = {}
        for rows in np.array_split(order, s.minibatches):
            counts = {
                "tokens": rollouts.response_mask[rows].sum(),
                "sequences": rollouts.response_mask[rows].any(1).sum(),
            }
            moving = rows[credited[rows]]  # the others count, but have no gradient and need no pass
            if len(moving) == 0:
                continue
            batch = rollouts.select(moving)
            log_probs = self.policy.score(
                torch.from_numpy(batch.tokens),
                torch.from_numpy(batch.slots),
                torch.from_numpy(batch.response_mask),
                None if batch.allowed is None else torch.from_numpy(batch.allowed),
            )
            with self.clock("tallystick"):
                loss, measured = objectives.policy_loss(
                    log_probs,
                    per_step[batch.row[batch.response_mask]],
                    np.ones(len(log_probs), dtype=bool),
                    rule=self._rule,
                    old_log_probs=batch.rollout_log_probs[batch.response_mask],
                    offsets=np.concatenate([[0], np.cumsum(batch.response_mask.sum(1))]),
                    aggregation=s.aggregation,
                    global_counts=counts,
                )
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), s.max_grad_norm)
            self.optimizer.step()
            seen = {**measured, "grad_norm": float(norm)}
            for name, value in seen.items():
                totals[name] = totals.get(name, 0.0) + value / s.minibatches
        return totals


class CreditMethod:
    """A row-level method of the table, given the columns that it asks for by name."""

    def __init__(self, config: Config) -> None:
        method = methods.get(config.method)
        self._method = method
        self._takes = inspect.signature(method.call).parameters
        settings = {"gamma": config.settings.gamma, "step_weight": config.settings.step_weight}
        self._settings = {name: value for name, value in settings.items() if name not in method.defaults}
        known = {"rewards", "group", "trajectory", "state", "step", "length", *self._settings}
        needed = {name for name, p in self._takes.items() if p.default is p.empty} - set(method.defaults)
        if "group" not in self._takes or not needed <= known:
            raise UnsupportedError(
                f"`method` must give credit to the rows of a group, from {', '.join(sorted(known))}; "
                f"{config.method!r} takes {', '.join(self._takes)}",
                "method",
            )

    def __call__(self, rollouts: Rollouts) -> NDArray[np.float32]:
        """float32 [n], the advantage of each step row."""
        steps = rollouts.steps
        outcome = credit.outcomes(steps.reward, steps.group, steps.trajectory)
        written = np.bincount(rollouts.row[rollouts.response_mask], minlength=len(steps.step))
        columns = {
            "rewards": steps.reward if "step" in self._takes else outcome,
            "group": steps.group,
            "trajectory": steps.trajectory,
            "state": steps.state,
            "step": steps.step,
            "length": written,
            **self._settings,
        }
        advantages: NDArray[np.float32] = self._method(**{n: v for n, v in columns.items() if n in self._takes})
        return advantages


def _measures(rollouts: Rollouts) -> Metrics:
    """What an iteration's rollouts say, before anything is learnt from them."""
    steps = rollouts.steps
    group, outcome = rollouts.outcomes()
    anchors, count = groups.group_ids(steps.group, steps.state)
    bucket = np.bincount(anchors, minlength=count)[anchors]
    return {
        "success": float((outcome >= 1.0).mean()),
        "reward": float(outcome.mean()),
        "entropy": float(-rollouts.rollout_log_probs[rollouts.response_mask].mean()),
        "useful_groups": credit.group_metrics(outcome, group)["groups/informative_frac"],
        "episode_steps": len(steps.step) / len(outcome),
        "shared_anchor_steps": float((bucket > 1).mean()),
        "mean_bucket": float(bucket.mean()),
        "dropped": float(len(rollouts.dropped)),
    }

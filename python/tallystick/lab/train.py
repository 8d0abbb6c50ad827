"""A run: a folder that holds everything, and the loop that can be stopped anywhere and goes on bit by bit the same."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from tallystick.errors import UnsupportedError
from tallystick.lab import checkpoint
from tallystick.lab.clock import Clock
from tallystick.lab.config import Config
from tallystick.lab.suite import Suite, suite
from tallystick.lab.trainer import Trainer

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
METRICS, TIMING = "metrics.jsonl", "timing.jsonl"
CHECKPOINT, START = "checkpoint.safetensors", "start.safetensors"
"""The latest checkpoint, and the weights that RL started from."""


@dataclass(frozen=True)
class Line:
    """One line of `metrics.jsonl` and its line of `timing.jsonl`.

    Args:
        iteration: iterations done; 0 is the policy that RL starts from.
        metrics: figures that depend on the configuration alone.
        held_out: held-out figures, empty where none were taken.
        seconds: wall time by stage.
    """

    iteration: int
    metrics: Mapping[str, float]
    held_out: Mapping[str, float]
    seconds: Mapping[str, float]


class Progress(Protocol):
    """Whoever watches a run."""

    def begin(self, config: Config, out: Path, done: int) -> None:
        """The run starts, or goes on after `done` iterations."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def line(self, line: Line) -> None:
        """An iteration is on disk."""


def started(config: Config, out: Path) -> Config:
    """Makes the folder of a new run and returns its configuration.

    Raises:
        UnsupportedError: the folder holds a run already.
    """
    if (out / CONFIG).exists():
        raise UnsupportedError(f"`out` {out} holds a run already: --resume {out} goes on with it", "out")
    out.mkdir(parents=True, exist_ok=True)
    _replace_text(out / CONFIG, config.to_json() + "\n")
    return config


def reopened(out: Path, asked: Mapping[str, Any]) -> Config:
    """The configuration of the run in `out`, checked against what is asked for now; a new length is kept there.

    Raises:
        CorruptionError: its configuration or its checkpoint cannot be read.
        UnsupportedError: no run there, or `asked` or an edited config.json differs from what the run was started with.
    """
    if not (out / CONFIG).exists():
        raise UnsupportedError(f"`resume` {out} holds no run: no {CONFIG} there", "resume")
    config = Config.from_json((out / CONFIG).read_text(), out / CONFIG)
    if (out / CHECKPOINT).exists():
        trained = Config.from_json(checkpoint.facts(out / CHECKPOINT).get("config", ""), out / CHECKPOINT)
        config = trained.continued(config.by_name(), out)
    config = config.continued(asked, out)
    _replace_text(out / CONFIG, config.to_json() + "\n")
    return config


def train(config: Config, out: Path, progress: Progress, *, made: Suite | None = None) -> None:
    """Runs, or goes on with, the run in `out` to its last iteration.

    Every iteration ends with a checkpoint, so that whatever stops the run costs at most the iteration under way, and
    the lines and weights that follow are those that would have followed.

    Args:
        config: of the run.
        out: its folder, made by `started`.
        progress: told about each line.
        made: the suite, where the caller has one; None: the one that `config.env` names.

    Raises:
        FailedEpisodesError: too many episodes of a group failed; what is on disk stays whole.
    """
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    clock = Clock()
    played = suite(config.env) if made is None else made
    try:
        trainer = Trainer(config, played, clock)
        played.tokenizer.save(str(out / TOKENIZER))
        done = _restored(trainer, out)
        progress.begin(config, out, max(done, 0))
        for number in range(done + 1, config.settings.iterations + 1):
            metrics = trainer.iteration(number - 1) if number else _first_weights(trainer, out, progress)
            due = number % config.settings.evaluate_every == 0 or number == config.settings.iterations
            held_out = trainer.evaluate() if due else {}
            line = Line(number, metrics, held_out, {})
            with clock("checkpoint"):
                _append(out / METRICS, {"iteration": number, **metrics, "held_out": held_out})
                checkpoint.write(
                    out / CHECKPOINT,
                    trainer.policy,
                    trainer.optimizer,
                    {"iteration": str(number), "config": config.to_json()},
                )
            line = replace(line, seconds=clock.lap())
            _append(out / TIMING, {"iteration": number, **line.seconds})
            progress.line(line)
    finally:
        played.close()


def lines(out: Path, name: str = METRICS) -> list[dict[str, Any]]:
    """The lines of a run's `metrics.jsonl` or `timing.jsonl`; a last line that was cut short is left out."""
    found = []
    for text in (out / name).read_text().splitlines():
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return found


def _restored(trainer: Trainer, out: Path) -> int:
    """Iterations done, -1 where there is no checkpoint yet; lines after the checkpoint are dropped."""
    done = -1
    if (out / CHECKPOINT).exists():
        done = int(checkpoint.read(out / CHECKPOINT, trainer.policy, trainer.optimizer)["iteration"])
    for name in (METRICS, TIMING):
        if (out / name).exists():
            kept = [line for line in lines(out, name) if line["iteration"] <= done]
            _replace_text(out / name, "".join(json.dumps(line) + "\n" for line in kept))
    return done


def _first_weights(trainer: Trainer, out: Path, progress: Progress) -> dict[str, float]:
    config, measured = trainer.config, {}
    if config.start:
        checkpoint.read(Path(config.start), trainer.policy, None)
        progress.note(f"weights of {config.start}")
    else:
        with trainer.clock("warm start"):
            measured = trainer.suite.warm_start(trainer.policy, config.seed, progress.note)
    checkpoint.write(out / START, trainer.policy, None, {})
    return measured


def _append(path: Path, line: Mapping[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _replace_text(path: Path, text: str) -> None:
    beside = path.with_suffix(path.suffix + ".partial")
    beside.write_text(text)
    beside.replace(path)

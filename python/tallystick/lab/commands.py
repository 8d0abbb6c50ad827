"""What the command line says: train, compare."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from tallystick.errors import TallystickError, UnsupportedError
from tallystick.lab import checkpoint, picture
from tallystick.lab.clock import Clock
from tallystick.lab.config import Config
from tallystick.lab.progress import LiveProgress, LogProgress, closing_table
from tallystick.lab.suite import suite
from tallystick.lab.train import CONFIG, METRICS, TIMING, lines, reopened, started, train
from tallystick.lab.trainer import Trainer

CURVE = "curve.png"
INTERRUPTED = 130
"""Exit code of a run that the user stopped."""


def run(asked: Mapping[str, Any], out: Path | None, resume: Path | None) -> int:
    """Trains a new run, or goes on with one, and returns the exit code.

    Args:
        asked: `method`, `env`, `seed`, `iterations` and `start` as the user gave them, None where not.
        out: folder of a new run; None makes a name under runs/.
        resume: folder of a run to go on with; None starts a new one.

    Raises:
        TallystickError: bad arguments, or a run that cannot go on; its folder stays resumable.
    """
    if resume is None:
        config = _config(asked)
        folder = _free_name(config) if out is None else out
        started(config, folder)
    else:
        folder = resume
        config = reopened(folder, asked)
    console = Console()
    try:
        with LiveProgress(console) if console.is_terminal else LogProgress() as progress:
            train(config, folder, progress)
    except KeyboardInterrupt:
        print(f"stopped; this goes on from the last whole iteration:\n  tallystick train --resume {folder}")
        return INTERRUPTED
    except TallystickError:
        print(f"what is in {folder} is whole: tallystick train --resume {folder}", file=sys.stderr)
        raise
    metrics = lines(folder)
    picture.curves({config.method: [metrics]}, folder / CURVE, f"{config.env}, seed {config.seed}")
    console.print(closing_table(config, folder, metrics, lines(folder, TIMING)))
    return 0


def compare(folders: Sequence[Path], out: Path) -> int:
    """Draws runs over one another, those of one method and environment in one colour, and prints their last figures.

    Raises:
        CorruptionError: the configuration of a run cannot be read.
        UnsupportedError: a folder holds no run, or one that has not come to its first line.
    """
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    for folder in folders:
        metrics = lines(folder) if (folder / METRICS).exists() and (folder / CONFIG).exists() else []
        if not metrics:
            raise UnsupportedError(f"`runs` {folder} holds no run: no {CONFIG}, or no line of {METRICS} there", "runs")
        config = Config.from_json((folder / CONFIG).read_text(), folder / CONFIG)
        runs.setdefault(f"{config.method} ({config.env})", []).append(metrics)
    out.parent.mkdir(parents=True, exist_ok=True)
    picture.curves(runs, out, "runs compared")
    for label, several in runs.items():
        ends = [next(line for line in reversed(run) if line["held_out"]) for run in several]
        shown = "  ".join(f"{line['held_out']['success']:.3f}@{line['iteration']}" for line in ends)
        mean = sum(line["held_out"]["success"] for line in ends) / len(ends)
        print(f"{label:<32} mean {mean:.3f} of {len(ends)}: {shown}")
    print(out)
    return 0


def _config(asked: Mapping[str, Any]) -> Config:
    """The configuration of a new run; what cannot be trained is refused here, before it has a folder."""
    env = asked["env"] or "larder"
    played = suite(env)
    config = Config(asked["method"] or "gigpo", env, asked["seed"] or 0, played.settings, asked["start"] or "")
    trainer = Trainer(config, played, Clock())
    if config.start:
        checkpoint.read(Path(config.start), trainer.policy, None)
    return config.continued({"iterations": asked["iterations"]}, Path())


def _free_name(config: Config) -> Path:
    """runs/ENV-METHOD-SEED, with a number after it where that is taken."""
    plain = f"{config.env}-{config.method}-{config.seed}"
    names = (plain if i == 1 else f"{plain}-{i}" for i in itertools.count(1))
    return next(path for path in (Path("runs") / name for name in names) if not path.exists())

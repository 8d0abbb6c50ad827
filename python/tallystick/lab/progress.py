"""A run as it is watched: a live panel on a terminal, plain lines elsewhere, and a table at the end."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tallystick.lab.clock import totals
from tallystick.lab.config import Config
from tallystick.lab.train import Line

_BARS = " ▁▂▃▄▅▆▇█"
_STAGES = {"rollout": "cyan", "credit": "magenta", "update": "green", "evaluation": "yellow", "checkpoint": "blue"}


class LogProgress:
    """One plain line an event."""

    def __init__(self) -> None:
        self._iterations = 0

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()

    def begin(self, config: Config, out: Path, done: int) -> None:
        """See `train.Progress`."""
        self._iterations = config.settings.iterations
        after = f", after {done} iterations" if done else ""
        self.note(f"{config.method} on {config.env}, seed {config.seed}, in {out}{after}")

    def note(self, text: str) -> None:
        """See `train.Progress`."""
        print(text, flush=True)

    def line(self, line: Line) -> None:
        """See `train.Progress`."""
        parts = [f"{line.iteration:>4}/{self._iterations}"]
        if "success" in line.metrics:
            parts += [f"{label} {value}" for label, value in _figures(line.metrics)]
            parts.append(f"{_seconds(line):.1f} s")
        if line.held_out:
            parts.append(f"held-out {line.held_out['success']:.3f}")
            if line.held_out["dropped"]:
                parts.append(f"dropped {line.held_out['dropped']:.0f} held-out")
        self.note("  ".join(parts))


class LiveProgress:
    """A panel that is drawn anew with each iteration."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._task = self._bar.add_task("iterations", total=None)
        self._note, self._title = "", ""
        self._success: list[float] = []
        self._held_out: list[tuple[int, float]] = []
        self._last: Line | None = None
        self._seconds: dict[str, float] = {}
        self._dropped = 0
        self._live = Live(self._drawn(), console=console, refresh_per_second=4)

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def begin(self, config: Config, out: Path, done: int) -> None:
        """See `train.Progress`."""
        self._title = f"[bold]{config.method}[/] on [bold]{config.env}[/], seed {config.seed} → {out}"
        self._bar.update(self._task, total=config.settings.iterations, completed=done)
        self._live.update(self._drawn())

    def note(self, text: str) -> None:
        """See `train.Progress`."""
        self._note = text
        self._live.update(self._drawn())

    def line(self, line: Line) -> None:
        """See `train.Progress`."""
        self._last, self._note = line, ""
        if "success" in line.metrics:
            self._success.append(line.metrics["success"])
            self._dropped += int(line.metrics["dropped"])
        if line.held_out:
            self._dropped += int(line.held_out["dropped"])
            self._held_out.append((line.iteration, line.held_out["success"]))
        for stage, seconds in line.seconds.items():
            self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds
        self._bar.update(self._task, completed=line.iteration)
        self._live.update(self._drawn())

    def _drawn(self) -> Panel:
        body = Table.grid(padding=(0, 2), expand=True)
        body.add_column(style="dim", no_wrap=True)
        body.add_column(ratio=1)
        if self._success:
            body.add_row("success", Text(f"{self._success[-1]:.2f}  {sparkline(self._success)}", style="green"))
        if self._held_out:
            shown = "  ".join(f"{value:.2f}@{iteration}" for iteration, value in self._held_out[-8:])
            body.add_row("held-out", Text(shown, style="bold green"))
        if self._last is not None and "success" in self._last.metrics:
            figures = [f"[dim]{label}[/] {value}" for label, value in _figures(self._last.metrics)[1:]]
            body.add_row("iteration", "   ".join([*figures, f"[dim]took[/] {_seconds(self._last):.1f} s"]))
            body.add_row("time", _share_bar(self._seconds))
        if self._dropped:
            body.add_row("dropped", Text(f"{self._dropped} episodes whose environment raised", style="red"))
        if self._note:
            body.add_row("", Text(self._note, style="dim"))
        return Panel(Group(self._bar, body), title=self._title or None, box=box.ROUNDED, title_align="left")


def closing_table(
    config: Config, out: Path, metrics: Sequence[Mapping[str, Any]], timing: Sequence[Mapping[str, float]]
) -> Table:
    """What a finished run comes to.

    Args:
        config: of the run.
        out: its folder.
        metrics: the lines of its metrics.jsonl.
        timing: the lines of its timing.jsonl.
    """
    table = Table(
        title=f"{config.method} on {config.env}, seed {config.seed}", box=box.SIMPLE_HEAD, title_justify="left"
    )
    for column in ("", "start", "end"):
        table.add_column(column, justify="left" if not column else "right")
    evaluated = [line for line in metrics if line["held_out"]]
    for name in evaluated[0]["held_out"]:
        first, last = (line["held_out"][name] for line in (evaluated[0], evaluated[-1]))
        table.add_row(f"held-out {name.replace('_', ' ')}", f"{first:.3f}", f"{last:.3f}")
    trained = [line for line in metrics if "success" in line]
    if trained:
        for name in ("success", "useful_groups", "entropy", "episode_steps", "shared_anchor_steps", "mean_bucket"):
            table.add_row(name.replace("_", " "), f"{trained[0][name]:.3f}", f"{trained[-1][name]:.3f}")
        table.add_row("episodes dropped", "", f"{sum(line['dropped'] for line in trained):.0f}")
    stages = totals(timing)
    ours = stages.pop("tallystick", 0.0)  # lies within the others
    wall = sum(stages.values())
    table.add_row("iterations", "", str(metrics[-1]["iteration"]))
    table.add_row("wall time", "", f"{wall:.0f} s")
    for stage, seconds in stages.items():
        table.add_row(f"of it {stage}", "", f"{seconds:.0f} s, {seconds / wall:.0%}")
    if trained:
        training = sum(stages.get(stage, 0.0) for stage in ("rollout", "credit", "update"))
        table.add_row("tallystick's share of training", "", f"{ours / training:.2%}")
    table.add_row("files", "", str(out))
    return table


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """The last `width` values in [0, 1] as blocks."""
    return "".join(_BARS[round(min(max(v, 0.0), 1.0) * (len(_BARS) - 1))] for v in values[-width:])


def _figures(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    return [
        ("success", f"{metrics['success']:.2f}"),
        ("useful groups", f"{metrics['useful_groups']:.0%}"),
        ("entropy", f"{metrics['entropy']:.2f}"),
        ("steps", f"{metrics['episode_steps']:.1f}"),
    ] + ([("dropped", f"{metrics['dropped']:.0f}")] if metrics["dropped"] else [])


def _seconds(line: Line) -> float:
    return sum(seconds for stage, seconds in line.seconds.items() if stage != "tallystick")


def _share_bar(seconds: Mapping[str, float]) -> Text:
    """Shares of the stages as one line, and tallystick's own share of rollout, credit and update."""
    total = sum(seconds.get(stage, 0.0) for stage in _STAGES)
    text = Text()
    for stage, colour in _STAGES.items():
        share = seconds.get(stage, 0.0) / total
        text.append("█" * round(24 * share), style=colour)
        text.append(f" {stage} {share:.0%}  ", style="dim")
    training = sum(seconds.get(stage, 0.0) for stage in ("rollout", "credit", "update"))
    text.append(f"tallystick itself {seconds.get('tallystick', 0.0) / training:.1%} of training", style="bold")
    return text

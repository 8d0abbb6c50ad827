"""Learning curves as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_COLOURS = ("#0b6e4f", "#c1440e", "#2b4c7e", "#8a5a9e", "#b58900", "#3d3d3d")
_STYLE: Any = {
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.size": 10,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
}


def curves(runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], path: Path, title: str) -> None:
    """Draws held-out success, training success, useful groups and entropy against iterations.

    Args:
        runs: label to runs, each the lines of a metrics.jsonl; runs of one label (seeds) share a colour, and where
            there are several their mean is drawn strong and each faint.
        path: of the picture.
        title: above it.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11, 6.2), layout="constrained", dpi=130)
        grid = figure.subplot_mosaic([["held", "held", "useful"], ["held", "held", "entropy"]])
        for (label, lines), colour in zip(runs.items(), _COLOURS * len(runs), strict=False):
            _draw(grid["held"], [_held_out(run) for run in lines], colour, label, marker="o")
            _draw(grid["held"], [_column(run, "success") for run in lines], colour, None, faint=True)
            _draw(grid["useful"], [_column(run, "useful_groups") for run in lines], colour, label)
            _draw(grid["entropy"], [_column(run, "entropy") for run in lines], colour, label)
        grid["held"].set(title="success: held-out (points), training (faint)", xlabel="iteration", ylim=(0, 1))
        grid["held"].legend(loc="lower right")
        grid["useful"].set(title="groups whose outcomes differ", ylim=(0, 1.02))
        grid["entropy"].set(title="entropy of a word, nats", xlabel="iteration", ylim=(0, None))
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        beside = path.with_suffix(".partial")
        figure.savefig(beside, format="png")
        beside.replace(path)


def _draw(
    axes: Axes,
    series: Sequence[tuple[Sequence[float], Sequence[float]]],
    colour: str,
    label: str | None,
    *,
    marker: str = "",
    faint: bool = False,
) -> None:
    several = len(series) > 1
    for x, y in series if several and not faint else ():
        axes.plot(x, y, color=colour, lw=0.8, alpha=0.25)
    shared = min(len(x) for x, _ in series)
    if shared == 0:  # a run that has not come to its first iteration
        return
    mean = np.mean([y[:shared] for _, y in series], axis=0)
    look: Any = (
        {"lw": 1.2, "ls": ":", "alpha": 0.6} if faint else {"lw": 2.2, "marker": marker, "ms": 4, "label": label}
    )
    axes.plot(series[0][0][:shared], _smooth(mean) if faint else mean, color=colour, **look)


def _smooth(values: Any, width: int = 9) -> Any:
    """Mean over a window that shrinks at the ends."""
    ones = np.ones(min(width, len(values)))
    return np.convolve(values, ones, "same") / np.convolve(np.ones(len(values)), ones, "same")


def _held_out(run: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    taken = [line for line in run if line["held_out"]]
    return [line["iteration"] for line in taken], [line["held_out"]["success"] for line in taken]


def _column(run: Sequence[Mapping[str, Any]], name: str) -> tuple[list[float], list[float]]:
    taken = [line for line in run if name in line]
    return [line["iteration"] for line in taken], [line[name] for line in taken]

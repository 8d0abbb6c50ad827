"""What a benchmark is, and the list of all."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ROOMS = ("groups", "ragged", "random", "states", "rows", "package")


@dataclass(frozen=True)
class Case:
    """One piece of work, ours and by its peers, over the same input.

    Args:
        ours: takes an input, returns a result.
        peers: the same work as others do it, by name.
        same: raises where a peer's result, by name, is not ours.
        fresh: makes the input of one call; never timed.
        floors: the least ratio of CPU time, peer to ours, that the project holds itself to, by peer.
        traffic: bytes that must be read or written at least, where memory is the limit.
        hot: whether ours runs once untimed right before each timed call; otherwise it runs right after its peers.
        threads: number of threads that ours may use.
    """

    ours: Callable[[Any], Any]
    peers: Mapping[str, Callable[[Any], Any]]
    same: Callable[[str, Any, Any], None]
    fresh: Callable[[], Any] = lambda: None
    floors: Mapping[str, float] = field(default_factory=dict)
    traffic: int | None = None
    hot: bool = False
    threads: int = 1


@dataclass(frozen=True)
class Benchmark:
    """A case by name; made when it runs, since its data is large."""

    group: str
    name: str
    case: Callable[[], Case]


BENCHMARKS: list[Benchmark] = []


def benchmark(group: str, name: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Puts the decorated maker of a case on the list."""

    def listed(case: Callable[[], Case]) -> Callable[[], Case]:
        BENCHMARKS.append(Benchmark(group, name, case))
        return case

    return listed


def benchmarks(group: str | None) -> list[Benchmark]:
    """All benchmarks of a group, of every group where None."""
    for room in ROOMS:
        importlib.import_module(f"benches.{room}")
    return [one for one in BENCHMARKS if group in (None, one.group)]

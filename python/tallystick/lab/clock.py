"""Where the time of an iteration goes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager


class Clock:
    """Wall time by name, in seconds, of the iteration that runs.

    "tallystick" is the time spent inside the library's own calls; it lies within the other stages.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Adds the time of the block to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def lap(self) -> dict[str, float]:
        """The seconds by name since the last lap."""
        seconds, self._seconds = self._seconds, {}
        return seconds


def totals(laps: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The seconds by name over several laps, given as lines of a timing.jsonl."""
    total: dict[str, float] = {}
    for lap in laps:
        for name, seconds in lap.items():
            if name != "iteration":
                total[name] = total.get(name, 0.0) + seconds
    return total

"""The published methods that this library computes: one table, joined from what each room declares."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tallystick._arrays import as_text
from tallystick._preset import Mark, Preset
from tallystick.errors import UnsupportedError

__all__ = ["Method", "Preset", "get", "table"]

_ROOMS = ("credit", "objectives")


@dataclass(frozen=True)
class Method:
    """A published method, ready to be called.

    Args:
        name: as in the table.
        seeds: ids of the catalogue rows that it serves, or "baseline".
        mark: "verified", "reported" or "draft".
        call: the callable of the room that computes it.
        defaults: keyword arguments that make the call this method.
        citation: authors, year, title, arXiv number.
    """

    name: str
    seeds: tuple[str, ...]
    mark: Mark
    call: Callable[..., Any]
    defaults: Mapping[str, Any]
    citation: str

    def __call__(self, *args: Any, **options: Any) -> Any:
        """`call` with the defaults, which `options` may replace."""
        return self.call(*args, **{**self.defaults, **options})


def table() -> list[Preset]:
    """All presets, room by room, in the order in which the rooms declare them. Needs none of the optional packages.

    Returns:
        rows with name, room, call, needs, seeds, mark, citation and defaults.
    """
    return [row for room in _ROOMS for row in importlib.import_module(f"tallystick.{room}.presets").PRESETS]


def get(name: str) -> Method:
    """The method of that name.

    Args:
        name: as in the table, lower snake case.

    Returns:
        a method: get("dr_grpo")([1, 0], [7, 7]) gives [0.5, -0.5].

    Raises:
        UnsupportedError: no such method.
        DTypeError: `name` is no string.
        MissingExtraError: its room needs a package that is not installed.
    """
    wanted = as_text("name", name)
    for row in table():
        if row.name == wanted:
            call = getattr(importlib.import_module(f"tallystick.{row.room}"), row.call)
            return Method(row.name, row.seeds, row.mark, call, row.defaults, row.citation)
    known = ", ".join(row.name for row in table())
    raise UnsupportedError(f"`name` must be a method of the table ({known}), found {name!r}", "name")

"""Writes docs/api: one Markdown page for each public module, from the docstrings, read without importing anything."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
API = ROOT / "docs" / "api"
MODULES = (
    "ragged",
    "groups",
    "states",
    "random",
    "batch",
    "plan",
    "rows",
    "credit",
    "objectives",
    "methods",
    "errors",
    "lab.environment",
)
Node = griffe.Object | griffe.Alias


def pages() -> dict[str, str]:
    """Markdown by file name: a page for each public module, and README.md, which lists them."""
    package = griffe.load("tallystick", search_paths=[ROOT / "python"])
    entries = [f"- [`tallystick.{name}`]({name}.md): {summary(package[name])}" for name in MODULES]
    index = "\n".join(["# Public modules", "", "Generated from the docstrings by `make docs`.", "", *entries, ""])
    return {"README.md": index, **{f"{name}.md": page(package[name]) for name in MODULES}}


def page(module: Node) -> str:
    """A module: its docstring, then its public members."""
    parts = [f"# `{module.path}`", markdown(module)]
    for member in public(module):
        parts += [f"## `{member.name}`", signature(member), markdown(member)]
        if member.is_class:
            for inner in public(member):
                parts += [f"### `{member.name}.{inner.name}`", signature(inner), markdown(inner)]
    return "\n\n".join(filter(None, parts)) + "\n"


def public(parent: Node) -> list[Node]:
    """Documented members: those of `__all__` where there is one, else what the source defines without an underscore."""
    names = map(str, parent.exports) if parent.is_module and parent.exports else parent.members
    members = [parent.members[name] for name in names if name in parent.members and not name.startswith("_")]
    if not parent.exports:
        members = [member for member in members if not member.is_alias]
    return [member for member in members if member.docstring and not member.is_module]


def signature(member: Node) -> str:
    """How a function or a class is called, as a code block; nothing for an attribute."""
    if member.is_class:
        builder = member.members.get("__init__") or member
        call = builder.signature(name=member.name) if builder.is_function else f"class {member.name}"
    elif member.is_function:
        call = member.signature()
    else:
        return ""
    return f"```python\n{call}\n```"


def markdown(member: Node) -> str:
    """The docstring: text as it stands, `Args` and `Raises` as lists, other sections as paragraphs under their name."""
    text = inspect.cleandoc(member.docstring.value if member.docstring else "")
    first, *sections = re.split(r"\n(?=(?:Args|Returns|Raises|Source):)", text)
    parts = [first.strip()]
    for section in sections:
        title, body = section.split(":", 1)
        body = inspect.cleandoc(body)
        if title in ("Args", "Raises"):
            entries = re.split(r"\n(?=\S)", body)
            body = "\n".join("- " + re.sub(r"^(\S[^:\n]*):", r"`\1`:", inspect.cleandoc(one)) for one in entries)
            body = re.sub(r"\n(?!- )", "\n  ", body)
        parts.append(f"**{title}**\n\n{body}")
    return "\n\n".join(parts)


def summary(module: Node) -> str:
    """The first paragraph of a module's docstring, on one line."""
    return " ".join(markdown(module).split("\n\n")[0].split())


if __name__ == "__main__":
    API.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (API / name).write_text(text, encoding="utf-8")

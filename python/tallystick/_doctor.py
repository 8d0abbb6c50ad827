"""What `tallystick doctor` prints."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata

from tallystick import _native, _optional


def report() -> str:
    """One line a fact: the machine, the kernels that are live on it, and each extra as installed or how to get it."""
    facts = [
        ("tallystick", f"{_native.__version__} on {platform.python_implementation()} {platform.python_version()}"),
        ("machine", f"{platform.system()} {platform.machine()}, {processor()}"),
        ("kernels", f"cpu: {' '.join(_native.cpu_features()) or 'baseline'}"),
        ("threads", f"{_native.num_threads()} of {len(os.sched_getaffinity(0))} (tallystick.set_num_threads)"),
        ("java", _java() or "not found: `--env textworld-express` needs Java 8 or newer, on PATH or in JAVA_HOME"),
    ]
    needs = _requirements()
    facts += [(name, version(name) or "missing") for name in needs.pop("", [])]
    for extra, names in needs.items():
        found = {name: version(name) for name in names}
        absent = [name for name, number in found.items() if number is None]
        parts = [f"{name} {number}" for name, number in found.items() if number is not None]
        parts += [f"missing {', '.join(absent)}: pip install 'tallystick[{extra}]'"] if absent else []
        facts.append((f"[{extra}]", ", ".join(parts)))
    width = max(len(name) for name, _ in facts)
    return "\n".join(f"{name:<{width}}  {what}" for name, what in facts)


def _requirements() -> dict[str, list[str]]:
    """Distribution names by the extra that brings them, "" for what is always needed, as this wheel declares them."""
    needs: dict[str, list[str]] = {}
    for line in metadata.requires("tallystick") or []:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra == ['\"]([^'\"]+)['\"]", line)
        if name and name[0] != "tallystick":
            needs.setdefault(extra[1] if extra else "", []).append(name[0])
    return needs


def version(distribution: str) -> str | None:
    """The installed version of a distribution, None where there is none."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "processor unknown"


def _java() -> str | None:
    java = _optional.java()
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    return said.splitlines()[0] if said else java

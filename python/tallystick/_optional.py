"""What only some modules need: packages, imported on use, with one sentence that names the extra; and Java."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path
from types import ModuleType

from tallystick.errors import MissingExtraError


def require(package: str, *, extra: str) -> ModuleType:
    """The imported package, or module of one.

    Raises:
        MissingExtraError: where it is not installed; the message says which extra of tallystick brings it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as failure:
        distribution = package.partition(".")[0]
        if failure.name != distribution:
            raise
        raise MissingExtraError(f"`{distribution}` is not installed: pip install 'tallystick[{extra}]'") from failure


def java() -> str | None:
    """Path of the Java runtime: that of JAVA_HOME, else the first on PATH; None where there is none."""
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("java", path=str(Path(home) / "bin")) if home else None) or shutil.which("java")

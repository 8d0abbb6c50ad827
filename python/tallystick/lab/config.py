"""What a run is: method, environment, seed and hyper-parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tallystick.errors import CorruptionError, UnsupportedError
from tallystick.lab.suite import Settings


@dataclass(frozen=True)
class Config:
    """What a run is.

    Args:
        method: name of a credit method in the table of methods.
        env: name of a suite.
        seed: of weights, warm start, rollouts and evaluation.
        settings: hyper-parameters of the RL stage.
        start: path of a checkpoint whose weights RL starts from, in place of the warm start; "" for none.
    """

    method: str
    env: str
    seed: int
    settings: Settings
    start: str = ""

    def to_json(self) -> str:
        """One field a line."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str, where: Path) -> Config:
        """What `to_json` wrote.

        Args:
            text: what it wrote.
            where: the file that holds it, for the message.

        Raises:
            CorruptionError: the text is no configuration.
        """
        try:
            fields = json.loads(text)
            settings = fields.pop("settings")
            settings["betas"] = tuple(settings["betas"])
            return cls(settings=Settings(**settings), **fields)
        except (AttributeError, KeyError, TypeError, ValueError) as failure:
            raise CorruptionError(f"{where} holds no configuration of a run: {failure}") from failure

    def continued(self, asked: Mapping[str, Any], where: Path) -> Config:
        """This configuration for a run that goes on, with `iterations` as asked.

        Args:
            asked: values by name, those of `settings` too; None where nothing is asked. `iterations` says how long a
                run is, not what it is, and may differ.
            where: folder of the run, for the message.

        Raises:
            UnsupportedError: anything else differs; the message names it.
        """
        mine = self.by_name()
        for name, value in asked.items():
            if name != "iterations" and value not in (None, mine[name]):
                raise UnsupportedError(
                    f"`{name}` is {mine[name]!r} in {where}, found {value!r}: a resumed run keeps its configuration",
                    name,
                )
        iterations = asked.get("iterations") or self.settings.iterations
        return replace(self, settings=replace(self.settings, iterations=iterations))

    def by_name(self) -> dict[str, Any]:
        """All values in one dictionary."""
        return {"method": self.method, "env": self.env, "seed": self.seed, "start": self.start, **vars(self.settings)}

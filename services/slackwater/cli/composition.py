"""Which services there are, and how each is built from its settings: the only place that knows them all."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Service
from slackwater.runtime.settings import explained


@dataclass(frozen=True, slots=True)
class Part:
    """One service: `slackwater.<name>.service:build(settings, platform)` and its settings class."""

    name: str
    settings: str

    @property
    def has_schema(self) -> bool:
        """Whether it keeps something in PostgreSQL."""
        return (files(f"slackwater.{self.name}") / "migrations" / "versions").is_dir()

    def build(self, platform: Platform, overrides: Mapping[str, Any] | None = None) -> Service:
        """The service from its environment variables; `overrides` (of the command line) win.

        Raises Misconfigured for a setting that is not allowed, naming its variable.
        """
        settings_class: type[BaseSettings] = load(f"slackwater.{self.name}.settings:{self.settings}")
        try:
            settings = settings_class(**(overrides or {}))
        except ValidationError as error:
            raise Misconfigured(explained(error, settings_class)) from None
        service: Service = load(f"slackwater.{self.name}.service:build")(settings, platform)
        return service


PARTS = (
    Part("ingestion", "IngestionSettings"),
    Part("prediction", "PredictionSettings"),
    Part("colocation", "ColocationSettings"),
    Part("ensurance", "EnsuranceSettings"),
    Part("console", "ConsoleSettings"),
    Part("agent", "AgentSettings"),
)
"""In the order of their start: the agent last, so that everything listens when the first report comes."""


def load(target: str) -> Any:
    """What `package.module:name` names. Raises Misconfigured when this installation does not have it."""
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise Misconfigured(f"{target} is not part of this installation") from None


SHARED = tuple(part for part in PARTS if part.name != "agent")
"""What `run` can run: an agent belongs to one node and needs no database, so it has a verb of its own."""


def part_named(name: str) -> Part:
    """A service that runs against shared servers. Raises InvalidInput that lists what there is."""
    known = {part.name: part for part in SHARED}
    if name in known:
        return known[name]
    if name == "agent":
        hint = "an agent belongs to its node: use `slackwater agent`"
    else:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else "see `slackwater run --help`"
    raise InvalidInput(f"service: {name!r} is unknown; allowed: {', '.join(known)}; {hint}", field="service")

"""The services of contracts/services.yaml, and how each is built from its settings."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Service
from slackwater.runtime.service_list import service_list
from slackwater.runtime.settings import explained


@dataclass(frozen=True, slots=True)
class ServicePart:
    """One service: `slackwater.<name>.service:build(settings, platform)`, and `<Name>Settings` beside it."""

    name: str
    has_schema: bool
    """Whether the service stores data in PostgreSQL."""

    @property
    def settings(self) -> str:
        """The name of the service's settings class."""
        return f"{self.name.capitalize()}Settings"

    def build(self, platform: Platform, overrides: Mapping[str, Any] | None = None) -> Service:
        """Build the service from its environment variables; `overrides` (of the command line) win.

        Raises: Misconfigured for a setting that is not allowed, with the name of its variable.
        """
        settings_class: type[BaseSettings] = load(f"slackwater.{self.name}.settings:{self.settings}")
        try:
            settings = settings_class(**(overrides or {}))
        except ValidationError as error:
            raise Misconfigured(explained(error, settings_class)) from None
        service: Service = load(f"slackwater.{self.name}.service:build")(settings, platform)
        return service


SHARED = tuple(ServicePart(name, spec.database) for name, spec in service_list().services.items())
"""The services of every installation, in the order of their start."""

IN_CLUSTERS = tuple(ServicePart(name, spec.database) for name, spec in service_list().cluster_services.items())
"""The services that need a Kubernetes API server: `run` can run them, `up` does not."""

PARTS = (*SHARED, *(ServicePart(name, has_schema=False) for name in service_list().node_services))
"""What `up` runs. Those of a node (the agent) start last, so that all consumers exist when the first report arrives;
they need no database and have their own verbs.
"""


def load(target: str) -> Any:
    """Import what `package.module:name` names. Raises Misconfigured when it is not installed."""
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise Misconfigured(f"{target} is not part of this installation") from None


def part_named(name: str) -> ServicePart:
    """A service that runs against shared servers. Raises InvalidInput that lists the services."""
    known = {part.name: part for part in (*SHARED, *IN_CLUSTERS)}
    if name in known:
        return known[name]
    if name == "agent":
        hint = "an agent belongs to its node: use `slackwater agent`"
    else:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else "see `slackwater run --help`"
    raise InvalidInput(f"service: {name!r} is unknown; allowed: {', '.join(known)}; {hint}", field="service")

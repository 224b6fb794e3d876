"""All events, discovered in the modules of this package. JSON Schemas, AsyncAPI, subjects of streams, permissions and
the flow diagram are generated from these lists.

A new module with a subclass of Payload is a new event; there is no list to add it to.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType

from slackwater import events
from slackwater.events.envelope import BroadcastPayload, Payload

_WITHOUT_EVENTS = frozenset({"envelope", "measures", "pod_columns", "registry", "serialized"})
"""Modules of this package that define no event. Importing them here would load NumPy in the agent, or this module
again.
"""


def event_modules() -> Iterator[ModuleType]:
    """The modules that define events, by name."""
    for module in sorted(pkgutil.iter_modules(events.__path__), key=lambda module: module.name):
        if not module.ispkg and module.name not in _WITHOUT_EVENTS:
            yield import_module(f"{events.__name__}.{module.name}")


def discover(modules: Iterable[ModuleType]) -> tuple[type[Payload], ...]:
    """The events that the modules define, by type. Raises ValueError if two have the same type."""
    found: dict[str, type[Payload]] = {}
    for module in modules:
        for payload in vars(module).values():
            if not _is_defined_in(module, payload):
                continue
            other = found.setdefault(payload.TYPE, payload)
            if other is not payload:
                raise ValueError(f"{payload.__module__} and {other.__module__} both define the event {payload.TYPE}")
    return tuple(found[name] for name in sorted(found))


def _is_defined_in(module: ModuleType, value: object) -> bool:
    """Whether the value is an event class of this module, not one that it imports and not an abstract base."""
    return (
        isinstance(value, type)
        and issubclass(value, Payload)
        and value.__module__ == module.__name__
        and "TYPE" in vars(value)
    )


_ALL = discover(event_modules())

EVENTS: tuple[type[Payload], ...] = tuple(one for one in _ALL if not issubclass(one, BroadcastPayload))
"""The events that a stream keeps."""

BROADCASTS: tuple[type[BroadcastPayload], ...] = tuple(one for one in _ALL if issubclass(one, BroadcastPayload))
"""Messages without a stream: core NATS subscribers receive them; they have no consumers, dead letters or history."""

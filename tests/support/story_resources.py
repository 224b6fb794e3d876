"""The documents of the story: how they were changed before it begins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from slackwater.events.envelope import Event, event_of
from slackwater.events.resource_changed import ResourceChanged
from slackwater.resources.names import API_VERSION, BY_SETTINGS

_EDGE: dict[str, Any] = {"nodePool": "edge", "mode": "throttle", "evictionsPerHour": 2, "holdSeconds": 600.0}
_CHANGES = (
    ("ensurance", "Autonomy", "edge", 240, "mara", _EDGE),
    ("ensurance", "Autonomy", "edge", 30, "jon", {**_EDGE, "mode": "evict"}),
    ("ensurance", "Autonomy", "edge", 3, "mara", {**_EDGE, "mode": "evict", "evictionsPerHour": 4}),
    ("ensurance", "Autonomy", "trial", 9, "jon", {"nodePool": "trial", "mode": "observe"}),
    ("ensurance", "Autonomy", "trial", 2, "jon", None),
    ("prediction", "PredictPolicy", "default", 500, BY_SETTINGS, {"violationRate": {"cpu": 0.01, "memory": 0.001}}),
    ("colocation", "ColocationStrategy", "default", 48, "mara", {"enable": True, "cpuReclaimThresholdPercent": 80}),
    ("colocation", "ColocationStrategy", "night", 216, "jon", {"nodePool": "night", "cpuReclaimThresholdPercent": 95}),
)
"""Service, kind, name, hours before the story, author, spec (None: deleted)."""


def resources(start: datetime) -> list[Event[Any]]:
    """One event for each generation."""
    found: list[Event[Any]] = []
    generations: dict[tuple[str, str], int] = {}
    for service, kind, name, hours, author, spec in _CHANGES:
        generation = generations[kind, name] = generations.get((kind, name), 0) + 1
        metadata = {"name": name, "generation": generation, "changedBy": author}
        document = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        at = start - timedelta(hours=hours)
        data = ResourceChanged(
            service=service,
            kind=kind,
            name=name,
            generation=generation,
            author=author,
            changed_at=at,
            deleted=spec is None,
            document=None if spec is None else document,
        )
        event_id = str(uuid5(NAMESPACE_URL, f"resource/{kind}/{name}/{generation}"))
        found.append(event_of(data, source=service, time=at, id=event_id))
    return found

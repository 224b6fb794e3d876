"""What colocation shows on /metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.events.envelope import Event
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.telemetry.metrics import Meters


class ColocationMetrics:
    """The offer in force per node and resource, and how often offers changed by whether they were degraded."""

    def __init__(self, meters: Meters) -> None:
        self._cpu = meters.gauge("slackwater_offered_batch_cpu_cores", "Batch CPU on offer.", ["node"])
        self._memory = meters.gauge("slackwater_offered_batch_memory_bytes", "Batch memory on offer.", ["node"])
        self._changes = meters.counter("slackwater_offer_changes_total", "Offers published, by result.", ["result"])

    def published(self, events: Sequence[Event[Any]]) -> None:
        for event in events:
            if isinstance(offer := event.data, ResourcesOffered):
                self._cpu.labels(offer.node).set(offer.batch.cpu_milli / 1000)
                self._memory.labels(offer.node).set(offer.batch.memory_bytes)
                self._changes.labels("whole" if offer.degraded is None else "degraded").inc()

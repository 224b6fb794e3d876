"""Metrics: `slackwater_<noun>_<unit>`, base units, bounded labels, one registry per process.

A service names its metrics in one place by asking its Meters; asking twice gives the same one, so a service may be
built again in the same process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

from slackwater.model.errors import InvalidInput

_NAME = re.compile(r"slackwater_[a-z][a-z0-9_]*[a-z0-9]")
BOUNDED_LABELS = frozenset(
    {
        *("node", "pool", "tier", "resource", "plugin", "reason", "result", "quota"),
        *("service", "stream", "consumer", "event", "kind", "driver", "version", "python"),
    }
)
"""Labels with few values. A pod, a decision or an address is never one: it belongs into a log or a record."""

M = TypeVar("M", bound=MetricWrapperBase)


class Meters:
    """The metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._known: dict[str, MetricWrapperBase] = {}

    def counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        """Only grows; `name` ends in `_total`."""
        if not name.endswith("_total"):
            raise InvalidInput(f"counter {name!r} must end in _total", field="name")
        return self._one(Counter, name, labels, lambda: Counter(name, text, labels, registry=self._registry))

    def gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        """Goes up and down."""
        return self._one(Gauge, name, labels, lambda: Gauge(name, text, labels, registry=self._registry))

    def histogram(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS
    ) -> Histogram:
        """Counts by size; `buckets` are upper bounds in the unit of the name."""
        return self._one(
            Histogram, name, labels, lambda: Histogram(name, text, labels, registry=self._registry, buckets=buckets)
        )

    def _one(self, kind: type[M], name: str, labels: Sequence[str], make: Callable[[], M]) -> M:
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"metric {name!r} must look like slackwater_<noun>_<unit>", field="name")
        if unbounded := set(labels) - BOUNDED_LABELS:
            raise InvalidInput(f"metric {name!r}: labels {sorted(unbounded)} are not known as bounded", field="labels")
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = make()
        if not isinstance(known, kind):
            raise InvalidInput(f"metric {name!r} is already a {type(known).__name__}", field="name")
        return known


@cache
def process_meters() -> Meters:
    """The meters of the registry that /metrics shows, without the twin `_created` that each counter would have."""
    disable_created_metrics()  # type: ignore[no-untyped-call] # as the library has it
    return Meters(REGISTRY)


def note_build(service: str, meters: Meters | None = None) -> None:
    """`slackwater_build_info{service,version,python} 1`."""
    import platform

    from slackwater.runtime.version import version

    info = (meters or process_meters()).gauge("slackwater_build_info", "What runs.", ["service", "version", "python"])
    info.labels(service, version(), platform.python_version()).set(1)

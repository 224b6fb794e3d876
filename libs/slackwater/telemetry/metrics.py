"""Metrics: `slackwater_<noun>_<unit>`, base units, bounded labels, one registry per process.

Services and libraries declare theirs in `metrics.py`, through Meters. A second declaration
returns the same metric, so that a service can be built twice in one process. docs/reference/metrics.md is generated
from the help text and `look` of each metric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

from slackwater.model.errors import InvalidInput

_NAME = re.compile(r"slackwater_[a-z][a-z0-9_]*[a-z0-9]")
BOUNDED_LABELS = frozenset(
    {
        *("node", "pool", "tier", "resource", "plugin", "reason", "result", "quota", "tree", "finding"),
        *("service", "stream", "table", "consumer", "event", "kind", "driver", "version", "python"),
        *("stage", "state", "liveness", "writer", "method", "code", "right"),
    }
)
"""Labels with few values. Pods, decisions and addresses are not labels; they belong in logs and records."""

M = TypeVar("M", bound=MetricWrapperBase)

DELAY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Upper bounds in seconds for delays between services: from a hop on one machine to a one-minute window."""


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """One metric as listed on the reference page."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    look: str


class Meters:
    """The metrics of one registry. `look` says which values need an operator's attention."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._known: dict[str, MetricWrapperBase] = {}
        self._described: dict[str, MetricDescription] = {}

    def described(self) -> Sequence[MetricDescription]:
        """All declared metrics, sorted by name."""
        return [self._described[name] for name in sorted(self._described)]

    def counter(self, name: str, text: str, labels: Sequence[str] = (), *, look: str = "") -> Counter:
        """Declare a counter. Raises InvalidInput unless `name` ends in `_total`."""
        if not name.endswith("_total"):
            raise InvalidInput(f"counter {name!r} must end in _total", field="name")
        about = MetricDescription(name, "counter", tuple(labels), text, look)
        return self._one(Counter, about, lambda: Counter(name, text, labels, registry=self._registry))

    def gauge(self, name: str, text: str, labels: Sequence[str] = (), *, look: str = "") -> Gauge:
        """Declare a gauge."""
        about = MetricDescription(name, "gauge", tuple(labels), text, look)
        return self._one(Gauge, about, lambda: Gauge(name, text, labels, registry=self._registry))

    def histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str] = (),
        *,
        buckets: Sequence[float] = Histogram.DEFAULT_BUCKETS,
        look: str = "",
    ) -> Histogram:
        """Declare a histogram; `buckets` are upper bounds in the unit of the name."""
        about = MetricDescription(name, "histogram", tuple(labels), text, look)
        return self._one(
            Histogram, about, lambda: Histogram(name, text, labels, registry=self._registry, buckets=buckets)
        )

    def _one(self, kind: type[M], about: MetricDescription, make: Callable[[], M]) -> M:
        name, labels = about.name, about.labels
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"metric {name!r} must look like slackwater_<noun>_<unit>", field="name")
        if unbounded := set(labels) - BOUNDED_LABELS:
            raise InvalidInput(f"metric {name!r}: labels {sorted(unbounded)} are not known as bounded", field="labels")
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = make()
            self._described[name] = about
        if not isinstance(known, kind):
            raise InvalidInput(f"metric {name!r} is already a {type(known).__name__}", field="name")
        return known


class Summed:
    """A gauge that is the sum over many keys, such as nodes or agents, that are too numerous for labels."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._values: dict[str, float] = {}
        self._sum = 0.0

    def set(self, key: str, value: float) -> None:
        self._sum += value - self._values.get(key, 0.0)
        if value:
            self._values[key] = value
        else:
            self._values.pop(key, None)
        self._gauge.set(self._sum if self._values else 0.0)

    @property
    def keys(self) -> int:
        """The number of keys with a value other than zero."""
        return len(self._values)


@cache
def process_meters() -> Meters:
    """The meters of the registry that /metrics serves, without the `_created` series of each counter."""
    disable_created_metrics()  # type: ignore[no-untyped-call] # untyped in prometheus_client
    return Meters(REGISTRY)


def note_build(service: str, meters: Meters | None = None) -> None:
    """Set `slackwater_build_info{service,version,python}` to 1."""
    import platform

    from slackwater.runtime.version import version

    info = (meters or process_meters()).gauge(
        "slackwater_build_info",
        "Running version.",
        ["service", "version", "python"],
        look="Several versions for longer than a rollout.",
    )
    info.labels(service, version(), platform.python_version()).set(1)

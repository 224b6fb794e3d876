"""Metrics of the versioned documents that a service follows."""

from __future__ import annotations

from prometheus_client import Gauge

from slackwater.resources.kind import Kind
from slackwater.telemetry.metrics import Meters


class ResourceMetrics:
    """slackwater.resources.store.ResourceMeter with Prometheus metrics."""

    def __init__(self, meters: Meters, service: str, kind: str, mostly: str) -> None:
        """`mostly`: the usual reason why a document of this kind cannot be used."""
        self._followed = meters.gauge(
            f"slackwater_{service}_followed_policies",
            f"{kind} documents that this replica follows.",
            look="Replicas differ: one misses changes.",
        )
        self._unusable = meters.gauge(
            f"slackwater_{service}_unusable_policies",
            f"Stored {kind} documents that cannot be used here; their last good generation counts.",
            look=f"Above 0: {mostly}.",
        )

    def policies(self, followed: int, unusable: int) -> None:
        self._followed.set(followed)
        self._unusable.set(unusable)


class KindMetrics:
    """Metrics of the kinds that the skeletons of services serve."""

    def __init__(self, meters: Meters) -> None:
        self._followed = meters.gauge(
            "slackwater_followed_resources",
            "Documents of a kind that this replica follows as stored.",
            ["kind"],
            look="Replicas differ: one misses changes.",
        )
        self._unusable = meters.gauge(
            "slackwater_unusable_resources",
            "Stored documents of such a kind that cannot be used here.",
            ["kind"],
            look="Above 0: mostly of a newer version.",
        )

    def of(self, kind: Kind) -> KindMeter:
        return KindMeter(self._followed.labels(kind.name), self._unusable.labels(kind.name))


class KindMeter:
    """slackwater.resources.store.ResourceMeter of one kind."""

    def __init__(self, followed: Gauge, unusable: Gauge) -> None:
        self._followed = followed
        self._unusable = unusable

    def policies(self, followed: int, unusable: int) -> None:
        self._followed.set(followed)
        self._unusable.set(unusable)

"""Metrics of the versioned documents that a service follows."""

from __future__ import annotations

from slackwater.resources.kind import Kind
from slackwater.telemetry.metrics import Meters


class ResourceMetrics:
    """slackwater.resources.store.ResourceMeter with Prometheus metrics."""

    def __init__(self, meters: Meters, service: str, kind: str, mostly: str) -> None:
        """`mostly`: the usual reason why a document of this kind cannot be used."""
        self._followed = meters.gauge(
            f"slackwater_{service}_followed_policies",
            f"{kind} documents that this replica follows.",
            look="Replicas differ for over a second: one misses changes.",
        )
        self._unusable = meters.gauge(
            f"slackwater_{service}_unusable_policies",
            f"Stored {kind} documents that this replica cannot use; the last good generation stays.",
            look=f"Above 0: {mostly}.",
        )

    def policies(self, followed: int, unusable: int) -> None:
        self._followed.set(followed)
        self._unusable.set(unusable)


class KindMetrics:
    """slackwater.resources.store.ResourceMeter for a kind that the skeleton of a service serves."""

    def __init__(self, meters: Meters, kind: Kind) -> None:
        followed = meters.gauge(
            "slackwater_followed_resources",
            "Documents of a kind that this replica follows as stored.",
            ["kind"],
            look="Replicas that differ for over a second: one misses changes.",
        )
        unusable = meters.gauge(
            "slackwater_unusable_resources",
            "Stored documents of a kind that this replica cannot use; it keeps the last good generation.",
            ["kind"],
            look="Above 0: mostly a newer version wrote the document.",
        )
        self._followed, self._unusable = followed.labels(kind.name), unusable.labels(kind.name)

    def policies(self, followed: int, unusable: int) -> None:
        self._followed.set(followed)
        self._unusable.set(unusable)

"""Metrics of the versioned documents that a service follows."""

from __future__ import annotations

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
            f"Stored {kind} documents that cannot be used here; their last good generation counts.",
            look=f"Above 0: {mostly}.",
        )

    def policies(self, followed: int, unusable: int) -> None:
        self._followed.set(followed)
        self._unusable.set(unusable)

"""The promises of ensurance in Prometheus' terms."""

from __future__ import annotations

from functools import cache

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge

from slackwater.decisions.record import DecisionRecord

MILLI = 1000


class PrometheusMeter:
    """slackwater.ensurance.ports.Meter. A registry takes only one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "slackwater_ensurance_decisions_total",
            "Throttles and restores that were decided, by kind and reason.",
            ["kind", "reason"],
            registry=registry,
        )
        self._ignored = Counter(
            "slackwater_ensurance_reports_ignored_total",
            "Reports that must not cause action, by reason.",
            ["reason"],
            registry=registry,
        )
        self._throttled = Gauge(
            "slackwater_ensurance_throttled_pods", "Pods with a CPU limit of ours.", ["node"], registry=registry
        )
        self._remaining = Gauge(
            "slackwater_ensurance_remaining_gap_cores",
            "CPU that prod lacked at the last decision and that nobody could release.",
            ["node"],
            registry=registry,
        )

    def decided(self, record: DecisionRecord) -> None:
        self._decisions.labels(record.kind, record.reason).inc()

    def standing(self, node: str, throttled: int, remaining_milli: int) -> None:
        self._throttled.labels(node).set(throttled)
        self._remaining.labels(node).set(remaining_milli / MILLI)

    def ignored(self, reason: str) -> None:
        self._ignored.labels(reason).inc()


@cache
def process_meter() -> PrometheusMeter:
    """The one of this process, however often the service is built."""
    return PrometheusMeter(REGISTRY)

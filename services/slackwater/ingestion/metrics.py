"""Prometheus metrics of ingestion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters


class IngestionMetrics:
    """What operators watch of reports and windows."""

    def __init__(self, meters: Meters) -> None:
        self._accepted = meters.counter(
            "slackwater_ingestion_reports_accepted_total",
            "Reports stored.",
            look="Expected: nodes / report interval. A drop: agents or broker away.",
        )
        self._refused = meters.counter(
            "slackwater_ingestion_reports_refused_total",
            "Reports sent to the dead letters.",
            ["reason"],
            look="Any growth; the dead letter names the field.",
        )
        self._missing = meters.counter(
            "slackwater_ingestion_reports_missing_total",
            "Reports missing (by sequence) when their window closed.",
            look="Growth without an outage: telemetry is lost.",
        )
        self._late = meters.counter(
            "slackwater_ingestion_reports_late_total",
            "Reports after their window closed.",
            look="Growth: raise SLACKWATER_INGESTION_LATENESS_SECONDS, or check clocks.",
        )
        self._windows = meters.counter(
            "slackwater_ingestion_windows_closed_total",
            "Windows published.",
            look="Expected: one per node and window.",
        )
        self._delay = meters.histogram(
            "slackwater_ingestion_report_delay_seconds",
            "From sample to row in history.",
            buckets=DELAY_BUCKETS,
            look="p99 above 1 s: ingestion or PostgreSQL is slow.",
        )
        self._nodes = meters.gauge(
            "slackwater_ingestion_known_nodes",
            "Known nodes (fresh, stale, lost; silent: never reported).",
            ["liveness"],
            look="stale or lost above 0. Every replica counts all: take the maximum, not the sum.",
        )

    def accepted(self, late: int, delays_seconds: Iterable[float]) -> None:
        """Counts reports stored in history, each with its delay since the sample, and the late ones among them."""
        count = 0
        for delay in delays_seconds:
            self._delay.observe(max(0.0, delay))
            count += 1
        self._accepted.inc(count)
        self._late.inc(late)

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def closed(self, windows: int, missing: int) -> None:
        """Counts closed windows, and the reports missing from them.

        Missing reports are counted only at closing, because redelivery may bring them earlier.
        """
        self._windows.inc(windows)
        self._missing.inc(missing)

    def nodes(self, counts: Mapping[str, int]) -> None:
        """Sets the number of nodes by liveness."""
        for liveness in ("fresh", "stale", "lost", "silent"):
            self._nodes.labels(liveness).set(counts.get(liveness, 0))

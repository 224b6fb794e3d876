"""The console's own metrics."""

from __future__ import annotations

from slackwater.console.domain.fleet import FleetLevel
from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters


class ConsoleMetrics:
    """What operators watch of the read model and the stream."""

    def __init__(self, meters: Meters) -> None:
        self._recorded = meters.counter(
            "slackwater_console_events_recorded_total",
            "Events written to the read model.",
            ["event"],
            look="One type stands still.",
        )
        self._delay = meters.histogram(
            "slackwater_console_freshness_seconds",
            "From an event to its row in the read model.",
            ["event"],
            buckets=DELAY_BUCKETS,
            look="p99 above 2 s: the console lags.",
        )

        self._borrowed = meters.gauge(
            "slackwater_borrowed_cpu_cores",
            "CPU that batch and free use, within the offer of their node or beyond it.",
            ["result"],
            look="beyond stays high: pods run without or above requests.",
        )
        self._borrowed_memory = meters.gauge(
            "slackwater_borrowed_memory_bytes",
            "Memory that batch and free use, within the offer of their node or beyond it.",
            ["result"],
            look="beyond stays high: prod may be reclaimed from.",
        )
        for result in ("within", "beyond"):  # an alert reads them: none is a number, too
            self._borrowed.labels(result)
            self._borrowed_memory.labels(result)

    def level(self, level: FleetLevel) -> None:
        for result, part in (("within", level.borrowed), ("beyond", level.beyond)):
            self._borrowed.labels(result).set(part.cpu_milli / 1000)
            self._borrowed_memory.labels(result).set(part.memory_bytes)

    def recorded(self, event: str, delay_seconds: float) -> None:
        """Count an event that was recorded, with its delay after the event's time."""
        self._recorded.labels(event).inc()
        self._delay.labels(event).observe(max(0.0, delay_seconds))

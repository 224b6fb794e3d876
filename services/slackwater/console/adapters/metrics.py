"""The console's own metrics."""

from __future__ import annotations

from slackwater.telemetry.metrics import DELAY_BUCKETS, Meters


class ConsoleMetrics:
    """Implements slackwater.console.ports.ConsoleMeter."""

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

    def recorded(self, event: str, delay_seconds: float) -> None:
        self._recorded.labels(event).inc()
        self._delay.labels(event).observe(max(0.0, delay_seconds))

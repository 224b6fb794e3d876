"""Metrics of the outbox relay."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class OutboxMetrics:
    """Metrics of one process; `published` is labelled by service."""

    def __init__(self, meters: Meters) -> None:
        self.published = meters.counter(
            "slackwater_outbox_published_total",
            "Events published by the relay.",
            ["service"],
            look="Standstill while slackwater_outbox_waiting_events grows.",
        )

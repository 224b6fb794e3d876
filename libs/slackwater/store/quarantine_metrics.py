"""Metrics of the quarantines."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class QuarantineMetrics:
    """Metrics of one process; `items` by service and table, `left_out` by service and event
    type.
    """

    def __init__(self, meters: Meters) -> None:
        self.items = meters.gauge(
            "slackwater_state_quarantined_rows",
            "Quarantined rows and nodes; the same on every replica.",
            ["service", "table"],
            look="Above 0: see `slackwater get quarantine`.",
        )
        self.left_out = meters.counter(
            "slackwater_state_quarantined_events_total",
            "Events omitted: their node's state is in quarantine.",
            ["service", "event"],
            look="Growth: repair and release the node's row.",
        )

"""What operators watch of the quarantines."""

from __future__ import annotations

from slackwater.telemetry.metrics import Meters


class QuarantineMetrics:
    """One per process; `items` by service and table, `left_out` by service and event type."""

    def __init__(self, meters: Meters) -> None:
        self.items = meters.gauge(
            "slackwater_state_quarantined_rows",
            "Rows and nodes that a service has set aside because they cannot be read, stored or computed. Every "
            "replica of a service shows the same number.",
            ["service", "table"],
            look="More than 0: `slackwater get quarantine` says what and why; the rest of the service goes on.",
        )
        self.left_out = meters.counter(
            "slackwater_state_quarantined_events_total",
            "Events that a service left out because a part of their node's state is in quarantine.",
            ["service", "event"],
            look="Growth: a node is set aside and goes on sending; mend its row and release it.",
        )

"""What migration shows on /metrics."""

from __future__ import annotations

from collections.abc import Mapping

from slackwater.podmigration.limits import HoldFilter
from slackwater.telemetry.metrics import Meters

MOVE_BUCKETS = (1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
DOWNTIME_BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)


class MigrationMetrics:
    """What operators watch of moves."""

    def __init__(self, meters: Meters) -> None:
        self._steps = meters.counter(
            "slackwater_migration_steps_total",
            "Steps that moves came to.",
            ["stage"],
            look="Many withdrawing: evictions time out or are refused; `slackwater why migration/NAME` says why.",
        )
        self._ended = meters.counter(
            "slackwater_migration_jobs_ended_total",
            "Moves that ended, by what they left behind.",
            ["result"],
            look="replacement_pending or unconfirmed: a workload may lack a replica; returned: a start failed.",
        )
        self._seconds = meters.histogram(
            "slackwater_migration_seconds",
            "Time from the submission of a job to its end.",
            buckets=MOVE_BUCKETS,
            look="Near the time to live: moves wait for room, a grant or their replacement.",
        )
        self._downtime = meters.histogram(
            "slackwater_migration_downtime_seconds",
            "Time from the end of a moved pod to its replacement being ready.",
            buckets=DOWNTIME_BUCKETS,
            look="High: the new node starts it late, or its ready check is slow; `slackwater why migration/NAME`.",
        )
        self._waiting = meters.gauge(
            "slackwater_migration_waiting_jobs",
            "Jobs that wait for arbitration, by the filter that holds them.",
            ["reason"],
            look="One filter for long: its limit in ArbitrationArgs is too low for what is proposed.",
        )
        self._running = meters.gauge(
            "slackwater_migration_running_jobs",
            "Jobs that are admitted and have not ended.",
            look="Above 0 without steps: agents do not answer, or no node has room.",
        )
        self._reservations = meters.gauge(
            "slackwater_migration_reservations",
            "Reservations that keep room on a node.",
            look="Above 0 without moves: documents of kind Reservation keep it.",
        )

    def stepped(self, step: str) -> None:
        """A job came to a step."""
        self._steps.labels(step).inc()

    def ended(self, outcome: str, seconds: float, downtime_s: float | None) -> None:
        """A job ended, so long after it was submitted; None: no new pod took the place of the old one."""
        self._ended.labels(outcome).inc()
        self._seconds.observe(max(seconds, 0.0))
        if downtime_s is not None:
            self._downtime.observe(downtime_s)

    def show(self, waiting: Mapping[str, int], running: int, reservations: int) -> None:
        """Waiting jobs by the filter that holds them, jobs under way, and reservations that hold room."""
        for name in HoldFilter:
            self._waiting.labels(name.value).set(waiting.get(name.value, 0))
        self._running.set(running)
        self._reservations.set(reservations)

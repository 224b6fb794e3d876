"""What disks and network links of a node did over a stretch of time."""

from __future__ import annotations

from slackwater.model.records import record


@record(frozen=True, slots=True)
class DiskUse:
    """A disk: the share of the time (0..1) in which it had something to do."""

    name: str
    usage_ratio: float


@record(frozen=True, slots=True)
class LinkUse:
    """A network interface: bytes per second each way, and what it could carry each way; None where it does not tell
    (most virtual ones do not)."""

    name: str
    received_per_second: int
    sent_per_second: int
    capacity_per_second: int | None = None

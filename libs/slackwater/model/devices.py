"""What disks and network links of a node did over a stretch of time."""

from __future__ import annotations

from slackwater.model.bounds import BytesPerSecond, Name, Ratio
from slackwater.model.records import record


@record(frozen=True, slots=True)
class DiskUse:
    """A disk: the share of the time (0..1) in which it had something to do."""

    name: Name
    usage_ratio: Ratio


@record(frozen=True, slots=True)
class LinkUse:
    """A network interface: bytes per second each way, and what it could carry each way; None where it does not tell
    (most virtual ones do not)."""

    name: Name
    received_per_second: BytesPerSecond
    sent_per_second: BytesPerSecond
    capacity_per_second: BytesPerSecond | None = None

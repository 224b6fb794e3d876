"""Usage of a node's disks and network links over a window."""

from __future__ import annotations

from slackwater.model.bounds import BytesPerSecond, Name, Ratio
from slackwater.model.records import record


@record(frozen=True, slots=True)
class DiskUse:
    """One disk: the share of the window (0..1) in which it had requests in flight."""

    name: Name
    usage_ratio: Ratio


@record(frozen=True, slots=True)
class LinkUse:
    """One network interface: bytes per second in each direction, and its capacity in each direction.

    `capacity_per_second` is None where the driver reports no link speed, as most virtual interfaces do.
    """

    name: Name
    received_per_second: BytesPerSecond
    sent_per_second: BytesPerSecond
    capacity_per_second: BytesPerSecond | None = None

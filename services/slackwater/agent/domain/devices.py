"""Rates of disks and links from two readings of their counters. A device that is new, or was reset, is left out."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.agent.domain.rates import SHORTEST_SECONDS, delta
from slackwater.agent.domain.samples import DiskSample, LinkSample
from slackwater.model.devices import DiskUse, LinkUse


def disk_uses(before: Sequence[DiskSample], after: Sequence[DiskSample], seconds: float) -> tuple[DiskUse, ...]:
    """The kernel counts a little beyond the interval now and then: a disk is never more than busy."""
    if seconds < SHORTEST_SECONDS:
        return ()
    known = {one.name: one.busy_ms for one in before}
    moved = ((one.name, delta(known.get(one.name), one.busy_ms)) for one in after)
    return tuple(DiskUse(name, round(min(1.0, ms / 1000 / seconds), 4)) for name, ms in moved if ms is not None)


def link_uses(before: Sequence[LinkSample], after: Sequence[LinkSample], seconds: float) -> tuple[LinkUse, ...]:
    if seconds < SHORTEST_SECONDS:
        return ()
    known = {counters.name: counters for counters in before}
    rates = []
    for counters in after:
        old = known.get(counters.name)
        received = None if old is None else delta(old.received_bytes, counters.received_bytes)
        sent = None if old is None else delta(old.sent_bytes, counters.sent_bytes)
        if received is not None and sent is not None:
            rates.append(
                LinkUse(counters.name, round(received / seconds), round(sent / seconds), counters.capacity_per_second)
            )
    return tuple(rates)

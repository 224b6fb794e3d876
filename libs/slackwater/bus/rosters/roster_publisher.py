"""Publishes the roster of a node before the first report that counts by it, and reports by reference to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.events.envelope import Event, event_of
from slackwater.events.pods_rostered import UNCHANGED, PodsRostered, changes_between
from slackwater.events.rosters import SLOTS, Roster
from slackwater.events.usage_reported import UsageReported
from slackwater.model.pods import Pod
from slackwater.model.time import Clock

REPEAT_SECONDS: Final = 60.0
"""A roster in use is published again after so long: for readers it is the sign that the node still runs these pods, and
the broker may have lost it."""


@dataclass(slots=True)
class _Slot:
    """A roster that was published, the pods that it is made of, and when."""

    roster: Roster
    pods: Sequence[Pod]
    stored_at_seconds: float | None = None


@dataclass(slots=True)
class _Node:
    """The rosters of a node by slot; the newest was published as number `count`. `last` is the roster that readers have
    for the node by now, from the report with `sequence` of a boot."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    count: int = 0
    slots: dict[int, _Slot] = field(default_factory=dict)
    last: Roster | None = None
    boot_epoch: str = ""
    sequence: int = 0

    def newest(self) -> int:
        return (self.count - 1) % SLOTS

    def slot_of(self, report: UsageReported) -> int:
        """Returns the slot of the report's roster, which takes that of the oldest where it is new."""
        pods = [usage.pod for usage in report.pods]
        newest = self.slots.get(self.newest())
        if newest is not None and newest.pods == pods and newest.roster.failed_pods == tuple(report.failed_pods):
            return self.newest()
        roster = report.roster()
        for number, slot in self.slots.items():
            if slot.roster.digest == roster.digest:
                return number
        self.count += 1
        self.slots[self.newest()] = _Slot(roster, pods)
        return self.newest()

    def is_news(self, roster: Roster, report: UsageReported) -> bool:
        """Returns whether readers have to learn that the node runs these pods: also where it ran them before."""
        if self.last is None or report.boot_epoch != self.boot_epoch:
            return True
        return report.sequence >= self.sequence and roster.digest != self.last.digest

    def note(self, roster: Roster, report: UsageReported) -> None:
        """Note that the roster is stored. One of a report that waited longer than its successors is not the last."""
        if report.boot_epoch != self.boot_epoch or report.sequence >= self.sequence:
            self.last, self.boot_epoch, self.sequence = roster, report.boot_epoch, report.sequence


class RosterPublisher:
    """What one process publishes: an agent has one node. `store` publishes an event and returns once the broker has
    it."""

    def __init__(self, store: Callable[[Event[Any]], Awaitable[Any]], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._nodes: dict[str, _Node] = {}

    def invalidate(self) -> None:
        """Publish all rosters again before the next reports: the broker may have lost them."""
        for node in self._nodes.values():
            for slot in node.slots.values():
                slot.stored_at_seconds = None

    async def body(self, event: Event[Any]) -> str | None:
        """Returns the body of a report whose roster is published; None for other events. Raises Unavailable."""
        report = event.data
        if not isinstance(report, UsageReported):
            return None
        node = self._nodes.setdefault(report.node, _Node())
        async with node.lock:
            number = node.slot_of(report)
            slot = node.slots[number]
            if self._is_due(slot) or node.is_news(slot.roster, report):
                await self._store(_rostered(event, slot.roster, number, node.last))
                slot.stored_at_seconds = self._clock.monotonic()
                node.note(slot.roster, report)
        return report.columns(slot.roster, number).model_dump_json()

    def _is_due(self, slot: _Slot) -> bool:
        stored_at = slot.stored_at_seconds
        return stored_at is None or self._clock.monotonic() - stored_at >= REPEAT_SECONDS


def _rostered(event: Event[Any], roster: Roster, slot: int, last: Roster | None) -> Event[PodsRostered]:
    report = event.data
    data = PodsRostered.model_construct(
        node=report.node,
        boot_epoch=report.boot_epoch,
        sequence=report.sequence,
        rostered_at=report.sampled_at,
        slot=slot,
        roster=roster,
        changes=UNCHANGED if last is None else changes_between(last, roster),
    )
    return event_of(data, source=event.source, time=event.time)

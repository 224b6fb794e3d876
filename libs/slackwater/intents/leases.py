"""Renews the documents of whole partitions every third of a lease, by one broadcast each.

A partition is renewed only while this replica could act for it: it holds the partition, PostgreSQL answers, and no
document of it waits in the outbox for longer than a third of a lease. The broadcast names the position up to which
reports were read; each agent compares it with its own reports and knows whether its lease is renewed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from slackwater.intents.contacts import ReadPositions
from slackwater.intents.controls import Writer
from slackwater.intents.document import renewal_event
from slackwater.intents.ports import Broadcast, LeaseMeter
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

RENEWALS_PER_LEASE: Final = 3
log = get_logger(__name__)

Held = Callable[[], Mapping[int, int]]
"""Epoch of our lease by partition, of those for which we may act now."""
Waiting = Callable[[], Awaitable[Mapping[int, float]]]
"""By partition, the seconds that its oldest document waits to be published. Raises Unavailable."""
Blocked = Callable[[], Collection[str]]
"""Nodes whose agents are blocked: what they send is not read."""


class RenewLeases:
    """See the module's docstring. A node counts as read if a report of the last `silent_seconds` was."""

    def __init__(
        self,
        writer: Writer,
        positions: ReadPositions,
        clock: Clock,
        meter: LeaseMeter,
        broadcast: Broadcast,
        held: Held,
        waiting: Waiting,
        lease_seconds: float,
        silent_seconds: float,
        blocked: Blocked = tuple,
    ) -> None:
        self._writer = writer
        self._positions = positions
        self._clock = clock
        self._meter = meter
        self._broadcast = broadcast
        self._held = held
        self._waiting = waiting
        self._silent_seconds = silent_seconds
        self._blocked = blocked
        self.interval_seconds = lease_seconds / RENEWALS_PER_LEASE

    async def __call__(self) -> int:
        """Renew all partitions that may be. Returns how many. Raises Unavailable if PostgreSQL or the bus is away."""
        try:
            waiting = await self._waiting()
            renewed = 0
            for partition, epoch in self._held().items():
                if waiting.get(partition, 0.0) > self.interval_seconds:
                    self._meter.renewed("outbox_behind")
                    log.warning("lease not renewed", partition=partition, intent_waits_seconds=waiting[partition])
                elif position := self._positions.recent(partition, self._clock.monotonic(), self._silent_seconds):
                    await self._renew(partition, epoch, position)
                    renewed += 1
            return renewed
        except Unavailable:
            self._meter.renewed("unavailable")
            raise

    async def _renew(self, partition: int, epoch: int, position: int) -> None:
        blocked = tuple(sorted(node for node in self._blocked() if partition_of(node) == partition))
        now = self._clock.now()
        event = renewal_event(self._writer, partition, epoch, position, self._silent_seconds, blocked, now)
        await self._broadcast.broadcast(event)
        self._meter.renewed("told")

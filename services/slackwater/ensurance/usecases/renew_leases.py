"""Every third of a lease, for every partition that is ours: we are here, and have read its reports up to there.

Said only while we could act for it: by whoever holds the partition, while PostgreSQL answers, and while no intent of it
waits in the outbox for longer than a third of a lease. Which of its nodes this renews, each agent knows by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from slackwater.ensurance.ports import Meter, Voice
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import SOURCE
from slackwater.events.envelope import event_of
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

RENEWALS_PER_LEASE: Final = 3
log = get_logger(__name__)

Held = Callable[[], Mapping[int, int]]
"""Epoch of our lease by partition, of those for which we may act now."""
Waiting = Callable[[], Awaitable[Mapping[int, float]]]
"""By partition, the seconds that its oldest intent waits to be published. Raises Unavailable."""

Blocked = Callable[[], Collection[str]]
"""Nodes whose agents are blocked: what they send is not read."""


class RenewLeases:
    """See the module's docstring."""

    def __init__(
        self,
        book: Book,
        clock: Clock,
        meter: Meter,
        voice: Voice,
        held: Held,
        waiting: Waiting,
        lease_seconds: float,
        silent_seconds: float,
        blocked: Blocked = tuple,
    ) -> None:
        self._book = book
        self._clock = clock
        self._meter = meter
        self._voice = voice
        self._held = held
        self._waiting = waiting
        self._silent_seconds = silent_seconds
        self._blocked = blocked
        self.interval_seconds = lease_seconds / RENEWALS_PER_LEASE
        self._read: dict[int, tuple[int, float]] = {}

    async def __call__(self) -> int:
        """Tell it for all partitions. Returns for how many. Raises Unavailable when PostgreSQL or the bus is away."""
        try:
            waiting = await self._waiting()
            told = 0
            for partition, epoch in self._held().items():
                if waiting.get(partition, 0.0) > self.interval_seconds:
                    self._meter.renewed("outbox_behind")
                    log.warning("lease not renewed", partition=partition, intent_waits_seconds=waiting[partition])
                elif position := self._read_up_to(partition):
                    await self._tell(partition, epoch, position)
                    told += 1
            return told
        except Unavailable:
            self._meter.renewed("unavailable")
            raise

    def _read_up_to(self, partition: int) -> int:
        """0 where nothing was read for so long that nobody there can count as heard. The stream of reports may have
        begun anew since, and a position of the old one would promise what is not true."""
        now, position = self._clock.monotonic(), self._book.read_up_to.get(partition, 0)
        before, since = self._read.get(partition, (0, now))
        if position != before:
            before, since = self._read[partition] = position, now
        return before if now - since <= self._silent_seconds else 0

    async def _tell(self, partition: int, epoch: int, position: int) -> None:
        now = self._clock.now()
        renewed = LeaseRenewed(
            writer=SOURCE,
            partition=partition,
            epoch=epoch,
            read_up_to=position,
            heard_within_seconds=self._silent_seconds,
            blocked=tuple(sorted(node for node in self._blocked() if partition_of(node) == partition)),
            sent_at=now,
        )
        await self._voice.tell(event_of(renewed, source=SOURCE, time=now))
        self._meter.renewed("told")

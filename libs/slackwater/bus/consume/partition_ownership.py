"""Deliveries of a partitioned consumer: only those of owned partitions are handled and
acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from slackwater.bus.consume.cooperative import yield_between
from slackwater.bus.consume.settlement import Delivery
from slackwater.bus.port import Holds
from slackwater.events.envelope import partition_in
from slackwater.model.identifiers import ALL_PARTITIONS

IN_A_GO = 64
"""Deliveries checked per step; checking the owner of one takes microseconds."""
RETURN_SECONDS = 1.0
"""Delay before a message that came back twice while no lease was held is returned again, so that it
does not circulate in a busy loop.
"""
MOST_RETURNED = 20_000
_ANY = frozenset(ALL_PARTITIONS)


class OwnedDelivery:
    """A delivery that is acknowledged only while its partition is owned; otherwise it goes back, to
    the owner.
    """

    __slots__ = ("_delivery", "_holds", "_leaving", "_returned", "partition")

    def __init__(
        self, delivery: Delivery, holds: Holds, returned: int = 0, leaving: Collection[int] = frozenset()
    ) -> None:
        """`returned`: how often this replica gave it back unread; `leaving`: partitions that are being handed over."""
        self._delivery = delivery
        self._leaving = leaving
        self._holds = holds
        self._returned = returned
        self.partition = partition_in(delivery.subject)

    @property
    def is_ours(self) -> bool:
        return self._holds(self.partition)

    @property
    def is_current(self) -> bool:
        return self.is_ours and self.partition not in self._leaving and self._delivery.is_current

    @property
    def subject(self) -> str:
        return self._delivery.subject

    @property
    def headers(self) -> Mapping[str, str]:
        return self._delivery.headers

    @property
    def body(self) -> bytes:
        return self._delivery.body

    @property
    def deliveries(self) -> int:
        return max(1, self._delivery.deliveries - self._returned)

    @property
    def stream_sequence(self) -> int:
        return self._delivery.stream_sequence

    @property
    def stored_at_seconds(self) -> float:
        return self._delivery.stored_at_seconds

    @property
    def pending(self) -> int:
        return self._delivery.pending

    async def ack(self) -> None:
        if self.is_ours:
            await self._delivery.ack()
        else:
            await self._delivery.nak(0)

    async def nak(self, delay_seconds: float) -> None:
        await self._delivery.nak(delay_seconds if self.is_ours else 0)

    async def term(self) -> None:
        await self._delivery.term()

    async def in_progress(self) -> None:
        await self._delivery.in_progress()


class Unsettled:
    """Partitions with messages in hand, so that a hand-over can wait for them."""

    def __init__(self, settle: Callable[[Sequence[Delivery]], Awaitable[None]], holds: Holds) -> None:
        self._settle = settle
        self._holds = holds
        self._partitions: frozenset[int] = frozenset()
        self._leaving: list[int] = []
        self._done = asyncio.Event()
        self._returned: dict[int, int] = {}
        """Times given back, by stream position; subtracted from the delivery count, because the message was
        not tried.
        """

    async def settle(self, deliveries: Sequence[Delivery]) -> None:
        """Settle deliveries of owned partitions, return the others."""
        self._partitions = _ANY
        try:
            ours: list[OwnedDelivery] = []
            for number, delivery in enumerate(deliveries, 1):
                await yield_between(number, IN_A_GO)
                position = delivery.stream_sequence
                owned = OwnedDelivery(delivery, self._holds, self._returned.get(position, 0), self._leaving)
                if owned.is_ours:
                    ours.append(owned)
                else:
                    await self._return_unread(delivery)
            self._partitions = frozenset(delivery.partition for delivery in ours)
            self._done.set()
            if ours:
                await self._settle(ours)
        finally:
            self._partitions = frozenset()
            self._done.set()

    async def _return_unread(self, delivery: Delivery) -> None:
        """Return an unread delivery without counting it as an attempt. Another owner gets it at
        once; if it comes back, no owner exists.
        """
        if len(self._returned) >= MOST_RETURNED:
            self._returned.clear()
        before = self._returned.get(delivery.stream_sequence, 0)
        self._returned[delivery.stream_sequence] = before + 1
        await delivery.nak(RETURN_SECONDS if before else 0)

    async def without(self, partitions: Collection[int]) -> None:
        """Wait until no message of these partitions is in hand; none is kept through an outage."""
        self._leaving.extend(partitions)
        try:
            while not self._partitions.isdisjoint(partitions):
                self._done.clear()
                await self._done.wait()
        finally:
            for partition in partitions:
                self._leaving.remove(partition)

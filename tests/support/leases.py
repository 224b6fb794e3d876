"""Leases in memory, with any clock and the same guarantees as slackwater.store.leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import PARTITIONS
from slackwater.model.time import Clock
from slackwater.runtime.ownership import Lease, LeaseRow, ReplicaMember, View, instance_of


class LeaseBook:
    """The stored members and leases."""

    def __init__(self, clock: Clock, partitions: int = PARTITIONS) -> None:
        self.clock = clock
        self.leases = {partition: LeaseRow(partition, None, 0) for partition in range(partitions)}
        self.members: dict[str, datetime] = {}
        self.listeners: dict[str, asyncio.Event] = {}

    def is_owner(self, member: str, partition: int, epoch: int | None) -> bool:
        row = self.leases[partition]
        return row.owner == member and row.epoch == epoch

    def is_free(self, row: LeaseRow, claimant: str) -> bool:
        if row.owner is None or instance_of(row.owner) == instance_of(claimant):
            return True
        expires_at = self.members.get(row.owner)
        return expires_at is None or expires_at <= self.clock.now()

    def heartbeat(self, member: str) -> None:
        for name, event in self.listeners.items():
            if name != member:
                event.set()


class MemoryLeases:
    """See slackwater.runtime.partition_sharding.LeaseStore."""

    def __init__(self, book: LeaseBook, member: str, away: Callable[[], bool] = lambda: False) -> None:
        self.member = member
        self._book = book
        self._away = away
        self._news = book.listeners[member] = asyncio.Event()

    def _answer(self) -> None:
        if self._away():
            raise Unavailable("the in-memory database is simulated as away")

    async def beat(self, ttl_seconds: float) -> View:
        self._answer()
        now = self._book.clock.now()
        members = [ReplicaMember(name, expires_at) for name, expires_at in self._book.members.items()]
        self._book.members[self.member] = now + timedelta(seconds=ttl_seconds)
        return View(list(self._book.leases.values()), members, now)

    async def claim(self, partitions: Sequence[int]) -> Sequence[Lease]:
        self._answer()
        claimed = []
        for partition in partitions:
            row = self._book.leases[partition]
            if self._book.is_free(row, self.member):
                claimed.append(Lease(partition, row.epoch + 1))
                self._book.leases[partition] = LeaseRow(partition, self.member, row.epoch + 1, self._book.clock.now())
        return claimed

    async def release(self, leases: Sequence[Lease]) -> None:
        self._answer()
        for lease in leases:
            if self._book.is_owner(self.member, lease.partition, lease.epoch):
                self._book.leases[lease.partition] = LeaseRow(lease.partition, None, lease.epoch)
        self._book.heartbeat(self.member)

    async def leave(self) -> None:
        self._answer()
        for row in list(self._book.leases.values()):
            if row.owner == self.member:
                self._book.leases[row.partition] = LeaseRow(row.partition, None, row.epoch)
        self._book.members.pop(self.member, None)
        self._book.heartbeat(self.member)

    async def news(self) -> None:
        await self._news.wait()
        self._news.clear()

    async def close(self) -> None:
        """Does nothing, because nothing is open."""

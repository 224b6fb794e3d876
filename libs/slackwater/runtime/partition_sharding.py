"""Keeps this replica's share of a service's partitions: heartbeats, claims, hand-overs, and the
reaction to their loss.

A partition is held from its claim until it has been handed over. `holds` also checks the monotonic
clock, which continues while a process is stopped: a replica that resumes after its lease must query
the database before it acts. The fence (store.unit_of_work) refuses earlier writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import anyio

from slackwater.model.errors import Conflict, SlackwaterError, Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.ownership import Lease, MemberView, Timing, View, living, plan, unowned
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)


class LeaseStore(Protocol):
    """Members and leases of one service, for one member. Raises Unavailable when the database does
    not answer.
    """

    member: str

    async def beat(self, ttl_seconds: float) -> View:
        """Extend the heartbeat by `ttl_seconds`; returns the view just before it."""
        ...

    async def claim(self, partitions: Sequence[int]) -> Sequence[Lease]:
        """Claim those that are (still) free; returns their leases under a new epoch."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Free those still held under that epoch."""
        ...

    async def leave(self) -> None:
        """Free everything and end the membership."""
        ...

    async def news(self) -> None:
        """Wait until another member has freed a partition, or the service has notified its
        replicas.
        """
        ...

    async def close(self) -> None: ...


class Holder(Protocol):
    """Works on partitions: consumers, in-memory state. Called sequentially, in order."""

    async def acquire(self, leases: Sequence[Lease]) -> None:
        """Load state and begin. Raises Unavailable; then the leases are given back."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Finish messages in hand, store state, and stop. Exceptions are only logged, because the
        lease ends anyway.
        """
        ...

    def drop(self, partitions: Collection[int]) -> None:
        """Discard partitions owned by another replica; write nothing. Also called for partitions
        never taken.
        """
        ...


class OwnershipMeter(Protocol):
    """Metrics of one service's ownership."""

    def held(self, leases: Mapping[int, int], unowned: int, members: int) -> None: ...

    def moved(self, kind: str, count: int) -> None:
        """Count partitions `claimed`, `released` in order, or `lost` to another."""
        ...

    def fenced(self) -> None:
        """Count a transaction refused because its partitions were not held."""
        ...


class Ownership:
    """The partitions of one replica of one service. Also the fence of its database
    (store.port.Fence).
    """

    def __init__(
        self, store: LeaseStore, service: str, clock: Clock, meter: OwnershipMeter, timing: Timing | None = None
    ) -> None:
        self._store = store
        self._service = service
        self._clock = clock
        self._meter = meter
        self._timing = timing or Timing()
        self._held: dict[int, int] = {}
        self._releasing: set[int] = set()
        self._valid_until = float("-inf")
        self._holder: Holder | None = None
        self._moves = asyncio.Lock()
        self._moving: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._news_callbacks: list[Callable[[], None]] = []
        self.view: View | None = None
        """The view of the last heartbeat, for health."""

    @property
    def member(self) -> str:
        return self._store.member

    @property
    def service(self) -> str:
        return self._service

    def held(self) -> Mapping[int, int]:
        """Returns epochs by partition, as this replica assumes."""
        return dict(self._held)

    def epoch_of(self, partition: int) -> int:
        """Returns the assumed epoch; 0 for a partition that is not held."""
        return self._held.get(partition, 0)

    def holds(self, partition: int) -> bool:
        """Returns whether the replica may act for a partition now, without querying the
        database.
        """
        return partition in self._held and self.is_current

    def acting(self) -> Mapping[int, int]:
        """Returns epochs by partition, of those for which it may act now."""
        return self.held() if self.is_current else {}

    def working(self) -> frozenset[int]:
        """Returns the partitions for which new work may start now."""
        return frozenset(self._held) - self._releasing if self.is_current else frozenset()

    @property
    def is_current(self) -> bool:
        """Returns whether the last heartbeat is still valid."""
        return self._clock.monotonic() < self._valid_until

    def standing(self) -> MemberView | None:
        """Returns all members' leases at the last heartbeat, while it is valid, for operators."""
        if self.view is None or not self.is_current:
            return None
        return MemberView(self.member, len(living(self.view, self.member)), self.view.leases)

    def refused(self, partitions: Iterable[int]) -> None:
        """Report partitions that the fence found not to be held."""
        self._meter.fenced()
        self._drop([partition for partition in partitions if partition in self._held], "fenced")
        self._wake.set()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Register a callback for every change that enables further work."""
        self._callbacks.append(callback)

    @asynccontextmanager
    async def owning(self, holder: Holder) -> AsyncIterator[None]:
        """Owns a share while the context is open; the first partitions are taken before the body
        runs.

        On leaving everything is handed over in order and freed at once. Raises Unavailable if the
        database does not answer at the start.
        """
        self._holder = holder
        try:
            await self._beat()
        except SlackwaterError:
            await self._store.close()
            raise
        await self._settle_moves()
        beating = asyncio.create_task(self._keep_beating(), name=f"{self._service} heartbeats")
        listening = asyncio.create_task(self._listen(), name=f"{self._service} news of leases")
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                for task in (beating, listening):
                    task.cancel()
                await asyncio.wait((beating, listening))
                await self._leave()

    async def _keep_beating(self) -> None:
        while True:
            await self._until_next_beat()
            try:
                await self._beat()
            except (Unavailable, Conflict) as error:
                log.warning("no heartbeat", service=self._service, reason=error.message)
            except Exception:
                log.exception("ownership has a defect and goes on", service=self._service)

    async def _until_next_beat(self) -> None:
        timer = asyncio.create_task(self._wake_at_next_beat())
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    async def _wake_at_next_beat(self) -> None:
        await self._clock.sleep(self._timing.beat)
        self._wake.set()

    async def _listen(self) -> None:
        """Run a heartbeat at once when a member frees a partition."""
        while True:
            try:
                await self._store.news()
            except SlackwaterError:
                await self._clock.sleep(self._timing.beat)
            self._wake.set()
            for callback in self._news_callbacks:
                callback()

    async def _beat(self) -> None:
        begun = self._clock.monotonic()
        view = await self._store.beat(self._timing.ttl)
        was_current, self._valid_until = self.is_current, begun + self._timing.ttl
        if not was_current:
            self._notify()
        self.view = view
        own = {row.partition: row.epoch for row in view.leases if row.owner == self.member}
        self._drop([p for p, epoch in self._held.items() if own.get(p) != epoch], "lost")
        todo = plan(view, self.member)
        orphans = [p for p in own if p not in self._held and p not in self._releasing]
        if todo.claim or orphans:
            await self._claim([*orphans, *todo.claim])
        release = [p for p in todo.release if p in self._held and p not in self._releasing]
        if release:
            self._releasing.update(release)
            self._move(self._release([Lease(p, self._held[p]) for p in release]))
        self._meter.held(self._held, len(set(unowned(view)) - set(self._held)), len(living(view, self.member)))

    async def _claim(self, partitions: Sequence[int]) -> None:
        leases = await self._store.claim(partitions)
        if not leases:
            return
        self._held.update({lease.partition: lease.epoch for lease in leases})
        self._meter.moved("claimed", len(leases))
        log.info("partitions claimed", service=self._service, partitions=sorted(lease.partition for lease in leases))
        self._move(self._acquire(leases))

    def _move(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=f"{self._service} hand-over")
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    async def _settle_moves(self) -> None:
        while self._moving:
            await asyncio.wait(set(self._moving))

    async def _acquire(self, leases: Sequence[Lease]) -> None:
        async with self._moves:
            assert self._holder is not None  # noqa: S101 - set by `owning`, the only way here
            current = [lease for lease in leases if self._held.get(lease.partition) == lease.epoch]
            try:
                if current:
                    await self._holder.acquire(current)
            except SlackwaterError as error:
                log.warning("partitions not taken up", service=self._service, reason=error.message)
                await self._release_failed(current)
                return
            except Exception:
                log.exception("taking up partitions failed", service=self._service)
                await self._release_failed(current)
                return
            if gone := [lease.partition for lease in current if self._held.get(lease.partition) != lease.epoch]:
                self._holder.drop(gone)
            self._notify()

    def on_news(self, callback: Callable[[], None]) -> None:
        """Register a callback for possible changes of the schema by another replica."""
        self._news_callbacks.append(callback)

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()

    async def _release_failed(self, leases: Sequence[Lease]) -> None:
        self._drop([lease.partition for lease in leases], "failed")
        with suppress(SlackwaterError):
            await self._store.release(leases)

    async def _release(self, leases: Sequence[Lease]) -> None:
        async with self._moves:
            assert self._holder is not None  # noqa: S101 - set by `owning`, the only way here
            current = [lease for lease in leases if self._held.get(lease.partition) == lease.epoch]
            try:
                if current:
                    async with asyncio.timeout(self._timing.hand_over):
                        await self._holder.release(current)
            except (SlackwaterError, TimeoutError) as error:
                log.warning("partitions handed over with work in hand", service=self._service, reason=str(error))
            except Exception:
                log.exception("handing partitions over failed", service=self._service)
            finally:
                gone = [lease for lease in current if self._held.get(lease.partition) == lease.epoch]
                self._holder.drop([lease.partition for lease in gone])
                for lease in gone:
                    del self._held[lease.partition]
            if gone:
                self._meter.moved("released", len(gone))
                with suppress(SlackwaterError):
                    await self._store.release(gone)
            self._releasing.difference_update(lease.partition for lease in leases)

    def _drop(self, partitions: Sequence[int], why: str) -> None:
        if not partitions:
            return
        for partition in partitions:
            self._held.pop(partition, None)
        log.warning("partitions lost", service=self._service, partitions=sorted(partitions), why=why)
        self._meter.moved("lost", len(partitions))
        if self._holder is not None:
            self._holder.drop(partitions)

    async def _leave(self) -> None:
        """Hand everything over. Partitions not finished in time are dropped; the fence refuses
        their writes.
        """
        await self._settle_moves()
        await self._release([Lease(partition, epoch) for partition, epoch in self._held.items()])
        self._valid_until = float("-inf")
        with suppress(SlackwaterError):
            await self._store.leave()
        await self._store.close()
        self._holder = None

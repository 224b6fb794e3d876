"""The skeleton of a replicated service: what every composition root needs, written once.

A composition root creates a Replica, builds its adapters and use cases on it, and passes consumers,
loops and state to ReplicatedService, which runs them, shares the partitions with the other replicas
and reports readiness.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Protocol

from slackwater.bus.consume.handlers import Consumer
from slackwater.model.errors import Unavailable
from slackwater.resources.catalog import kinds_of
from slackwater.resources.hooks import Hooks
from slackwater.resources.kind import Kind
from slackwater.runtime.ownership import Lease, MemberView
from slackwater.runtime.partition_sharding import Holder, Ownership
from slackwater.runtime.quarantine_routes import quarantine_check, quarantine_router
from slackwater.runtime.replicas import ownership_check, ownership_of
from slackwater.runtime.resource_metrics import KindMetrics
from slackwater.runtime.served_kinds import ServedKind
from slackwater.runtime.service import Check
from slackwater.store.quarantine import Item, Quarantine, partition_of_node
from slackwater.store.quarantine_table import PostgresQuarantine
from slackwater.store.resource_table import PostgresResourceStore
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

    from slackwater.runtime.platform import Platform

Loop = Callable[[], Coroutine[Any, Any, None]]
"""A coroutine function that works until it is cancelled (runtime.loops)."""


class Replica:
    """The resources of one service in this process: bus, clock, database, quarantine, outbox, and
    its partitions.

    `database` refuses writes for partitions that another replica owns, `unfenced` accepts all. A
    service that is not `sharded` owns no partition: its replicas share the messages of each
    consumer.
    """

    def __init__(self, name: str, platform: Platform, *, sharded: bool = True) -> None:
        database = platform.database(name)
        self.name = name
        self.unfenced = database
        self.bus = platform.bus
        self.clock = platform.clock
        self.quarantine = Quarantine(name, PostgresQuarantine(database, name), platform.clock)
        self.ownership: Ownership | None = None
        if sharded:
            self.ownership = ownership_of(platform, name, database)
            self.ownership.on_news(self.quarantine.notify)
            database = database.fenced(self.ownership)
        self.database = database
        self.relay = database.relay(platform.bus.carry)
        self.served: dict[Kind, ServedKind] = {}
        self._stores: dict[Kind, PostgresResourceStore] = {}

    def resource_store(self, kind: Kind) -> PostgresResourceStore:
        """Returns the store of a kind. A composition root that asks for it serves the kind itself.

        It is not fenced: a document belongs to no partition.
        """
        if kind not in self._stores:
            self._stores[kind] = PostgresResourceStore(self.unfenced, kind)
        return self._stores[kind]

    def serve(self, kind: Kind, hooks: Hooks[Any, Any] | None = None) -> ServedKind:
        """Returns a kind served as it is declared, for a composition root with a use case that follows it.

        `hooks` take the place of those that the declaration names, where they need something of the service.
        """
        if kind not in self.served:
            store = self.resource_store(kind)
            self.served[kind] = ServedKind(kind, store, self.quarantine, self.clock, self.ownership, hooks)
        return self.served[kind]

    def serve_others(self) -> Sequence[ServedKind]:
        """Serves the kinds that the composition root does not, and returns all that are served as declared."""
        KindMetrics(process_meters())  # in every service, so that the names are known before the first kind
        for kind in kinds_of(self.name):
            if kind not in self._stores:
                self.serve(kind)
        return tuple(self.served.values())

    @property
    def partitions(self) -> Ownership:
        """Returns the partition ownership of a sharded service."""
        assert self.ownership is not None  # noqa: S101 - asked by sharded services only
        return self.ownership

    async def bus_check(self) -> Check:
        """Returns a check that the broker answers."""
        connected = await self.bus.connected()
        return Check(f"{self.name}-bus", connected, "" if connected else "NATS does not answer")

    async def dependencies(self) -> Sequence[Check]:
        """Returns checks that broker and database answer, and what the outbox has set aside, which does not affect
        readiness."""
        bus, answers, refused = await asyncio.gather(self.bus_check(), self.database.ping(), self._refused())
        why = "" if answers else "PostgreSQL does not answer, or takes no writes"
        checks = [bus, Check(f"{self.name}-database", answers, why)]
        if refused:
            detail = f"{refused} events set aside: the bus takes none of them, see the column outbox.refused"
            checks.append(Check(f"{self.name}-outbox", True, detail))
        return checks

    async def _refused(self) -> int:
        with suppress(Unavailable):
            return (await self.relay.backlog()).refused
        return 0


class ReplicatedService:
    """slackwater.runtime.service.Service.

    Resource kinds that the composition root does not wire are served as they are declared.
    `load` reads what must be known before consuming starts. `state` is kept per partition, `loops`
    run by name beside the consumers. `leaving` is called when the service is about to stop, before
    its consumers finish their messages in hand; `close` after everything else has ended. `checks`
    are the service's own, `dependencies` those of what it needs. `partition_of_item` is the partition
    whose owner may retry a quarantined item, None for an item that only an operator releases.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        consumers: Sequence[Consumer[Any]],
        loops: Mapping[str, Loop],
        state: Holder | None = None,
        load: Sequence[Callable[[], Awaitable[object]]] = (),
        leaving: Callable[[], None] = lambda: None,
        close: Callable[[], Awaitable[None]] | None = None,
        dependencies: Callable[[], Awaitable[Sequence[Check]]] | None = None,
        checks: Callable[[], Sequence[Check]] = lambda: (),
        routers: Callable[[], Sequence[APIRouter]] = lambda: (),
        partition_of_item: Callable[[Item], int | None] = partition_of_node,
    ) -> None:
        self.name = replica.name
        self.quarantine = replica.quarantine
        self._partition_of_item = partition_of_item
        self.quarantine.retry_inherited(self._owns)
        self._replica = replica
        self._consumers = consumers
        self._kinds = replica.serve_others()
        following = {kind.kind.plural: kind.follow for kind in self._kinds}
        self._loops = {**loops, **following, "outbox": replica.relay.run, "quarantine": replica.quarantine.run}
        self._state = state
        self._load = (replica.quarantine.load, *(kind.in_force.load for kind in self._kinds), *load)
        self._leaving = leaving
        self._close = close
        self._dependencies = dependencies or replica.dependencies
        self._checks = checks
        self._routers = routers

    async def run(self, started: Callable[[], None]) -> None:
        """Load, then consume and repeat until cancelled. Raises Unavailable if a dependency is
        unavailable at the start.
        """
        for load in self._load:
            await load()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(loop(), name=f"{self.name} {name}") for name, loop in self._loops.items()]
                try:
                    await self._consume(started)
                finally:
                    for task in tasks:
                        task.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None
        finally:
            if self._close is not None:
                await self._close()

    async def _consume(self, started: Callable[[], None]) -> None:
        ownership = self._replica.ownership
        async with AsyncExitStack() as stack:
            holds = ownership.holds if ownership is not None else None
            opened = [
                await stack.enter_async_context(consumer.open(self._replica.bus, holds)) for consumer in self._consumers
            ]
            if ownership is not None:
                await stack.enter_async_context(ownership.owning(Together(self._state, opened, self.quarantine.notify)))
            started()
            try:
                await asyncio.Event().wait()
            finally:
                self._leaving()

    def _owns(self, item: Item) -> bool:
        ownership = self._replica.ownership
        if ownership is None:
            return True
        partition = self._partition_of_item(item)
        return partition is not None and ownership.holds(partition)

    async def checks(self) -> Sequence[Check]:
        """Returns checks of dependencies, the service itself, its quarantine and its partitions."""
        kinds = [kind.check(self.name) for kind in self._kinds]
        checks = [*await self._dependencies(), *self._checks(), *kinds, quarantine_check(self.quarantine)]
        if self._replica.ownership is not None:
            checks.append(ownership_check(self._replica.ownership))
        return checks

    def standing(self) -> MemberView | None:
        """slackwater.runtime.service.Sharded."""
        ownership = self._replica.ownership
        return ownership.standing() if ownership is not None else None

    def routers(self) -> Sequence[APIRouter]:
        return [*self._routers(), *(kind.router() for kind in self._kinds), quarantine_router(self.quarantine)]


class PartitionReader(Protocol):
    """The methods of an open consumer (slackwater.bus.port.Consumption)."""

    async def acquire(self, partitions: Collection[int]) -> None: ...
    async def release(self, partitions: Collection[int]) -> None: ...
    def drop(self, partitions: Collection[int]) -> None: ...


class Together:
    """slackwater.runtime.partition_sharding.Holder of state and consumers. Takes the state first, then
    consumers, and gives them back in reverse, so that no message is read without its state. `acquired`
    is called after both were taken.
    """

    def __init__(self, state: Holder | None, readings: Sequence[PartitionReader], acquired: Callable[[], None]) -> None:
        self._state = state
        self._readings = readings
        self._acquired = acquired

    async def acquire(self, leases: Sequence[Lease]) -> None:
        if self._state is not None:
            await self._state.acquire(leases)
        for reading in self._readings:
            await reading.acquire([lease.partition for lease in leases])
        self._acquired()

    async def release(self, leases: Sequence[Lease]) -> None:
        for reading in self._readings:
            await reading.release([lease.partition for lease in leases])
        if self._state is not None:
            await self._state.release(leases)

    def drop(self, partitions: Collection[int]) -> None:
        for reading in self._readings:
            reading.drop(partitions)
        if self._state is not None:
            self._state.drop(partitions)

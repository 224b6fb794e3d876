"""The bus on NATS JetStream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext

from slackwater.bus.admin.backlogs import Backlogs, backlogs
from slackwater.bus.admin.nats_admin import NatsAdmin
from slackwater.bus.admin.streams import DLQ, ConsumerSpec, Topology, load
from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.codec.lost_values import lost_values
from slackwater.bus.connect.access import API_PREFIX, NatsAccess
from slackwater.bus.connect.connections import CONNECT_SECONDS, BulkConnection, Connector, close_all, ended
from slackwater.bus.connect.declarations import Declarations
from slackwater.bus.connect.failover import answers_jetstream, watching
from slackwater.bus.connect.leaderless import LeaderlessConsumers
from slackwater.bus.connect.publisher import NotStored, StreamPublisher
from slackwater.bus.connect.round_trips import RoundTrips
from slackwater.bus.consume.agent_block_watch import BlockWatch
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.agent_rates import AgentRates, agent_gates
from slackwater.bus.consume.cooperative import FLOOD_PAUSE_SECONDS
from slackwater.bus.consume.dead_letter_store import DeadLetterStore
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.deliveries import NatsDelivery, ReadDelivery
from slackwater.bus.consume.handler_spans import publishing
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.partition_ownership import Unsettled
from slackwater.bus.consume.partitions import WHOLE, Lane, PartitionedConsumption, PartitionedPuller
from slackwater.bus.consume.pull_requests import Puller
from slackwater.bus.consume.reader_tasks import ReaderTasks
from slackwater.bus.consume.settlement import Gate, Settler
from slackwater.bus.consume.skip_to_latest import skip_policy
from slackwater.bus.consume.stats import Counters
from slackwater.bus.consume.unread_removal import removal
from slackwater.bus.port import BatchHandler, Consumption, Holds, StreamHead, Worth
from slackwater.bus.read.broadcast import Broadcasts, T
from slackwater.bus.read.nats_stream_reader import NatsStreamReader, StreamRequest
from slackwater.bus.read.ordered_reader import OrderedReader, Start, confined_to
from slackwater.bus.read.replay import Replayer
from slackwater.bus.read.stream_head import latest_of, stream_head
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.bus.read.watch import WatchDelivery, subjects_below
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.bus.rosters.roster_publisher import RosterPublisher
from slackwater.events.envelope import Event, Payload, partition_subjects, subjects_about, subjects_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.pods_rostered import PodsRostered, subject_in
from slackwater.events.serialized import Written, written
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.model.time import Clock, SystemClock
from slackwater.telemetry.metrics import process_meters
from slackwater.telemetry.spans import exporting

P = TypeVar("P", bound=Payload)

PUBLISH_SECONDS, REQUEST_SECONDS = 5.0, 3.0
HEAL_PAUSE_SECONDS = 2.0
"""Minimum time between two declarations on behalf of publishers: each takes about a hundred requests."""
WATCH_BATCH = 200


class NatsBus:
    """See slackwater.bus.port.Bus. Created by `connect_bus`; one per process is enough."""

    def __init__(
        self,
        client: Client,
        name: str,
        topology: Topology,
        *,
        declares: bool = True,
        access: NatsAccess | None = None,
        dialer: Connector | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._bulk, self._name, self._confined = BulkConnection(client, dialer), name, confined_to(access)
        self._topology = topology
        prefix = access.api_prefix if access else API_PREFIX
        self._js: JetStreamContext = client.jetstream(timeout=REQUEST_SECONDS, prefix=prefix)
        self._publisher = StreamPublisher(client, PUBLISH_SECONDS, access.message_bytes if access else None)
        self.unread = UnreadSubjects(process_meters())
        self._broadcasts = Broadcasts(client, self.unread)
        self._counters: dict[str, Counters] = {}
        self._readers = ReaderTasks(self._heal)
        self._metrics = BusMetrics(process_meters())
        lost_values()  # its metric is there before the first loss
        self._clock = clock or SystemClock()
        self._rosters = KnownRosters(self._read_roster, self._metrics, self._clock)
        self._roster_publisher = RosterPublisher(self.publish, self._clock)
        self._dead_letters = DeadLetterStore(self._bury, self._clock, self._metrics)
        self.blocks = Blocks()
        """Blocked agents; filled while this process consumes agent events."""
        self._block_watch = BlockWatch(client, self._js, self._readers, self.blocks, self.unread)
        self._healed_at, self._pings = float("-inf"), RoundTrips(client)
        setting = access.replicas if access else None
        self._declarations = Declarations(client, self._js, topology, setting, declares=declares)
        self._leaderless = LeaderlessConsumers(client, self._js, topology, self._readers.interrupt)

    @property
    def client(self) -> Client:
        """Returns the underlying connection, for copies of streams."""
        return self._client

    @property
    def jetstream(self) -> JetStreamContext:
        """Returns the underlying JetStream client, for tests and `slackwater doctor`."""
        return self._js

    def desk(self) -> NatsAdmin:
        """Returns operator access: consumers, dead letters, replay."""
        return NatsAdmin(self._js, self._publisher, self._topology)

    async def declare(self) -> None:
        """Create or update every stream and consumer of the topology. Raises Unavailable, Misconfigured."""
        await self._declarations.declare()

    async def grow(self) -> None:
        """Declare the streams again if they have fewer replicas than the cluster may have room for by now."""
        await self._declarations.grow()

    async def revive(self) -> None:
        """Make consumers of this process anew that have lost their leader for good."""
        await self._leaderless.check(tuple(self._counters))

    def connections(self) -> Mapping[str, Client]:
        """Returns the open connections by name."""
        return {self._name: self._client, **self._bulk.connection(f"{self._name}-bulk")}

    async def is_served(self, client: Client) -> bool:
        """Returns whether JetStream is of use through this connection: by the publishes to the server, which show it
        first, and by JetStream's answer, for which an agent may not ask.
        """
        if self._publisher.unanswered_since is not None and client.connected_url == self._client.connected_url:
            return False
        return not self._declarations.declares or await answers_jetstream(client)

    async def publish(self, event: Event[Any]) -> int:
        return await self._carry(written(event, await self._roster_publisher.body(event)))

    async def _read_roster(self, node: str, slot: int) -> Event[PodsRostered] | None:
        return await latest_of(self._js, PodsRostered, [subject_in(node, slot)], self.blocks, self.unread)

    async def carry(self, event: Written) -> None:
        await self._carry(event)

    async def _carry(self, event: Written) -> int:
        try:
            if not exporting(event.traceparent):
                return await self._store(event.stream, encode(event))
            with publishing(event) as step:
                message = encode(replace(event, traceparent=step.traceparent))
                return await self._store(event.stream, message)
        except Unavailable:
            self._metrics.publish_failures.labels(event.stream).inc()
            raise

    async def _store(self, stream: str, message: Message) -> int:
        """Store a message, and declare its stream again if it was deleted: no reader would notice the loss."""
        try:
            return await self._publisher.store(stream, message)
        except NotStored:
            now = asyncio.get_running_loop().time()
            if now - self._healed_at > HEAL_PAUSE_SECONDS:
                self._healed_at = now
                await self._readers.heal()
            raise

    @asynccontextmanager
    async def consume(
        self, payload: type[P], consumer: str, handler: BatchHandler[P], *,
        batch: int = 100, holds: Holds | None = None, worth: Worth | None = None,
    ) -> AsyncIterator[Consumption]:  # fmt: skip
        spec = self._spec(payload, consumer)
        counters = self._counted(consumer)
        await self._block_watch.load(payload)
        gates = self._gates(payload, consumer)
        bury, remove = self._dead_letters.bury, removal(self._client, spec, payload.STREAM)
        settler = Settler(
            payload, consumer, spec, handler, bury, counters,
            rosters=self._rosters, worth=worth, gates=gates, remove=remove,
        )  # fmt: skip
        if spec.partitioned:
            async with self._consume_partitions(settler, payload, consumer, batch, holds) as consumption:
                yield consumption
            return
        puller = Puller(await self._bulk.client_for(spec), payload.STREAM, consumer, batch, ahead=spec.fetch_ahead)
        await puller.open()

        async def work() -> bool:
            messages = await puller.next()
            if messages:
                await settler.settle([NatsDelivery(message) for message in messages])
            if spec.gather_seconds and 0 < len(messages) < batch:
                await asyncio.sleep(spec.gather_seconds)
            return bool(messages)

        async with self._readers.running(f"consumer {consumer}", work, puller):
            try:
                yield WHOLE
            finally:
                for message in await puller.close():
                    await NatsDelivery(message).nak(0)

    @asynccontextmanager
    async def _consume_partitions(
        self, settler: Settler[P], payload: type[P], consumer: str, batch: int, holds: Holds | None
    ) -> AsyncIterator[Consumption]:
        spec = self._topology.consumers[consumer]
        jumps = skip_policy(self._js, self._topology, consumer, self._counted(consumer), self._metrics)
        client = await self._bulk.client_for(spec)
        is_held = holds or (lambda _: True)
        lanes = [
            Lane(
                PartitionedPuller(client, payload.STREAM, consumer, batch, jumps, is_held),
                Unsettled(settler.settle, is_held),
            )
            for _ in range(spec.lanes)
        ]
        consumption = PartitionedConsumption(lanes)
        if holds is None:
            await consumption.acquire(ALL_PARTITIONS)
        async with AsyncExitStack() as stack:
            for number, lane in enumerate(lanes):
                work, what = partial(lane.work, batch, spec.gather_seconds), f"consumer {consumer}, lane {number}"
                await stack.enter_async_context(self._readers.running(what, work, lane.puller))
                stack.push_async_callback(lane.close)
            yield consumption

    @asynccontextmanager
    async def watch(
        self, payload: type[P], handler: Callable[[Event[P]], Awaitable[None]], *,
        key: str | None = None, caught_up: Callable[[], None] | None = None,
    ) -> AsyncIterator[None]:  # fmt: skip
        stream, filters, start = payload.STREAM, [subjects_below(payload, key)], Start(None)
        reader = OrderedReader(self._client, self._js, stream, filters, start, WATCH_BATCH, confined=self._confined)
        rates = AgentRates(payload, self._name, self._metrics, self._rosters.weight)
        keeps_last = self._topology.keeps_last(stream)
        delivery = WatchDelivery(
            payload, handler, lambda: self.blocks, self.unread, rates, self._rosters, keeps_last=keeps_last
        )
        await self._block_watch.load(payload)

        async def work() -> bool:
            if caught_up is not None and await reader.had_none():
                caught_up()
            messages = await reader.next()
            received = [Message(message.subject, message.headers or {}, message.data) for message in messages]
            if await delivery.deliver(received, self._clock.monotonic()):
                await asyncio.sleep(FLOOD_PAUSE_SECONDS)
            if caught_up is not None and (not messages[-1].metadata.num_pending if messages else reader.idle):
                caught_up()
            return bool(messages)

        async with self._readers.reading(f"watch of {payload.TYPE}", work, reader):
            yield

    async def broadcast(self, event: Event[Any]) -> None:
        await self._broadcasts.broadcast(event)

    def subscribe(
        self, payload: type[T], handler: Callable[[Event[T]], Awaitable[None]], *, partition: int
    ) -> AbstractAsyncContextManager[None]:
        return self._broadcasts.subscribe(payload, handler, partition)

    @asynccontextmanager
    async def replay(
        self, payload: type[P], handler: BatchHandler[P], *,
        after_sequence: int, batch: int = 500, partition: int | None = None,
    ) -> AsyncIterator[None]:  # fmt: skip
        filters = [subjects_of(payload)] if partition is None else partition_subjects(payload, partition)
        reader = OrderedReader(self._client, self._js, payload.STREAM, filters, Start(after_sequence), batch)
        name = f"{self._name}-replay-{payload.TYPE.replace('.', '-').replace('_', '-')}"
        replayer = Replayer(payload, name, handler, self._dead_letters.bury, self._counted(name), self._rosters)

        async def work() -> bool:
            messages = await reader.next()
            unhandled_after = await replayer.handle([ReadDelivery(message) for message in messages])
            if unhandled_after is not None:
                reader.rewind(unhandled_after)
                await reader.reset()
                return False
            return bool(messages)

        async with self._readers.reading(f"replay of {payload.TYPE}", work, reader):
            yield

    @asynccontextmanager
    async def follow(
        self, payloads: Sequence[type[Payload]], *, after: Mapping[str, int] | None = None,
        since: datetime | None = None, keys: Sequence[str] = (), bodies: bool = True,
    ) -> AsyncIterator[NatsStreamReader]:  # fmt: skip
        reader = NatsStreamReader(self._rosters)
        request = StreamRequest(payloads, after or {}, since, keys, bodies)
        await reader.begin(self._client, self._js, self._topology, request)
        async with AsyncExitStack() as stack:
            for part in reader.parts:
                await stack.enter_async_context(
                    self._readers.reading(f"follow of {part.stream}", part.work, part.reader)
                )
            try:
                yield reader
            finally:
                reader.mailbox.close()

    async def mark(self, payloads: Sequence[type[Payload]]) -> StreamHead:
        return await stream_head(self._js, payloads)

    async def latest(self, payload: type[P], node: str) -> Event[P] | None:
        await self._block_watch.load(payload)
        return await latest_of(self._js, payload, subjects_about(payload, node), self.blocks, self.unread)

    async def load_blocks(self) -> Blocks:
        """Returns the blocked agents, which this connection follows from now on. Raises Unavailable."""
        await self._block_watch.load(NodeDescribed)
        return self.blocks

    async def settled_up_to(self, consumer: str) -> int:
        try:
            info = await self._js.consumer_info(self._topology.stream_of(consumer), consumer)
        except (NatsError, TimeoutError) as error:
            raise Unavailable(f"consumer {consumer} cannot be asked now: {error!r}") from error
        return info.ack_floor.stream_seq if info.ack_floor is not None else 0

    async def connected(self) -> bool:
        """Returns whether the broker answers."""
        return self._client.is_connected and self._bulk.is_connected and await self._pings.answered()

    def stats(self) -> Mapping[str, Counters]:
        """Returns settlement counts of each consumer opened by this process."""
        return {name: counters.snapshot() for name, counters in self._counters.items()}

    async def backlogs(self) -> Backlogs:
        """Returns the lag of each consumer of this process (the broker hides other services'
        consumers) and the fill level of each stream. Raises Unavailable.
        """
        own = [name for name in self._topology.consumers if name in self._counters]
        return await backlogs(self._js, self._topology, own)

    async def bury(self, letter: DeadLetter) -> None:
        """Store a dead letter unchanged. Raises Unavailable."""
        await self._bury(letter, letter.message())

    async def _bury(self, letter: DeadLetter, message: Message) -> None:
        await self._store(DLQ, message)

    async def close(self) -> None:
        """Close the connection; pending requests fail. Called by `connect_bus`."""
        self._pings.close()
        await close_all(self._readers.close, self._block_watch.close, self._bulk.close, partial(ended, self._client))

    async def open(self) -> None:
        """Subscribe to the broker's answers; called by `connect_bus`."""
        await self._publisher.open()

    @property
    def trouble(self) -> str:
        """Returns why the connected broker did not store the last message; empty when it did."""
        return self._publisher.trouble

    @property
    def missing(self) -> str:
        """Returns the stream that was missing for the last message published, or an empty text."""
        return self._publisher.missing

    def disconnected(self) -> None:
        """Fail all requests in flight: their answers are lost with the connection."""
        self._roster_publisher.invalidate()
        self._publisher.connection_lost()

    def reconnected(self) -> None:
        """Interrupt all readers: answers to open requests may have been lost with the old connection."""
        self._metrics.reconnects.inc()
        self._readers.interrupt("connection was lost in between")

    def _counted(self, consumer: str) -> Counters:
        return self._counters.setdefault(consumer, Counters())

    def _gates(self, payload: type[Payload], consumer: str) -> Sequence[Gate]:
        counters, keeps_last = self._counted(consumer), self._topology.keeps_last(payload.STREAM)
        weight = self._rosters.weight
        return agent_gates(
            payload, consumer, lambda: self.blocks, counters, self._metrics, weight, keeps_last=keeps_last
        )

    def _spec(self, payload: type[Payload], consumer: str) -> ConsumerSpec:
        spec = self._topology.consumers.get(consumer)
        if spec is None or spec.event != payload.TYPE:
            raise Misconfigured(f"consumer {consumer!r} for {payload.TYPE} is not in contracts/streams.yaml")
        return spec

    async def _heal(self) -> None:
        """Declare streams and consumers again after a broker lost its store or they were deleted."""
        if self._declarations.declares and await self.connected():
            await self._declarations.restore()


@asynccontextmanager
async def connect_bus(
    url: str,
    *,
    name: str,
    topology: Topology | None = None,
    declares: bool = True,
    wait_seconds: float = CONNECT_SECONDS,
    access: NatsAccess | None = None,
) -> AsyncIterator[NatsBus]:
    """Yields a connected bus, which reconnects without limit. `declares=False` where another process declares the
    streams (an agent). Raises Unavailable without a broker in `wait_seconds`, Misconfigured for bad credentials."""
    dialer = Connector(url, name, access.options(url) if access is not None else {}, wait_seconds)
    async with (
        open_bus(dialer, name=name, topology=topology or load(), declares=declares, access=access) as bus,
        watching(bus),
    ):
        yield bus


@asynccontextmanager
async def open_bus(
    dialer: Connector,
    *,
    name: str,
    topology: Topology,
    declares: bool,
    access: NatsAccess | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[NatsBus]:
    """As `connect_bus`, with a given connector."""
    client = await dialer.dial()
    bus = NatsBus(client, name, topology, declares=declares, access=access, dialer=dialer, clock=clock)
    dialer.on_change(bus.reconnected, bus.disconnected)
    try:
        await bus.open()
        if declares:
            await bus.declare()
        yield bus
    finally:
        await bus.close()

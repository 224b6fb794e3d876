"""Three real brokers in a cluster, without services; those are under load in tests/faults/scenarios/brokers.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from nats.errors import Error as NatsError
from nats.js.api import ConsumerInfo, StreamInfo
from tests.faults.cluster import SIZE, Cluster, cluster

from slackwater.bus.admin.stream_setup import consumer_configs
from slackwater.bus.admin.streams import ConsumerSpec, StreamSpec, Topology
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.connections import Connector, ended
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.bus.connect.nats_client import SteadyClient
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import Event, event_of, subjects_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.nodes import Liveness
from slackwater.model.time import SystemClock

pytestmark = pytest.mark.timeout(240)
STREAM, CONSUMER, EVENTS = NodeLivenessChanged.STREAM, "test-node-liveness-changed", 300
TOPOLOGY = Topology(
    streams={
        STREAM: StreamSpec(
            subjects=(subjects_of(NodeLivenessChanged),), storage="file", discard="new", max_bytes=2**24
        ),
        "URGENT": StreamSpec(subjects=("sw.v1.urgent.>",), storage="memory", discard="old", max_bytes=2**20),
    },
    consumers={CONSUMER: ConsumerSpec(event=NodeLivenessChanged.TYPE, ack_wait_seconds=2)},
)
_PAUSE_SECONDS = 0.05


def event(number: int) -> Event[NodeLivenessChanged]:
    now = SystemClock().now()
    change = NodeLivenessChanged(
        node=f"n-{number}", liveness=Liveness.FRESH, previous=None, last_report_at=now, changed_at=now
    )
    return event_of(change, source="test", time=now)


async def asked(bus: NatsBus, stream: str) -> StreamInfo:
    """What the broker says of a stream, once it answers: it does not while a leader is elected."""
    while True:
        try:
            return await bus.jetstream.stream_info(stream)
        except (NatsError, TimeoutError):
            await asyncio.sleep(_PAUSE_SECONDS)


async def asked_consumer(bus: NatsBus) -> ConsumerInfo:
    while True:
        try:
            return await bus.jetstream.consumer_info(STREAM, CONSUMER)
        except (NatsError, TimeoutError):
            await asyncio.sleep(_PAUSE_SECONDS)


async def leader_of(bus: NatsBus) -> str:
    while True:
        info = await asked(bus, STREAM)
        if info.cluster is not None and info.cluster.leader:
            return info.cluster.leader
        await asyncio.sleep(_PAUSE_SECONDS)


async def replicas(bus: NatsBus) -> set[int | None]:
    return {(await asked(bus, name)).config.num_replicas for name in TOPOLOGY.streams}


async def until_replicated(bus: NatsBus) -> None:
    """Wait until every message and the consumer are on all servers. A cluster that has just begun to form may have room
    for one replica only, until the bus asks again; new replicas are behind at first, and consumers get them last.
    """
    for stream in TOPOLOGY.streams:
        while not is_whole(await asked(bus, stream)):
            await asyncio.sleep(_PAUSE_SECONDS)
    while not is_whole(await asked_consumer(bus)):
        await asyncio.sleep(_PAUSE_SECONDS)


def is_whole(info: StreamInfo | ConsumerInfo) -> bool:
    others = (info.cluster.replicas or []) if info.cluster is not None else []
    return len(others) + 1 == SIZE and all(other.current for other in others)


async def publish(bus: NatsBus, event: Event[NodeLivenessChanged]) -> None:
    while True:
        try:
            await bus.publish(event)
            return
        except Unavailable:
            await asyncio.sleep(_PAUSE_SECONDS)


async def test_streams_have_three_replicas_and_those_of_before_get_them(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        async with connect_bus(
            made.url, name="test", topology=TOPOLOGY, access=NatsAccess(replicas=1), wait_seconds=60
        ) as bus:
            assert await replicas(bus) == {1}
            await publish(bus, event(1))
        async with connect_bus(made.url, name="test", topology=TOPOLOGY, wait_seconds=60) as bus:
            await until_replicated(bus)
            info = await bus.jetstream.consumer_info(STREAM, CONSUMER)
            assert info.config.num_replicas in (None, 0, SIZE), "as many as the stream"
            assert (await asked(bus, STREAM)).state.messages == 1


async def test_more_replicas_than_servers_are_not_asked_for_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused now is asked for again when the cluster may have grown."""
    async with (
        cluster(tmp_path) as made,
        connect_bus(made.url, name="test", topology=TOPOLOGY, wait_seconds=60) as bus,
    ):
        monkeypatch.setattr("slackwater.bus.admin.stream_setup.USUAL_REPLICAS", 5)
        for name in TOPOLOGY.streams:
            await bus.jetstream.delete_stream(name)
        await bus.declare()
        assert await replicas(bus) == {1}
        monkeypatch.setattr("slackwater.bus.admin.stream_setup.USUAL_REPLICAS", SIZE)
        await bus.grow()
        assert await replicas(bus) == {SIZE}


@pytest.mark.parametrize("fault", ["killed", "stopped", "cut off"])
async def test_nothing_is_lost_or_doubled_when_the_leader_is(fault: str, tmp_path: Path) -> None:
    handled: list[str] = []

    async def handle(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        handled.extend(received.event.id for received in batch)
        return [Done()] * len(batch)

    async with cluster(tmp_path) as made:
        connecting = connect_bus(made.url, name="test", topology=TOPOLOGY, wait_seconds=60)
        async with connecting as bus, bus.consume(NodeLivenessChanged, CONSUMER, handle):
            events = [event(number) for number in range(EVENTS)]
            for one in events[:100]:
                await publish(bus, one)
            await until_replicated(bus)
            victim = await leader_of(bus)
            await begin(made, victim, fault)
            await asyncio.gather(*(publish(bus, one) for one in events[100:]))
            while set(handled) < {one.id for one in events}:
                await asyncio.sleep(_PAUSE_SECONDS)
            assert await leader_of(bus) != victim
            stored = (await asked(bus, STREAM)).state.messages
            made.resume(victim)
    assert stored == EVENTS


async def test_a_consumer_is_made_anew_when_its_only_server_is_stopped(tmp_path: Path) -> None:
    """As when a stream has just got its replicas: its consumers get theirs about a second later."""
    handled: list[str] = []

    async def handle(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        handled.extend(received.event.id for received in batch)
        return [Done()] * len(batch)

    async with cluster(tmp_path) as made:
        connecting = connect_bus(made.url, name="test", topology=TOPOLOGY, wait_seconds=60)
        async with connecting as bus, bus.consume(NodeLivenessChanged, CONSUMER, handle):
            await until_replicated(bus)
            config = consumer_configs(CONSUMER, TOPOLOGY.consumers[CONSUMER])[0]
            await bus.jetstream.add_consumer(STREAM, config.evolve(num_replicas=1))
            while (info := await asked_consumer(bus)).cluster is None or info.cluster.replicas:
                await asyncio.sleep(_PAUSE_SECONDS)
            assert info.cluster is not None
            assert info.cluster.leader is not None
            made.pause(info.cluster.leader)
            events = [event(number) for number in range(EVENTS)]
            await asyncio.gather(*(publish(bus, one) for one in events))
            while set(handled) < {one.id for one in events}:
                await asyncio.sleep(_PAUSE_SECONDS)
            info = await asked_consumer(bus)
            assert info.cluster is not None
            assert len(info.cluster.replicas or []) == SIZE - 1


async def test_a_cluster_that_forms_under_its_clients_gets_three_replicas(tmp_path: Path) -> None:
    async with (
        cluster(tmp_path, started=2) as made,
        connect_bus(made.url, name="test", topology=TOPOLOGY, wait_seconds=60) as bus,
    ):
        assert await replicas(bus) == {1}
        await made.start(["n3"])
        await until_replicated(bus)


async def test_a_stopped_server_is_left_with_what_it_did_not_read(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        client = await Connector(made.url, "test", {}, 60).dial()
        assert isinstance(client, SteadyClient)
        victim = made.name_at(client.connected_url.port)
        made.pause(victim)
        for _ in range(16):
            await client.publish("test.unread", bytes(2**19))
        await asyncio.sleep(_PAUSE_SECONDS)
        await client.move_on()
        while not client.is_connected:
            await asyncio.sleep(_PAUSE_SECONDS)
        await client.flush()
        assert made.name_at(client.connected_url.port) != victim
        await ended(client)


async def test_a_connection_to_a_stopped_server_ends(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        client = await Connector(made.url, "test", {}, 60).dial()
        made.pause(made.name_at(client.connected_url.port))
        for _ in range(16):
            await client.publish("test.unread", bytes(2**19))
        await ended(client)
        assert client.is_closed


async def begin(made: Cluster, victim: str, fault: str) -> None:
    if fault == "killed":
        await made.servers[victim].kill()
    elif fault == "stopped":
        made.pause(victim)
    else:
        made.cut_off(victim)


async def test_three_replicas_without_a_cluster_are_refused_in_words(nats_url: str) -> None:
    access = NatsAccess(replicas=3)
    with pytest.raises(Misconfigured, match="replicas > 1 not supported"):
        async with connect_bus(nats_url, name="test", topology=TOPOLOGY, access=access):
            pass

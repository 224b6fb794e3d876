"""Consumers of a stream in memory, whose replica on a server that restarted is empty: it elects no leader beside a
second server that stands still, although two of three servers work.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence, Set
from pathlib import Path

import pytest
from tests.faults.cluster import Cluster, cluster
from tests.integration.bus.test_cluster_of_brokers import asked, event, is_whole, publish

from slackwater.bus.admin.streams import ConsumerSpec, StreamSpec, Topology, durable_name
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.events.envelope import subjects_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of

pytestmark = pytest.mark.timeout(240)
STREAM, CONSUMER, EVENTS = NodeLivenessChanged.STREAM, "test-node-liveness-changed", 60
TOPOLOGY = Topology(
    streams={
        STREAM: StreamSpec(
            subjects=(subjects_of(NodeLivenessChanged),), storage="memory", discard="old", max_bytes=2**24
        )
    },
    consumers={
        CONSUMER: ConsumerSpec(event=NodeLivenessChanged.TYPE, ack_wait_seconds=2, partitioned=True, lanes=2),
    },
)
_PAUSE_SECONDS = 0.05


async def test_a_consumer_without_leader_is_made_anew(tmp_path: Path) -> None:
    handled: set[str] = set()

    async def handle(batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        handled.update(received.event.data.node for received in batch)
        return [Done()] * len(batch)

    async with cluster(tmp_path) as made:
        connecting = connect_bus(made.url, name="test", topology=TOPOLOGY, wait_seconds=60)
        async with connecting as bus, bus.consume(NodeLivenessChanged, CONSUMER, handle):
            while not is_whole(await asked(bus, STREAM)):
                await asyncio.sleep(_PAUSE_SECONDS)
            stopped = await _lose_leaders(made, bus, partitions={0, 3})
            events = [event(number) for number in range(EVENTS)]
            assert {partition_of(fact.data.node) for fact in events} == set(ALL_PARTITIONS)
            for fact in events:
                await publish(bus, fact)
            while handled < {fact.data.node for fact in events}:
                await asyncio.sleep(_PAUSE_SECONDS)
            assert made.is_paused(stopped)
            made.resume(stopped)


async def _lose_leaders(made: Cluster, bus: NatsBus, partitions: Set[int]) -> str:
    """Restart a server, and pause another, which leads the consumers of these partitions and not the stream, before
    the first has caught up. Returns the paused one.
    """
    led_by = await _leader(bus, None)
    restarted, stopped = (name for name in made.servers if name != led_by)
    await made.servers[restarted].kill()
    await _lead(bus, stopped, partitions, beside=led_by)
    made.pause(stopped)
    await made.servers[restarted].start()
    return stopped


async def _lead(bus: NatsBus, server: str, partitions: Set[int], *, beside: str) -> None:
    """Let a server lead the consumers of these partitions, and another the others."""
    for partition in ALL_PARTITIONS:
        leader = server if partition in partitions else beside
        while await _leader(bus, partition) != leader:
            subject = f"$JS.API.CONSUMER.LEADER.STEPDOWN.{STREAM}.{durable_name(CONSUMER, partition)}"
            await _request(bus, subject, {"placement": {"preferred": leader}})
            await asyncio.sleep(_PAUSE_SECONDS)


async def _leader(bus: NatsBus, partition: int | None) -> str:
    """Returns the server that leads a partition's consumer, or the stream; empty while there is none."""
    subject = f"$JS.API.STREAM.INFO.{STREAM}"
    if partition is not None:
        subject = f"$JS.API.CONSUMER.INFO.{STREAM}.{durable_name(CONSUMER, partition)}"
    return str((await _request(bus, subject, {})).get("cluster", {}).get("leader", ""))


async def _request(bus: NatsBus, subject: str, body: object) -> dict[str, dict[str, str]]:
    try:
        answer = await bus.client.request(subject, json.dumps(body).encode(), timeout=1)
    except TimeoutError:
        return {}
    return dict(json.loads(answer.data))

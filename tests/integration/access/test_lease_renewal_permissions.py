"""On a real nats-server with the generated configuration: publishers and readers of lease renewals, by partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest_asyncio
from broker_scene import NODES, Broker, secured
from nats.aio.client import Client

from slackwater.bus.admin.permissions import agent_user
from slackwater.events.envelope import Event, broadcast_subjects, event_of
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.model.identifiers import PARTITIONS, partition_of

MINE = partition_of(NODES[0])
OTHERS = (MINE + 1) % PARTITIONS
PATIENCE_SECONDS = 60


@pytest_asyncio.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = await secured(tmp_path, declared=False)
    yield broker
    await broker.server.stop()


def renewal(partition: int, read_up_to: int) -> Event[LeaseRenewed]:
    now = datetime.now(UTC)
    data = LeaseRenewed(
        writer="ensurance", partition=partition, epoch=1, read_up_to=read_up_to, heard_within_seconds=60, sent_at=now
    )
    return event_of(data, source="test", time=now)


@asynccontextmanager
async def agent_hears(broker: Broker) -> AsyncIterator[list[int]]:
    """What the agent of the first node hears, until the block ends."""
    heard: list[int] = []

    async def hear(event: Event[LeaseRenewed]) -> None:
        heard.append(event.data.read_up_to)

    async with broker.agent(NODES[0]) as bus, bus.subscribe(LeaseRenewed, hear, partition=MINE):
        yield heard


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not met():
            await asyncio.sleep(0.01)


async def test_an_agent_receives_renewals_of_its_own_partition_from_ensurance_only(broker: Broker) -> None:
    async with (
        agent_hears(broker) as heard,
        broker.service("console") as console,
        broker.service("ensurance") as ensurance,
        asyncio.timeout(PATIENCE_SECONDS),
    ):
        while not heard:
            await console.broadcast(renewal(MINE, 99))
            assert await console.connected()  # the broker has had its say on it
            await ensurance.broadcast(renewal(OTHERS, 1))
            await ensurance.broadcast(renewal(MINE, 2))
            await asyncio.sleep(0.02)
    assert set(heard) == {2}


async def test_an_agent_may_neither_publish_renewals_nor_receive_those_of_others(broker: Broker) -> None:
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error).lower())

    user = agent_user(NODES[0])
    client: Client = await nats.connect(broker.url, error_cb=note, **broker.access(user).options(broker.url))
    try:
        for subject in (broadcast_subjects(LeaseRenewed, OTHERS), "sw.v1.lease.renewed.>", "sw.v1.>"):
            await client.subscribe(subject)
            refusal = f'subscription to "{subject}"'
            await until(lambda: any(refusal in error for error in errors))  # noqa: B023 - awaited in this round
        forged = renewal(MINE, 99).subject
        await client.publish(forged, b"{}")
        await until(lambda: any("publish" in error and forged in error for error in errors))
    finally:
        await client.close()

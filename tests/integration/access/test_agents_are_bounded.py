"""What one agent opens at the broker is bounded, and another agent goes on."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pytest
from broker_scene import NODES, Broker, secured
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from tests.support.reports import described

from slackwater.bus.access.accounts import AGENT_CONNECTIONS, AGENT_SUBSCRIPTIONS
from slackwater.bus.access.floods import MESSAGES_AT_ONCE
from slackwater.bus.admin.permissions import agent_user
from slackwater.bus.connect.access import AGENT_API_PREFIX, AGENT_MESSAGE_BYTES, inbox_of
from slackwater.cli.broker import issuing_access
from slackwater.events.envelope import event_of, own_subjects
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.node_described import NodeDescribed
from slackwater.model.errors import InvalidInput

MINE, OTHER = NODES
LARGE = bytes(500_000)


async def opened(broker: Broker, stack: AsyncExitStack, errors: list[str]) -> Client:
    async def note(error: Exception) -> None:
        errors.append(str(error))

    options: dict[str, Any] = broker.access(agent_user(MINE), api_prefix=AGENT_API_PREFIX).options(broker.url)
    client = await nats.connect(broker.url, error_cb=note, allow_reconnect=False, connect_timeout=10, **options)
    stack.push_async_callback(client.close)
    return client


async def test_an_agent_has_a_few_connections_and_subscriptions(tmp_path: Path) -> None:
    broker = await secured(tmp_path)
    try:
        async with AsyncExitStack() as stack:
            errors: list[str] = []
            clients = [await opened(broker, stack, errors) for _ in range(AGENT_CONNECTIONS)]
            with pytest.raises(NatsError, match="maximum account active connections exceeded"):
                await opened(broker, stack, errors)
            inbox = inbox_of(agent_user(MINE))
            for number in range(AGENT_SUBSCRIPTIONS + 20):
                await clients[0].subscribe(f"{inbox}.{number}")
            async with asyncio.timeout(60):
                while not clients[0].is_closed:
                    await asyncio.sleep(0.05)
            assert "maximum subscriptions exceeded" in str(clients[0].last_error)
            assert not any(client.is_closed for client in clients[1:])
            subject = own_subjects(NodeDescribed, MINE)
            await clients[1].publish(subject, bytes(AGENT_MESSAGE_BYTES))
            await clients[1].flush()
            await clients[1].publish(subject, bytes(AGENT_MESSAGE_BYTES + 1))
            async with asyncio.timeout(60):
                while not clients[1].is_closed:
                    await asyncio.sleep(0.05)
            assert not any(client.is_closed for client in clients[2:])
            async with broker.agent(OTHER) as other:
                now = datetime.now(UTC)
                facts = described(OTHER, now)
                large = facts.model_copy(update={"boot_epoch": "x" * AGENT_MESSAGE_BYTES})
                with pytest.raises(InvalidInput, match="bytes"):
                    await other.publish(event_of(large, source=f"agent/{OTHER}", time=now))
                assert await other.connected(), "the agent's own bus does not send what would end its connection"
    finally:
        await broker.server.stop()


async def reconnect(broker: Broker, stack: AsyncExitStack, errors: list[str]) -> None:
    while True:
        await (await opened(broker, stack, errors)).close()


async def fill(client: Any, body: bytes) -> None:
    """Send this until the broker ends the connection, and read no answer."""
    client._reading_task.cancel()
    with suppress(ConnectionError):
        while not client._transport._io_writer.is_closing():
            client._transport.write(body * 20_000)
            await client._transport.drain()
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("body", [b"PING\r\n", b"SUB _INBOX.agent-n_2E1.x 1\r\nUNSUB 1\r\n", b"CONNECT"])
async def test_an_agent_that_keeps_the_broker_busy_without_messages_is_held(tmp_path: Path, body: bytes) -> None:
    broker = await secured(tmp_path)
    access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
    try:
        async with (
            AsyncExitStack() as stack,
            broker.service("ingestion") as bus,
            issuing_access(bus, broker.url, access),
            broker.agent(OTHER) as other,
        ):
            errors: list[str] = []
            async with asyncio.timeout(60):
                if body == b"CONNECT":
                    with pytest.raises(NatsError, match="maximum account active connections exceeded"):
                        await reconnect(broker, stack, errors)
                else:
                    await fill(await opened(broker, stack, errors), body)
            with pytest.raises(NatsError, match="maximum account active connections exceeded"):
                await opened(broker, stack, errors)
            now = datetime.now(UTC)
            await other.publish(event_of(described(OTHER, now), source=f"agent/{OTHER}", time=now))
    finally:
        await broker.server.stop()


async def test_an_agent_that_reads_its_intents_again_and_again_is_held(tmp_path: Path) -> None:
    """By what it is sent: its requests are few and small."""
    broker = await secured(tmp_path)
    access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
    try:
        async with (
            AsyncExitStack() as stack,
            broker.service("ingestion") as bus,
            issuing_access(bus, broker.url, access),
            broker.service("ensurance") as ensurance,
        ):
            await ensurance.jetstream.publish(own_subjects(IntentDeclared, MINE).replace("*", "ensurance"), LARGE)
            reader = await opened(broker, stack, [])
            intents = await reader.subscribe(reader.new_inbox())
            fetched = 0
            async with asyncio.timeout(60):
                with suppress(NatsError, TimeoutError):
                    while not reader.is_closed:
                        fetched += len(await fetch(reader, intents)) == len(LARGE)
            assert 60 < fetched < MESSAGES_AT_ONCE / 3
            with pytest.raises(NatsError, match="maximum account active connections exceeded"):
                await opened(broker, stack, [])
    finally:
        await broker.server.stop()


async def fetch(reader: Client, intents: Subscription) -> bytes:
    """The intent of this agent, read with a consumer of its own."""
    name, subject = agent_user(MINE), own_subjects(IntentDeclared, MINE)
    config = {"name": name, "filter_subject": subject, "deliver_policy": "last_per_subject", "ack_policy": "none"}
    consumers, wanted = f"{AGENT_API_PREFIX}.CONSUMER", json.dumps({"stream_name": "INTENTS", "config": config})
    await reader.request(f"{consumers}.CREATE.INTENTS.{name}.{subject}", wanted.encode(), timeout=5)
    await reader.publish(f"{consumers}.MSG.NEXT.INTENTS.{name}", b'{"batch":1}', reply=intents.subject)
    message = await intents.next_msg(timeout=5)
    await reader.request(f"{consumers}.DELETE.INTENTS.{name}", timeout=5)
    return message.data

"""What one ticket takes of the account of agents without access is bounded, and another agent gets its credentials."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from broker_scene import NODES, Broker, secured
from nats.aio.client import Client
from nats.errors import Error as NatsError

from slackwater.bus.access import ticket_floods, ticket_guard
from slackwater.bus.access.accounts import CLUSTER, ENROLMENT, ENROLMENT_CONNECTIONS, enrolment_inbox
from slackwater.bus.access.authority import claims_lookup
from slackwater.bus.access.issuer import connect_system, store_account
from slackwater.bus.access.service_accounts import ServiceAccounts
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import ENROL
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.cli.broker import issuing_access
from slackwater.events.envelope import subject_token

MINE, OTHER = NODES
PATIENCE_SECONDS = 60


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    scene = await secured(tmp_path / "broker")
    yield scene
    await scene.server.stop()


@asynccontextmanager
async def issuing(broker: Broker) -> AsyncIterator[NatsBus]:
    access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
    async with broker.service("ingestion") as bus, issuing_access(bus, broker.url, access):
        yield bus


@asynccontextmanager
async def opened(broker: Broker, ticket: UserCredentials, number: int) -> AsyncIterator[list[Client]]:
    """Yields so many connections with a ticket, or as many as there is room for; without reconnections."""
    file = broker.folder / f"{ticket.name}.ticket"
    file.write_text(ticket.text)
    options: dict[str, Any] = broker.tls().model_copy(update={"credentials_file": file}).options(broker.url)
    options |= {"allow_reconnect": False, "inbox_prefix": enrolment_inbox(ticket.name), "connect_timeout": 20}

    async def ignored(error: Exception) -> None: ...

    async with AsyncExitStack() as stack:
        clients: list[Client] = []
        for _ in range(number):
            try:
                clients.append(await nats.connect(broker.url, error_cb=ignored, **options))
            except (NatsError, OSError):
                break
            stack.push_async_callback(clients[-1].close)
        yield clients


async def at_most(clients: list[Client], most: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while sum(not client.is_closed for client in clients) > most:
            await asyncio.sleep(0.05)


async def test_one_ticket_cannot_hold_the_connections_of_all(broker: Broker, tmp_path: Path) -> None:
    ticket = broker.authority.ticket(MINE)
    async with opened(broker, ticket, 40) as clients:
        assert len(clients) > ticket_floods.CONNECTIONS, "a busy machine may refuse a handshake"
        async with issuing(broker):
            await at_most(clients, 0)
            async with opened(broker, ticket, 1) as refused:
                assert refused == []
            await broker.enrolment(OTHER, tmp_path / OTHER).obtain()


async def test_a_ticket_refused_while_accounts_are_compared_stays_refused(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, ticket, changes = broker.authority, broker.authority.ticket(MINE), asyncio.Lock()
    lookup = claims_lookup(authority.account(ENROLMENT).public)
    access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
    async with connect_system(broker.url, access, authority) as system, asyncio.TaskGroup() as others:
        ask = system.request

        async def refuse() -> None:
            async with changes:
                account = (await ask(lookup, timeout=20)).data.decode()
                refused = {ticket.key.public: int(time.time()) + 60}
                await store_account(system, authority.with_refused_tickets(account, refused))

        async def refusing_after(subject: str, *rest: Any, **named: Any) -> Any:
            """Answers, and leaves a refusal half a second between the two answers that a comparison reads."""
            answer = await ask(subject, *rest, **named)
            if subject == lookup:
                monkeypatch.undo()
                others.create_task(refuse())
                await asyncio.sleep(0.5)
            return answer

        monkeypatch.setattr(system, "request", refusing_after)
        async with opened(broker, ticket, 1) as clients:  # the broker reads the account for its first user
            assert len(clients) == 1
            await ServiceAccounts(authority, system, changes).put_in_force()
            await at_most(clients, 0)
    async with opened(broker, ticket, 1) as refused:
        assert refused == []


async def test_a_ticket_is_let_in_again_though_the_issuer_was_replaced(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_guard, "HOLD_SECONDS", 5.0)
    ticket = broker.authority.ticket(MINE)
    async with opened(broker, ticket, 10) as clients, issuing(broker):
        await at_most(clients, 0)
    async with issuing(broker), asyncio.timeout(PATIENCE_SECONDS):
        while True:
            async with opened(broker, ticket, 1) as again:
                if again:
                    break
            await asyncio.sleep(0.2)


async def test_a_ticket_that_asks_again_and_again_is_refused(broker: Broker, tmp_path: Path) -> None:
    async with issuing(broker), opened(broker, broker.authority.ticket(MINE), 1) as clients:
        (client,) = clients
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not client.is_closed:
                try:
                    await client.publish(f"{ENROL}.{subject_token(MINE)}", b"{}")
                except NatsError:
                    break
                await asyncio.sleep(0.01)
        await broker.enrolment(OTHER, tmp_path / OTHER).obtain()


async def test_a_clusters_ticket_leaves_room_for_other_addresses(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 4 * ticket_floods.ADDRESS_CONNECTIONS <= ENROLMENT_CONNECTIONS
    monkeypatch.setattr(ticket_floods, "ADDRESS_CONNECTIONS", 10)
    ticket = broker.authority.cluster_ticket()
    async with issuing(broker), opened(broker, ticket, 30) as clients:
        assert ticket.name == CLUSTER
        await at_most(clients, 10)
        await broker.enrolment(OTHER, tmp_path / OTHER).obtain()
        monkeypatch.setattr(ticket_floods, "OPEN_SECONDS", 0.0)
        await at_most(clients, 0)
        async with opened(broker, ticket, 1) as again:
            assert len(again) == 1, "it is not refused: it is that of all agents of the cluster"

"""Agents ask for credentials, renew them, and lose them when they are blocked, on a real nats-server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import nats
import pytest
from broker_scene import NODES, Broker, secured
from nats.errors import Error as NatsError
from tests.support.reports import described

from slackwater.bus.access import authority as authorities
from slackwater.bus.access import floods, reviews
from slackwater.bus.access.enrolment import FILE, Enrolment, connect_enrolled
from slackwater.bus.access.issuer import REQUESTS_AT_ONCE, AccessIssuer, connect_system, store_account
from slackwater.bus.access.keys import KeyKind, NatsKey
from slackwater.bus.access.requests import AccessRequest, parse_request
from slackwater.bus.access.reviews import AgentReviews
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import ENROL, REVIEW, agent_user
from slackwater.bus.connect.access import read_credentials
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.cli.broker import ACCESS, issuing_access, registry
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import event_of, own_subjects, subject_token
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput, Unavailable

NEW = "n.3"
"""A node that the broker's configuration was not made with."""
PATIENCE_SECONDS = 60
POD_TOKEN = "of the pod"  # noqa: S105 - it stands for one


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    scene = await secured(tmp_path / "broker")
    ticket = scene.authority.ticket(NEW)
    (scene.folder / "agents" / f"{agent_user(NEW)}.creds").write_text(ticket.text)
    yield scene
    await scene.server.stop()


@asynccontextmanager
async def issuing(broker: Broker) -> AsyncIterator[NatsBus]:
    """Ingestion, which issues access."""
    access = broker.access("ingestion", authority_file=broker.folder / "access.seed")
    async with broker.service("ingestion") as bus, issuing_access(bus, broker.url, access):
        yield bus


def reviewing(broker: Broker) -> AbstractAsyncContextManager[NatsBus]:
    """`slackwater cluster-access`."""
    return connect_bus(broker.url, name=ACCESS, declares=False, access=broker.access(ACCESS))


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not met():
            await asyncio.sleep(0.02)


async def describes(bus: NatsBus, node: str) -> None:
    now = datetime.now(UTC)
    await bus.publish(event_of(described(node, now), source=f"agent/{node}", time=now))


async def block(ingestion: NatsBus, node: str, *, blocked: bool) -> None:
    now = datetime.now(UTC)
    change = AgentBlockChanged(node=node, blocked=blocked, reason="stolen", changed_by="ada", since=now)
    await ingestion.publish(event_of(change, source="ingestion", time=now))


async def test_a_node_that_joins_gets_access_and_the_brokers_configuration_stays(
    broker: Broker, tmp_path: Path
) -> None:
    before = (broker.folder / "access.conf").read_text()
    enrolment = broker.enrolment(NEW, tmp_path / "state")
    with pytest.raises(Unavailable, match="no service issues credentials"):
        await enrolment.obtain()
    async with issuing(broker), connect_enrolled(enrolment, broker.url, name="agent", wait_seconds=5) as bus:
        await describes(bus, NEW)
        own = read_credentials(tmp_path / "state" / FILE)
        assert own.expires_at == own.issued_at + authorities.CREDENTIAL_SECONDS
        assert (tmp_path / "state" / FILE).stat().st_mode & 0o777 == 0o600
        await enrolment.renew(bus.client)
        assert read_credentials(tmp_path / "state" / FILE).token != own.token
    assert (broker.folder / "access.conf").read_text() == before
    assert NEW not in before
    async with connect_enrolled(broker.enrolment(NEW, tmp_path / "state"), broker.url, name="agent", wait_seconds=5):
        pass  # no service issues access now: the last credentials are valid


async def test_a_blocked_agent_is_cut_off_and_gets_no_access_until_it_is_unblocked(
    broker: Broker, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        ingestion = await stack.enter_async_context(issuing(broker))
        enrolments = [broker.enrolment(node, tmp_path / node, check_seconds=0.2) for node in (NEW, NODES[0])]
        mine, other = [
            await stack.enter_async_context(connect_enrolled(enrolment, broker.url, name="agent", wait_seconds=5))
            for enrolment in enrolments
        ]
        stolen = tmp_path / "stolen.creds"
        stolen.write_bytes((tmp_path / NEW / FILE).read_bytes())
        await block(ingestion, NEW, blocked=True)
        await until(lambda: not mine.client.is_connected)
        with pytest.raises(Unavailable, match="is blocked: stolen"):
            await broker.enrolment(NEW, tmp_path / "again").obtain()
        await asyncio.sleep(1.1)  # it tries again and again
        assert not mine.client.is_connected
        await describes(other, NODES[0])
        await block(ingestion, NEW, blocked=False)
        await until(lambda: mine.client.is_connected)
        await describes(mine, NEW)
        access = broker.tls().model_copy(update={"credentials_file": stolen})
        with pytest.raises(NatsError):  # what was issued before is not valid again
            await nats.connect(broker.url, allow_reconnect=False, connect_timeout=5, **access.options(broker.url))


async def test_an_agent_that_floods_is_held_off_the_broker_for_a_while(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(floods, "HOLD_SECONDS", 4.0)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(issuing(broker))
        enrolments = [broker.enrolment(node, tmp_path / node, check_seconds=0.2) for node in (NEW, NODES[0])]
        mine, other = [
            await stack.enter_async_context(connect_enrolled(enrolment, broker.url, name="agent", wait_seconds=5))
            for enrolment in enrolments
        ]
        access = broker.tls().model_copy(update={"credentials_file": tmp_path / NEW / FILE})
        broken = await nats.connect(broker.url, allow_reconnect=False, **access.options(broker.url))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not broken.is_closed:
                with suppress(NatsError):  # its connection ends
                    for _ in range(floods.MESSAGES_AT_ONCE // 4):
                        await broken.publish(own_subjects(UsageReported, NEW), b"{}")
                    await broken.flush()
        await until(lambda: f"the agent of {NEW} is held off the broker for" in caplog.text)
        await describes(other, NODES[0])
        await until(lambda: mine.client.is_connected)
        await describes(mine, NEW)
        assert (mine.client.stats["reconnects"] > 0, other.client.stats["reconnects"]) == (True, 0)


@pytest.mark.parametrize("login", ["ticket", "own"])
async def test_no_agent_gets_access_for_another_node(broker: Broker, tmp_path: Path, login: str) -> None:
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error).lower())

    mine, other = NODES
    file = broker.folder / ("agents" if login == "ticket" else "credentials") / f"{agent_user(mine)}.creds"
    options = broker.tls().model_copy(update={"credentials_file": file}).options(broker.url)
    prefix = f"_INBOX.enrol.{subject_token(mine)}" if login == "ticket" else options["inbox_prefix"]
    async with issuing(broker):
        client = await nats.connect(broker.url, error_cb=note, **options | {"inbox_prefix": prefix})
        try:
            key = NatsKey.generate(KeyKind.USER).public
            request = AccessRequest(node=other, public_key=key).model_dump_json().encode()
            answer = await client.request(f"{ENROL}.{subject_token(mine)}", request, timeout=5)
            assert "not the one" in json.loads(answer.data)["error"]
            await client.publish(f"{ENROL}.{subject_token(other)}", request)
            await until(lambda: any("permissions violation" in error for error in errors))
            if login == "ticket":
                await client.publish("sw.v1.usage.reported.1.n", b"{}")
                await until(lambda: any("usage.reported" in error for error in errors))
        finally:
            await client.close()


async def test_credentials_that_expire_are_replaced_without_an_end_of_the_bus(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorities, "CREDENTIAL_SECONDS", 2)
    async with issuing(broker):
        enrolment = broker.enrolment(NEW, tmp_path, check_seconds=0.1)
        async with connect_enrolled(enrolment, broker.url, name="agent", wait_seconds=5) as bus:
            await until(lambda: bus.client.stats["reconnects"] >= 2)
            await until(lambda: bus.client.is_connected)
            await describes(bus, NEW)


async def test_a_broker_that_lost_its_accounts_gets_them_again(broker: Broker, tmp_path: Path) -> None:
    async with issuing(broker):
        enrolment = broker.enrolment(NEW, tmp_path, check_seconds=0.2)
        async with connect_enrolled(enrolment, broker.url, name="agent", wait_seconds=5) as bus:
            await broker.server.kill()
            for file in (broker.folder / "accounts").glob("*.jwt"):
                file.unlink()
            await broker.server.start()
            await until(lambda: bus.client.is_connected)
            assert await bus.connected()


async def test_a_cluster_proves_the_node_of_its_agent(broker: Broker, tmp_path: Path) -> None:
    async def review(token: str) -> str:
        if token != POD_TOKEN:
            raise InvalidInput("identity: the cluster does not know it", field="identity")
        return NEW

    ticket, identity = tmp_path / "cluster.creds", tmp_path / "token"
    ticket.write_text(broker.authority.cluster_ticket().text)
    access = broker.tls().model_copy(update={"enrolment_file": ticket, "identity_file": identity})
    async with issuing(broker), reviewing(broker) as reviewer:
        answering = asyncio.create_task(AgentReviews(reviewer.client, review)())
        identity.write_text(f"{POD_TOKEN}\n")
        async with connect_enrolled(
            Enrolment(access, broker.url, NEW, tmp_path / "own"), broker.url, name="agent", wait_seconds=5
        ) as bus:
            await describes(bus, NEW)
        for node, token, refusal in ((NEW, "of another", "does not know it"), (NODES[0], POD_TOKEN, "the pod")):
            identity.write_text(token)
            with pytest.raises(Unavailable, match=refusal):
                await Enrolment(access, broker.url, node, tmp_path / "other").obtain()
        answering.cancel()
        await asyncio.wait([answering])


async def test_a_flood_of_reviews_is_over_when_it_ends(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent without access has sent while one review is under way asks the API server a few times, not each."""
    monkeypatch.setattr(reviews, "MOST_WAITING", 16)
    reviewed, go_on = list[str](), asyncio.Event()

    async def review(token: str) -> str:
        reviewed.append(token)
        await go_on.wait()
        return NEW

    ticket, identity = tmp_path / "cluster.creds", tmp_path / "token"
    ticket.write_text(broker.authority.cluster_ticket().text)
    identity.write_text(POD_TOKEN)
    access = broker.tls().model_copy(update={"enrolment_file": ticket, "identity_file": identity})
    key = NatsKey.generate(KeyKind.USER).public
    forged = AccessRequest(node=NODES[0], public_key=key, identity="of another").model_dump_json().encode()
    options = broker.tls().model_copy(update={"credentials_file": ticket}).options(broker.url)
    async with issuing(broker), reviewing(broker) as reviewer:
        answering = asyncio.create_task(AgentReviews(reviewer.client, review)())
        client = await nats.connect(broker.url, **options)
        try:
            while not reviewed:
                await client.publish(REVIEW, forged)
                await client.flush()
            for _ in range(2000):
                await client.publish(REVIEW, forged)
            await client.flush()
            await reviewer.client.flush()
        finally:
            await client.close()
        go_on.set()
        await Enrolment(access, broker.url, NEW, tmp_path / "own").obtain()
        answering.cancel()
        await asyncio.wait([answering])
    assert reviewed.count(POD_TOKEN) == 1
    assert reviewed.count("of another") < 100


def test_credentials_are_a_file_that_other_tools_read(broker: Broker) -> None:
    text = (broker.folder / "credentials" / "console.creds").read_text()
    assert UserCredentials.parse(text).text.strip() == text.strip()
    assert "-----BEGIN USER NKEY SEED-----\nSU" in text


async def test_an_account_that_the_broker_refuses_is_not_taken_for_stored(broker: Broker) -> None:
    async with connect_system(broker.url, broker.tls(), broker.authority) as system:
        with pytest.raises(Unavailable, match="refused an account"):
            await store_account(system, "no token")


async def test_a_full_disk_does_not_end_the_renewals(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "no-folder").write_text("")
    enrolment = broker.enrolment(NEW, tmp_path / "no-folder")
    async with issuing(broker):
        with pytest.raises(Unavailable, match="cannot be kept"):
            await enrolment.obtain()


def test_a_key_that_is_no_text_of_one_is_refused_by_name() -> None:
    body = AccessRequest(node=NEW, public_key="Ü" * 56).model_dump_json().encode()
    with pytest.raises(InvalidInput, match="public_key"):
        parse_request(body)


async def test_a_hold_that_ingestion_forgot_ends_when_the_agent_asks(broker: Broker, tmp_path: Path) -> None:
    """Ingestion was replaced while an agent was held: the account at the broker still has no connection."""
    enrolment = broker.enrolment(NEW, tmp_path / NEW, check_seconds=0.2)
    async with AsyncExitStack() as stack:
        async with issuing(broker):
            mine = await stack.enter_async_context(
                connect_enrolled(enrolment, broker.url, name="agent", wait_seconds=5)
            )
            async with connect_system(broker.url, broker.tls(), broker.authority) as system:
                _, agent = registry()
                await store_account(system, broker.authority.agent_account(agent, NEW, is_held=True))
            await until(lambda: not mine.client.is_connected)
        async with issuing(broker):
            await until(lambda: mine.client.is_connected)
            await describes(mine, NEW)


async def test_a_flood_of_requests_for_access_keeps_no_other_agent_from_it(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ticket asks 3,000 times; each answer would cost a signature and an account at the broker."""
    stored: list[str] = []
    store = AccessIssuer.store

    async def counted(issuer: AccessIssuer, node: str) -> None:
        stored.append(node)
        await store(issuer, node)

    monkeypatch.setattr(AccessIssuer, "store", counted)
    mine = NODES[0]
    ticket = broker.folder / "agents" / f"{agent_user(mine)}.creds"
    options = broker.tls().model_copy(update={"credentials_file": ticket}).options(broker.url)
    request = AccessRequest(node=mine, public_key=NatsKey.generate(KeyKind.USER).public).model_dump_json().encode()
    async with issuing(broker):
        client = await nats.connect(broker.url, **options)
        try:
            for _ in range(3000):
                await client.publish(f"{ENROL}.{subject_token(mine)}", request)
            await client.flush()
            await broker.enrolment(NEW, tmp_path / NEW).obtain()
        finally:
            await client.close()
    assert stored.count(NEW) == 1
    assert stored.count(mine) <= 2 * REQUESTS_AT_ONCE

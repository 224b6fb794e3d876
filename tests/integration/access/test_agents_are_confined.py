"""Two agents on a real nats-server with the generated configuration: each reaches its own node, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import nats
import nats.aio.msg
import pytest
import pytest_asyncio
from broker_scene import NODES, Broker, pki, secured
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError
from tests.support.postgres_server import FreshDatabase
from tests.support.reports import report

from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build_agent
from slackwater.agent.settings import AgentSettings
from slackwater.bus.admin.permissions import agent_user
from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.access import AGENT_API_PREFIX, NatsAccess, inbox_of
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.bus.port import Done, Received, Settlement
from slackwater.bus.read.stream_reader import StreamEvent
from slackwater.console.adapters.offer_board import OfferBoard
from slackwater.console.domain.offer_table import WantedOffers
from slackwater.events.envelope import event_of, own_subjects, subject_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import Eviction, IntentDeclared, eviction_id
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import URGENT_TRIGGER, WaterlineCrossed, crossing_of
from slackwater.ingestion.service import build as build_ingestion
from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_nats import EmbeddedNats
from slackwater.runtime.platform import Platform
from slackwater.store.engine import connect_database

MINE, OTHER = NODES
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    loop = asyncio.new_event_loop()  # asyncio.run would unset the loop that pytest-asyncio has set
    try:
        broker = loop.run_until_complete(secured(tmp_path_factory.mktemp("broker")))
        yield broker
        loop.run_until_complete(broker.server.stop())
    finally:
        loop.close()


def intent(node: str, generation: int = 1) -> IntentDeclared:
    return IntentDeclared(
        node=node, writer="ensurance", generation=generation, declared_at=datetime.now(UTC), lease_seconds=60
    )


def no_database(service: str) -> NoReturn:
    raise AssertionError(f"{service} is an agent's and needs none")


@asynccontextmanager
async def running(run: Callable[[Callable[[], None]], Awaitable[None]]) -> AsyncIterator[None]:
    """A service works while the context is open."""
    ready = asyncio.Event()
    task = asyncio.ensure_future(run(ready.set))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield
    finally:
        waiting.cancel()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


class Raw:
    """The agent of MINE turned bad: its credentials in a client that does as it likes."""

    def __init__(self, client: Client, errors: list[str]) -> None:
        self.client = client
        self.errors = errors
        self.js = client.jetstream(prefix=AGENT_API_PREFIX, timeout=PATIENCE_SECONDS)

    async def refused(self, subject: str) -> None:
        """The broker says no to a publish on `subject`; returns when it has."""
        await self.client.publish(subject, b"{}")
        await until(lambda: any("permissions violation" in error and subject.lower() in error for error in self.errors))


@pytest_asyncio.fixture
async def rogue(broker: Broker) -> AsyncIterator[Raw]:
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error).lower())

    access = broker.access(agent_user(MINE))
    client = await nats.connect(broker.url, error_cb=note, **access.options(broker.url))
    yield Raw(client, errors)
    await client.close()


@pytest_asyncio.fixture
async def control(broker: Broker) -> AsyncIterator[NatsBus]:
    async with broker.service("ensurance") as bus:
        yield bus


async def test_a_report_becomes_a_window_under_these_permissions(
    broker: Broker, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        prediction = await stack.enter_async_context(broker.service("prediction"))
        addresses = await fresh_database(["ingestion"])
        database = connect_database(addresses["ingestion"], "ingestion", SystemClock())
        stack.push_async_callback(database.close)
        bus = await stack.enter_async_context(broker.service("ingestion"))
        settings = IngestionSettings(window_seconds=1, lateness_seconds=0.2, report_interval_seconds=1)
        service = build_ingestion(settings, Platform(bus, SystemClock(), lambda _: database, tmp_path))
        await stack.enter_async_context(running(service.run))
        windows: list[str] = []

        async def fold(batch: Sequence[Received[UsageWindowed]]) -> Sequence[Settlement]:
            windows.extend(received.subject_key for received in batch)
            return [Done()] * len(batch)

        await stack.enter_async_context(prediction.replay(UsageWindowed, fold, after_sequence=0))
        agent_bus = await stack.enter_async_context(broker.agent(MINE))
        await stack.enter_async_context(running(agent(agent_bus, tmp_path).run))
        await until(lambda: MINE in windows)
        assert set(windows) == {MINE}


async def test_an_intent_is_read_and_observed_under_these_permissions(broker: Broker, tmp_path: Path) -> None:
    seen: list[IntentObserved] = []

    async def observed(batch: Sequence[Received[IntentObserved]]) -> Sequence[Settlement]:
        seen.extend(received.event.data for received in batch)
        return [Done()] * len(batch)

    async with broker.service("ensurance") as bus, broker.agent(MINE) as agent_bus:  # noqa: SIM117 - one needs the other
        async with bus.consume(IntentObserved, "ensurance-intent-observed", observed):
            for node in NODES:
                await bus.publish(event_of(intent(node, 7), source="test", time=datetime.now(UTC)))
            async with running(agent(agent_bus, tmp_path).run):
                await until(lambda: any(one.generation == 7 for one in seen))
                await bus.publish(event_of(intent(MINE, 8), source="test", time=datetime.now(UTC)))
                await until(lambda: any(one.generation == 8 for one in seen))
                agent_bus.reconnected()  # what an agent does after every interruption: read again
                await bus.publish(event_of(intent(MINE, 9), source="test", time=datetime.now(UTC)))
                await until(lambda: any(one.generation == 9 for one in seen))
    assert {one.node for one in seen} == {MINE}


async def test_an_agent_publishes_the_completion_of_an_eviction(broker: Broker, tmp_path: Path) -> None:
    """Under the id that ensurance gives it: what the broker refuses holds up everything the agent has to tell."""
    ended: list[EvictionCompleted] = []

    async def completed(batch: Sequence[Received[EvictionCompleted]]) -> Sequence[Settlement]:
        ended.extend(received.event.data for received in batch)
        return [Done()] * len(batch)

    now = datetime.now(UTC)
    item = Eviction(
        id=eviction_id("d1", 1), pod_uid="gone", grace_seconds=1, deadline=now + timedelta(seconds=60), reason="test",
        decision_id="d1",
    )  # fmt: skip
    async with broker.service("ensurance") as bus, broker.agent(MINE) as agent_bus:  # noqa: SIM117 - one needs the other
        async with bus.consume(EvictionCompleted, "ensurance-eviction-completed", completed):
            document = intent(MINE, 20).model_copy(update={"evictions": (item,)})
            await bus.publish(event_of(document, source="test", time=now))
            async with running(agent(agent_bus, tmp_path).run):
                await until(lambda: bool(ended))
    assert [(one.id, one.outcome) for one in ended] == [(item.id, "already_gone")]


async def test_an_urgent_report_passes_these_permissions(broker: Broker) -> None:
    heard: list[str] = []

    async def told(batch: Sequence[Received[WaterlineCrossed]]) -> Sequence[Settlement]:
        heard.extend(received.event.data.node for received in batch)
        return [Done()] * len(batch)

    urgent = report(MINE, 1, datetime.now(UTC)).model_copy(update={"trigger": URGENT_TRIGGER})
    crossing = crossing_of(event_of(urgent, source=f"agent/{MINE}", time=datetime.now(UTC)))
    assert crossing is not None
    async with broker.service("ensurance") as bus, broker.agent(MINE) as agent_bus:  # noqa: SIM117 - one needs the other
        async with bus.consume(WaterlineCrossed, "ensurance-waterline-crossed", told):
            await agent_bus.publish(crossing)
            await until(lambda: heard == [MINE])


@pytest.mark.parametrize("event", [UsageReported, WaterlineCrossed, IntentObserved])
async def test_no_agent_publishes_as_another_node(rogue: Raw, event: type[UsageReported | IntentObserved]) -> None:
    await rogue.refused(own_subjects(event, OTHER).replace("*", "ensurance"))
    answer = await rogue.client.request(own_subjects(event, MINE).replace("*", "ensurance"), b"{}", timeout=60)
    assert "seq" in json.loads(answer.data)


@pytest.mark.parametrize(
    "subject",
    [
        subject_of(intent(MINE)),
        subject_of(intent(OTHER)),
        "sw.v1.resources.offered.1.n",
        "sw.v1.dlq.ingestion-usage-reported",
        "sw.v1.usage.windowed.1.n",
        "$JS.API.STREAM.DELETE.USAGE",
        "$JS.API.STREAM.PURGE.DECISIONS",
        "$JS.API.STREAM.MSG.DELETE.INTENTS",
        "$JS.API.STREAM.UPDATE.INTENTS",
        "$JS.API.STREAM.INFO.INTENTS",
        "$JS.API.DIRECT.GET.INTENTS",
        "$JS.API.CONSUMER.MSG.NEXT.USAGE.ingestion-usage-reported",
        "$JS.ACK.USAGE.ingestion-usage-reported.1.1.1.1.0",
        f"{AGENT_API_PREFIX}.STREAM.PURGE.INTENTS",
        f"{AGENT_API_PREFIX}.CONSUMER.CREATE.INTENTS.{agent_user(MINE)}",
        f"{AGENT_API_PREFIX}.CONSUMER.CREATE.INTENTS.{agent_user(MINE)}.{own_subjects(IntentDeclared, OTHER)}",
        f"{AGENT_API_PREFIX}.CONSUMER.CREATE.INTENTS.mine.{own_subjects(IntentDeclared, MINE)}",
        f"{AGENT_API_PREFIX}.CONSUMER.MSG.NEXT.INTENTS.{agent_user(OTHER)}",
        f"{AGENT_API_PREFIX}.CONSUMER.DELETE.INTENTS.{agent_user(OTHER)}",
    ],
)
async def test_an_agent_is_refused_everything_that_is_not_its_nodes(rogue: Raw, subject: str) -> None:
    await rogue.refused(subject)


@pytest.mark.parametrize("subject", [">", "sw.v1.>", own_subjects(IntentDeclared, OTHER), f"{inbox_of('ensurance')}.>"])
async def test_an_agent_receives_only_from_its_own_inbox(rogue: Raw, control: NatsBus, subject: str) -> None:
    heard: list[bytes] = []

    async def note(message: nats.aio.msg.Msg) -> None:
        heard.append(message.data)

    await rogue.client.subscribe(subject, cb=note)
    await until(lambda: any("permissions violation" in error for error in rogue.errors))
    await control.publish(event_of(intent(OTHER), source="test", time=datetime.now(UTC)))
    await rogue.client.flush(PATIENCE_SECONDS)
    assert heard == []


async def test_the_body_of_a_request_cannot_widen_it(rogue: Raw) -> None:
    """The filter in the subject is the permission; the broker refuses a body that says otherwise."""
    subject = f"CONSUMER.CREATE.INTENTS.{agent_user(MINE)}.{own_subjects(IntentDeclared, MINE)}"
    for config in (
        {"name": agent_user(MINE), "filter_subject": own_subjects(IntentDeclared, OTHER)},
        {"name": agent_user(OTHER), "filter_subject": own_subjects(IntentDeclared, MINE)},
        {"name": agent_user(MINE), "filter_subjects": ["sw.v1.intent.declared.>"]},
    ):
        body = json.dumps({"stream_name": "INTENTS", "config": config | {"ack_policy": "none"}}).encode()
        answer = await rogue.client.request(f"{AGENT_API_PREFIX}.{subject}", body, timeout=60)
        assert "error" in json.loads(answer.data), config


async def test_no_answer_of_the_broker_can_be_sent_over_what_others_keep(rogue: Raw, control: NatsBus) -> None:
    """A publish names where its confirmation goes; inside one account that would write over any subject."""
    await control.publish(event_of(intent(OTHER, 5), source="test", time=datetime.now(UTC)))
    before = await control.jetstream.stream_info("INTENTS")
    for reply in (subject_of(intent(OTHER)), own_subjects(UsageReported, OTHER), "$JS.API.STREAM.PURGE.INTENTS"):
        await rogue.client.publish(own_subjects(UsageReported, MINE), b"{}", reply=reply)
    await rogue.client.flush(PATIENCE_SECONDS)
    confirmed = await rogue.client.request(own_subjects(UsageReported, MINE), b"{}", timeout=60)
    assert "seq" in json.loads(confirmed.data)
    after = await control.jetstream.stream_info("INTENTS")
    assert after.state.last_seq == before.state.last_seq
    assert after.state.messages == before.state.messages


async def test_no_consumer_can_be_made_to_deliver_over_what_others_keep(rogue: Raw, control: NatsBus) -> None:
    await control.publish(event_of(intent(MINE, 5), source="test", time=datetime.now(UTC)))
    before = (await control.jetstream.stream_info("USAGE")).state.last_seq
    config = ConsumerConfig(
        name=agent_user(MINE),
        filter_subject=own_subjects(IntentDeclared, MINE),
        ack_policy=AckPolicy.NONE,
        deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        deliver_subject=own_subjects(UsageReported, OTHER),
    )
    with suppress(NatsError):
        await rogue.js.delete_consumer("INTENTS", agent_user(MINE))
    await rogue.js.add_consumer("INTENTS", config)
    for generation in range(6, 10):
        await control.publish(event_of(intent(MINE, generation), source="test", time=datetime.now(UTC)))
    confirmed = await rogue.client.request(own_subjects(UsageReported, MINE), b"{}", timeout=60)
    assert json.loads(confirmed.data)["seq"] == before + 1
    await rogue.js.delete_consumer("INTENTS", agent_user(MINE))


async def test_a_body_that_names_another_node_is_a_dead_letter(broker: Broker, control: NatsBus) -> None:
    lie = encode(event_of(report(OTHER, 1, datetime.now(UTC)), source=f"agent/{OTHER}", time=datetime.now(UTC)))
    taken: list[str] = []

    async def take(batch: Sequence[Received[UsageReported]]) -> Sequence[Settlement]:
        taken.extend(received.event.id for received in batch)
        return [Done()] * len(batch)

    async with broker.agent(MINE) as bus, control.consume(UsageReported, "ensurance-usage-reported", take):
        js = bus.jetstream
        await js.publish(own_subjects(UsageReported, MINE), lie.body, headers=dict(lie.headers))
        await until(lambda: control.stats()["ensurance-usage-reported"].undecodable > 0)
    assert lie.headers["ce-id"] not in taken


async def test_the_console_reads_offers_along_under_these_permissions(broker: Broker) -> None:
    offer = ResourcesOffered(
        node=MINE,
        offered_at=datetime.now(UTC),
        generation=1,
        batch=Resources(1000, 2**30),
        degraded=None,
        decision_ids={},
    )
    async with broker.service("colocation") as colocation, broker.service("console") as console:
        await colocation.publish(event_of(offer, source="test", time=offer.offered_at))
        board = OfferBoard(console, SystemClock())
        reading = asyncio.create_task(board.run())
        try:
            with board.watching():
                sight = await asyncio.wait_for(board.ready(), PATIENCE_SECONDS)
        finally:
            reading.cancel()
            await asyncio.wait([reading])
    found, _ = sight.table.news(0, 0, WantedOffers(frozenset({MINE})), 10)
    assert [change.node for change in found] == [MINE]


@pytest.mark.parametrize("service", ["prediction", "console"])
async def test_services_have_no_more_than_they_need(broker: Broker, service: str) -> None:
    """Not even the console, which puts dead letters of all others back, may tell a node to do something."""
    async with broker.service(service) as bus:
        with pytest.raises(Unavailable):
            await asyncio.wait_for(refusing(bus), PATIENCE_SECONDS)
        assert await bus.connected()


async def test_a_letter_that_the_broker_delivers_to_a_node_is_no_command(broker: Broker) -> None:
    """The console may store any letter, and a pull names where it is delivered to. It keeps its subject all the same,
    so the agent, whose consumer has one filter, does not see it; nor is it in force."""
    forged = encode(event_of(intent(MINE, 99), source="console", time=datetime.now(UTC)))
    letter = "sw.v1.dlq.console-decision-recorded"
    async with broker.service("console") as console:
        js = console.client.jetstream()
        before = (await js.stream_info("INTENTS")).state.last_seq
        await js.publish(letter, forged.body, headers={**forged.headers, "Nats-Msg-Id": "forged"})
        wanted = {"ack_policy": "none", "deliver_policy": "last", "inactive_threshold": 30 * 10**9}
        request = json.dumps({"stream_name": "DLQ", "config": wanted}).encode()
        made = json.loads((await console.client.request("$JS.API.CONSUMER.CREATE.DLQ", request, timeout=60)).data)
        await console.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.DLQ.{made['name']}", b'{"batch":1}', forged.subject)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (last := (await js.stream_info("INTENTS")).state.last_seq) == before:
                await asyncio.sleep(0.05)
        assert (await js.get_msg("INTENTS", seq=last)).subject == letter, "stored, but as what it is"
        with suppress(NotFoundError):
            assert ((await js.get_msg("INTENTS", subject=forged.subject)).headers or {})["ce-source"] != "console"


async def test_the_console_looks_on_and_marks_under_its_permissions(broker: Broker, control: NatsBus) -> None:
    async with broker.service("console") as console, console.follow([IntentDeclared]) as following:
        sent = event_of(intent(OTHER, 11), source="test", time=datetime.now(UTC))
        await control.publish(sent)
        async with asyncio.timeout(PATIENCE_SECONDS):
            seen = await following.next()
        assert [one.id for one in seen if isinstance(one, StreamEvent)] == [sent.id]
        assert (await console.mark([IntentDeclared])).sequence > 0
        assert await console.settled_up_to("console-intent-observed") >= 0


async def refusing(bus: NatsBus) -> None:
    """A service that is not ensurance declares an intent: the broker does not confirm what it does not take."""
    bus._publisher._timeout = 1.0
    await bus.publish(event_of(intent(MINE), source="test", time=datetime.now(UTC)))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("signer", "refuses the login; see SLACKWATER_NATS_CREDENTIALS_FILE"),
        ("nobody", "refuses the login"),
        ("authority", r"not trusted \(unable to get local issuer certificate\); SLACKWATER_NATS_CA"),
        ("name", r"not trusted \(Hostname mismatch.*\)"),
        ("certificate", "TLS failed .*SLACKWATER_NATS_CERTIFICATE"),
        ("plaintext", "not trusted"),
    ],
)
async def test_a_client_is_refused_with_the_reason(broker: Broker, tmp_path: Path, wrong: str, why: str) -> None:
    url, access = broker.url, broker.access("ingestion")
    if wrong == "signer":
        (file := tmp_path / "old.creds").write_text(broker.authority.service_credentials("ingestion").text)
        access = access.model_copy(update={"credentials_file": file})
    elif wrong == "nobody":
        access = access.model_copy(update={"credentials_file": None})
    elif wrong == "authority":
        access = access.model_copy(update={"ca": pki(tmp_path / "other").ca})
    elif wrong == "certificate":
        certificate, key = pki(tmp_path / "other").issue("client.example")
        access = access.model_copy(update={"certificate": certificate, "key": key})
    elif wrong == "name":
        url = url.replace("127.0.0.1", "localhost")
    else:
        url = url.replace("tls://", "nats://")
        access = NatsAccess(credentials_file=access.credentials_file)
    with pytest.raises(Unavailable, match=why):
        async with connect_bus(url, name="test", declares=False, access=access, wait_seconds=1):
            pass


async def test_a_client_that_wants_tls_does_not_speak_to_a_broker_without(broker: Broker, tmp_path: Path) -> None:
    plain = EmbeddedNats(tmp_path)
    url = await plain.start()
    try:
        with pytest.raises(Misconfigured, match="tls://"):
            async with connect_bus(url, name="test", access=broker.access("ingestion")):
                pass
        tls_url = url.replace("nats://", "tls://")
        with pytest.raises(Unavailable, match="has no TLS"):
            async with connect_bus(tls_url, name="test", access=broker.access("ingestion"), wait_seconds=1):
                pass
    finally:
        await plain.stop()


def agent(bus: NatsBus, folder: Path) -> AgentService:
    clock, settings = SystemClock(), AgentSettings(node=MINE, sample_seconds=0.1, report_seconds=0.3)
    machine = SimulatedDriver(MINE, 1, clock, started_at=clock.now())
    return build_agent(settings, Platform(bus, clock, no_database, folder), machine)

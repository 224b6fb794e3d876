"""The control loop while something is used up: a full stream for decisions, all sessions of the pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx2
import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text
from test_ensurance_service import World, bus_knows, limits
from tests.support.nats_server import purge_broker

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.model.errors import StreamFull
from slackwater.model.identifiers import partition_of
from slackwater.model.time import SystemClock
from slackwater.runtime.http import build_app
from slackwater.runtime.loop_watch import LoopWatch
from slackwater.runtime.platform import Platform
from slackwater.runtime.settings import HttpSettings
from slackwater.store.engine import POOL_LIMIT, PostgresDatabase, connect_database
from slackwater.telemetry.metrics import Meters

LEASE_SECONDS = 3.0
HOLD_SECONDS = 25
"""Below the longest statement that a session may have."""


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[NatsBus]:
    """A real broker that takes few decisions."""
    topology = load()
    tiny = topology.streams["DECISIONS"].model_copy(update={"max_bytes": 100_000})
    small = topology.model_copy(update={"streams": {**topology.streams, "DECISIONS": tiny}})
    async with connect_bus(nats_url, name="test", declares=False, topology=small) as connected:
        await purge_broker(connected)
        await connected.declare()
        yield connected
        await purge_broker(connected)


@pytest.fixture
async def database(
    fresh_database: Callable[[list[str]], Awaitable[dict[str, str]]],
) -> AsyncIterator[PostgresDatabase]:
    found = connect_database((await fresh_database(["ensurance"]))["ensurance"], "ensurance", SystemClock())
    yield found
    await found.close()


@pytest.fixture
async def world(bus: NatsBus, database: PostgresDatabase, tmp_path: Path) -> AsyncIterator[World]:
    world = World(bus, Platform(bus, SystemClock(), lambda _: database, tmp_path))
    async with (
        bus.replay(DecisionRecorded, world.listen, after_sequence=0),  # type: ignore[arg-type]  # any payload
        bus.replay(IntentDeclared, world.listen, after_sequence=0),  # type: ignore[arg-type]  # the same
    ):
        yield world


@asynccontextmanager
async def renewals(world: World) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Yields a wait for so many more renewals of the lease of n1."""
    heard: list[LeaseRenewed] = []

    async def hear(event: Event[LeaseRenewed]) -> None:
        heard.append(event.data)

    async def more(count: int) -> None:
        due = len(heard) + count
        with anyio.fail_after(60):
            while len(heard) < due:
                await asyncio.sleep(0.01)

    async with world.bus.subscribe(LeaseRenewed, hear, partition=partition_of("n1")):
        yield more


def effect(number: int) -> Event[EffectMeasured]:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    data = EffectMeasured(
        decision_id=f"d{number}",
        node="n9",
        metric="prod_cpu_pressure",
        before=0.5,
        after=0.1,
        waterline=0.2,
        relieved=True,
        actuated_at=at,
        measured_at=at,
        seconds_to_actuation=0,
        seconds_to_measurement=0,
    )
    return event_of(data, source="test", time=at)


async def fill(bus: NatsBus) -> None:
    for number in range(10_000):
        try:
            await bus.publish(effect(number))
        except StreamFull:
            return
    raise AssertionError("DECISIONS never refuses")


async def readyz(watch: LoopWatch) -> tuple[int, str]:
    app = build_app([], watch.checks, HttpSettings())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1:8460") as client:
        answer = await client.get("/readyz")
    return answer.status_code, answer.text


def watch_of(bus: NatsBus, database: PostgresDatabase) -> LoopWatch:
    return LoopWatch(bus, lambda: {"ensurance": database}, SystemClock(), Meters(CollectorRegistry()))


async def test_reports_intents_and_leases_flow_while_no_decision_can_be_stored(
    world: World, bus: NatsBus, database: PostgresDatabase
) -> None:
    await fill(bus)
    watch = watch_of(bus, database)
    await watch.check()
    status, said = await readyz(watch)
    assert (status, "[!]stream-DECISIONS warning: full: " in said) == (200, True)
    async with renewals(world) as renewed, world.service(lease_seconds=LEASE_SECONDS) as service:
        await bus_knows(world)
        report = await world.report(0.2)
        intent = await world.hear(IntentDeclared, lambda i: bool(i.throttles))
        assert limits(intent.data) == {"b1": 725}
        await renewed(2)
        assert all(check.ok for check in await service.checks())
        waiting = await database.backlog()
        assert waiting is not None
        assert (waiting.depth > 0, waiting.refused) == (True, 0)
        assert not [event for event in world.heard if isinstance(event.data, DecisionRecorded)]
        await bus.jetstream.purge_stream("DECISIONS")
        decision = await world.hear(DecisionRecorded)
        assert decision.causedby == report.id
        assert intent.causedby == decision.id


async def test_leases_are_renewed_and_health_answers_while_all_sessions_are_in_use(
    world: World, bus: NatsBus, database: PostgresDatabase
) -> None:
    async def hold(begun: asyncio.Event) -> None:
        async with database.unit_of_work() as unit:
            begun.set()
            await unit.connection.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": HOLD_SECONDS})

    async def use() -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(text("SELECT 1"))

    watch = watch_of(bus, database)
    async with renewals(world) as renewed, world.service(lease_seconds=LEASE_SECONDS):
        await bus_knows(world)
        await world.report(0.0)
        await renewed(1)
        held = [asyncio.Event() for _ in range(POOL_LIMIT)]
        tasks = [asyncio.create_task(hold(begun)) for begun in held]
        try:
            for begun in held:
                await begun.wait()
            waiting = asyncio.create_task(use())
            tasks.append(waiting)
            while not database.connections().waiting:
                await asyncio.sleep(0.01)
            for _ in range(3):
                await watch.check()
            status, said = await readyz(watch)
            assert (status, "[-]pool-ensurance failed: full: " in said) == (503, True)
            assert await database.ping()
            await renewed(3)
            assert database.connections().in_use == POOL_LIMIT, "the sessions were in use all the time"
            assert not waiting.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

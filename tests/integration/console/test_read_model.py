"""One suite over both read models: in memory and in PostgreSQL; and the console on real servers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slackwater.bus.nats import NatsBus
from slackwater.console.adapters.feed import LocalFeed
from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.domain.views import DecisionFilter, EvictionView
from slackwater.console.edge.events import routes
from slackwater.console.ports import ReadModel
from slackwater.console.service import build
from slackwater.console.settings import ConsoleSettings
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.decisions.reasons import DecisionKind
from slackwater.events.envelope import Event, Payload
from slackwater.model.time import SystemClock
from slackwater.runtime.platform import Platform
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.testing.clock import EPOCH, FakeClock
from slackwater.testing.postgres_server import FreshDatabase
from slackwater.testing.story import FLEET, SURGE, identifier, story

NOW = EPOCH + timedelta(hours=10)
START = NOW - timedelta(minutes=15)
DAY = timedelta(days=1)
THROTTLE = identifier("edge-7", "throttle", SURGE[0] + 25)

Ask = Callable[[ReadModel], Awaitable[Any]]


@asynccontextmanager
async def postgres(fresh_database: FreshDatabase) -> AsyncIterator[PostgresDatabase]:
    addresses = await fresh_database(["console"])
    database = connect_database(addresses["console"], "console", SystemClock())
    try:
        yield database
    finally:
        await database.close()


async def tell(model: ReadModel, events: Sequence[Event[Any]]) -> None:
    recorder = RecordEvents(model, LocalFeed(), FakeClock(NOW), usage_retention=DAY, decision_retention=DAY)
    batches: dict[type[Payload], list[Event[Any]]] = defaultdict(list)
    for event in events:
        batches[type(event.data)].append(event)
    for payload, batch in batches.items():
        await routes(recorder)[payload](batch)


QUESTIONS: dict[str, Ask] = {
    "nodes": lambda m: m.nodes(),
    "node": lambda m: m.node("edge-10"),
    "unknown node": lambda m: m.node("nowhere"),
    "pods": lambda m: m.pods(),
    "pods of a node": lambda m: m.pods("edge-7"),
    "usage": lambda m: m.usage("edge-7", START + timedelta(minutes=6), START + timedelta(minutes=9)),
    "fleet usage": lambda m: m.fleet_usage(START, NOW, 10),
    "fleet usage, odd buckets": lambda m: m.fleet_usage(START, NOW, 7),
    "forecasts": lambda m: m.forecasts("edge-7", START + timedelta(seconds=330), NOW),
    "offers of a node": lambda m: m.offers("edge-7", START + timedelta(seconds=330), NOW),
    "offers of all": lambda m: m.offers(None, START + timedelta(seconds=330), START + timedelta(seconds=500)),
    "offer then": lambda m: m.offer_at("edge-7", START + timedelta(seconds=480)),
    "offer before all": lambda m: m.offer_at("edge-7", START),
    "decisions": lambda m: m.decisions(DecisionFilter(limit=500)),
    "decisions of a kind": lambda m: m.decisions(DecisionFilter(node="edge-7", kind=DecisionKind.RESTORE)),
    "decisions in a time": lambda m: m.decisions(
        DecisionFilter(subject="batch-cpu", since=START + timedelta(minutes=5), until=START + timedelta(minutes=7))
    ),
    "decisions after a page": lambda m: m.decisions(
        DecisionFilter(before=(START + timedelta(seconds=480.3), identifier("edge-8", "offer", 480)), limit=5)
    ),
    "decision": lambda m: m.decision(THROTTLE),
    "unknown decision": lambda m: m.decision("none"),
    "decision then": lambda m: m.decision_at("edge-7", "cpu", START + timedelta(seconds=500)),
    "subjects": lambda m: m.subjects("edge-7"),
    "report by event id": lambda m: m.event(identifier("edge-7", "usage.reported", 300)),
    "forecast by event id": lambda m: m.event(identifier("edge-7", "peak.predicted", 300)),
    "unknown event": lambda m: m.event("none"),
    "effect": lambda m: m.effect(THROTTLE),
    "observations": lambda m: m.observations(THROTTLE),
    "evictions": lambda m: m.evictions("d9"),
    "counts": lambda m: m.counts(),
}
EMPTY_ANSWERS = {"unknown node", "offer before all", "unknown decision", "unknown event"}


async def test_both_read_models_give_the_same_answer_to_every_question(fresh_database: FreshDatabase) -> None:
    ended = EvictionView("e1", "edge-7", "u1", "ensurance", "killed", "", NOW, "d9")
    async with postgres(fresh_database) as database:
        models: tuple[ReadModel, ReadModel] = (MemoryReadModel(), PostgresReadModel(database))
        for model in models:
            await tell(model, story(NOW))
            await model.save_evictions([ended, ended])
        for name, ask in QUESTIONS.items():
            memory, stored = await ask(models[0]), await ask(models[1])
            assert stored == memory, name
            assert bool(stored) is (name not in EMPTY_ANSWERS), name


async def test_batches_that_come_again_or_in_any_order_leave_the_same(fresh_database: FreshDatabase) -> None:
    events = [event for event in story(NOW) if event.time >= NOW - timedelta(minutes=3)]
    async with postgres(fresh_database) as database:
        model = PostgresReadModel(database)
        await tell(model, events)
        before = [await ask(model) for ask in QUESTIONS.values()]
        await tell(model, list(reversed(events)))
        await tell(model, events[: len(events) // 2])
        assert [await ask(model) for ask in QUESTIONS.values()] == before


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_pruning_forgets_what_is_older_and_nothing_else(kind: str, fresh_database: FreshDatabase) -> None:
    async with postgres(fresh_database) as database:
        model: ReadModel = MemoryReadModel() if kind == "memory" else PostgresReadModel(database)
        await tell(model, story(NOW))
        before = await model.counts()
        cut = START + timedelta(minutes=10)
        await model.prune(cut, START)
        after = await model.counts()
        assert after.decisions == before.decisions
        assert 0 < after.reports < before.reports
        assert 0 < after.offers < before.offers
        assert len(await model.usage("edge-7", START, NOW)) == len(await model.usage("edge-7", cut, NOW)) > 0
        await model.prune(cut, NOW + DAY)
        assert (await model.counts()).decisions == ()
        assert (await model.nodes())[0].facts is not None, "what a node is does not age"


async def test_the_console_on_nats_and_postgres_reads_what_is_published(
    bus: NatsBus, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    clock = SystemClock()
    # usage.reported keeps 60 a subject and is consumed from now on: a short end of the story, told while it runs
    events = [event for event in story(clock.now()) if event.time >= clock.now() - timedelta(seconds=290)]
    async with postgres(fresh_database) as database:

        def console_only(service: str) -> PostgresDatabase:
            assert service == "console"
            return database

        service = build(ConsoleSettings(), Platform(bus=bus, clock=clock, database=console_only, state_dir=tmp_path))
        started = asyncio.Event()
        running = asyncio.create_task(service.run(started.set))
        try:
            await asyncio.wait_for(started.wait(), 20)
            for event in events:
                await bus.publish(event)
            model = PostgresReadModel(database)
            reports = sum(event.data.TYPE == "usage.reported" for event in events)
            await until(lambda: reported(model, reports))
            assert all(check.ok for check in await service.checks())
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert {node.name for node in await model.nodes()} == {node.name for node in FLEET}


async def reported(model: ReadModel, number: int) -> bool:
    counts = await model.counts()
    return counts.reports == number and counts.offers > 0 and bool(counts.decisions)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():
            await asyncio.sleep(0.05)

"""What a unit of work promises, held by PostgreSQL and by its in-memory twin alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from probe_service import PROBE, Broker, eventually, liveness, running
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.store import MemoryDatabase

from slackwater.model.identifiers import new_id
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.port import Database


@pytest.fixture(params=["memory", "twin", "postgres"])
async def database(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[Database]:
    if request.param == "memory":
        yield MemoryDatabase()
        return
    if request.param == "twin":
        yield twin_of(PROBE)
        return
    real = connect_database((await fresh_database([PROBE]))["probe"], "probe", SystemClock())
    yield real
    await real.close()


TRACE = f"00-{1:032x}-{2:016x}-01"


async def commit(database: Database, *numbers: int, node: str = "a") -> None:
    async with database.unit_of_work() as unit:
        for number in numbers:
            await unit.publish(liveness(node, number))


async def drained(database: Database) -> None:
    """Until the outbox is empty; the test's own timeout is the limit."""
    relay = database.relay(Broker().carry)
    while (await relay.backlog()).depth:
        await asyncio.sleep(0.005)


async def test_what_is_committed_is_published_in_order(database: Database) -> None:
    broker = Broker()
    await commit(database, 1, 2, 3)
    async with running(database.relay(broker.carry)):
        await commit(database, 4)
        await commit(database, 5)
        await drained(database)
    assert broker.numbers("a") == [1, 2, 3, 4, 5]


async def test_an_event_arrives_as_it_was_published(database: Database) -> None:
    broker = Broker()
    event = liveness("a").model_copy(update={"causedby": "the-cause", "traceparent": TRACE})
    async with database.unit_of_work() as unit:
        await unit.publish(event)
    async with running(database.relay(broker.carry)):
        await eventually(lambda: bool(broker.arrived))
    arrived = broker.arrived[0]
    assert (arrived.id, arrived.source, arrived.time) == (event.id, event.source, event.time)
    assert (arrived.causedby, arrived.traceparent) == ("the-cause", TRACE)
    assert arrived.data == event.data
    assert arrived.subject == event.subject


async def test_a_rollback_publishes_nothing_and_forgets_what_it_handled(database: Database) -> None:
    identifier = new_id()

    async def fail() -> None:
        async with database.unit_of_work() as unit:
            await unit.publish(liveness("a"))
            assert await unit.first_time("consumer", identifier)
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await fail()
    assert (await database.relay(Broker().carry).backlog()).depth == 0
    async with database.unit_of_work() as unit:
        assert await unit.first_time("consumer", identifier)


async def test_an_event_is_handled_once_per_consumer(database: Database) -> None:
    identifier = new_id()
    async with database.unit_of_work() as unit:
        assert await unit.first_time("one", identifier)
        assert not await unit.first_time("one", identifier)
    async with database.unit_of_work() as unit:
        assert not await unit.first_time("one", identifier)
        assert await unit.first_time("two", identifier)
        assert await unit.first_time("one", new_id())


async def test_of_two_at_once_one_is_first(database: Database) -> None:
    identifier = new_id()

    async def handle() -> bool:
        async with database.unit_of_work() as unit:
            first = await unit.first_time("consumer", identifier)
            await asyncio.sleep(0.01)
            return first

    assert sorted(await asyncio.gather(*(handle() for _ in range(4)))) == [False, False, False, True]


async def test_an_outage_of_the_broker_keeps_order_and_loses_nothing(database: Database) -> None:
    broker = Broker()
    broker.away = True
    await commit(database, 1, 2)
    async with running(database.relay(broker.carry)):
        await eventually(lambda: broker.attempts >= 2)
        await commit(database, 3)
        assert (await database.relay(broker.carry).backlog()).depth == 3
        broker.away = False
        await eventually(lambda: len(broker.arrived) == 3)
    assert broker.numbers("a") == [1, 2, 3]


async def test_an_event_that_the_bus_never_accepts_delays_no_other(database: Database) -> None:
    broker = Broker()
    broker.refused_nodes.add("poison")
    await commit(database, 1, node="poison")
    await commit(database, 1, 2)
    async with running(database.relay(broker.carry)):
        await drained(database)
    assert broker.numbers("a") == [1, 2]


async def test_of_two_relays_one_works_and_the_other_takes_over(database: Database) -> None:
    first, second = Broker(), Broker()
    async with running(database.relay(first.carry)) as working:
        await commit(database, 1)
        await eventually(lambda: len(first.arrived) == 1)
        async with running(database.relay(second.carry)):
            await commit(database, 2)
            await eventually(lambda: len(first.arrived) == 2)
            await drained(database)
            assert second.attempts == 0
            working.cancel()
            await asyncio.wait((working,))
            await commit(database, 3)
            await eventually(lambda: len(second.arrived) == 1)
    assert second.numbers("a") == [3]


async def test_a_subject_that_keeps_failing_delays_no_other_and_keeps_its_order(database: Database) -> None:
    broker = Broker()
    broker.failing_nodes.add("ill")
    await commit(database, *range(1, 301), node="ill")  # more than a relay reads at once
    await commit(database, 1, 2)
    async with running(database.relay(broker.carry)):
        await eventually(lambda: broker.numbers("a") == [1, 2])
        await commit(database, 3)
        await eventually(lambda: broker.numbers("a") == [1, 2, 3])
        broker.failing_nodes.clear()
        await commit(database, 301, node="ill")
        await drained(database)
    assert broker.numbers("ill") == list(range(1, 302))


async def test_many_failing_subjects_delay_no_other(database: Database) -> None:
    broker = Broker()
    ill = [f"ill-{number}" for number in range(250)]
    broker.failing_nodes.update(ill)
    for node in ill:
        await commit(database, 1, node=node)
    await commit(database, 1)
    async with running(database.relay(broker.carry)):
        await eventually(lambda: broker.numbers("a") == [1])

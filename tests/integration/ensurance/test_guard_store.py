"""What the use cases may rely on, held by PostgreSQL and by its twin in memory alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.support.clock import EPOCH
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.store import MemoryDatabase

from slackwater.ensurance.adapters.guard_rows import KeyedGuardStore
from slackwater.ensurance.domain.node_state import Awaited, Evicting, GuardedNode, LastReport
from slackwater.ensurance.ports import GuardStore
from slackwater.model.errors import Conflict
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.waterline.analysis.analyzer import AnalyzerState
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.analysis.sample_counters import RuleState
from slackwater.waterline.analysis.scheduling import Scheduling
from slackwater.waterline.cycle import CycleState
from slackwater.waterline.execution.plan import ExecutorState, Refused, Underway
from slackwater.waterline.loop.applied_limits import Throttled
from slackwater.waterline.loop.feedback import LoopState
from slackwater.waterline.node_guard import GuardState

FULL = GuardedNode(
    node="n.1",
    capacity_milli=2000,
    generation=3,
    state=GuardState(
        throttles=(Throttled("b", "name-b", "batch", 725, None), Throttled("c", "name-c", "free", 50, 1500)),
        cycle=CycleState(
            AnalyzerState(
                (RuleState("d.prod-cpu", 1, 0, True, EPOCH, "no reading"),), Scheduling(True, EPOCH, ("d.x",))
            ),
            ExecutorState((Underway("e", EPOCH),), (Refused("z", ActionKind.THROTTLE, "gone", EPOCH),), (EPOCH,)),
            LoopState(1250, EPOCH, EPOCH, 2, EPOCH, EPOCH, ("open/throttle",)),
        ),
    ),
    decisions=(("b", "d1"), ("c", "d2")),
    awaited=(Awaited("d1", 3, "prod_cpu_pressure", 0.2, 0.1, EPOCH, None),),
    last_report=LastReport("boot-1", 7, EPOCH),
    evictions=(Evicting("d3/1", "e", "name-e", 30.0, EPOCH, "evict_waterline_crossed", "d3"),),
    pool="default",
    labels={"zone": "a"},
    capacity_bytes=1 << 33,
)


@pytest_asyncio.fixture(params=["memory", "twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[GuardStore]:
    if request.param == "memory":
        yield KeyedGuardStore(MemoryDatabase())
        return
    if request.param == "twin":
        database = twin_of("ensurance")
    else:
        addresses = await fresh_database(["ensurance"])
        database = connect_database(addresses["ensurance"], "ensurance", SystemClock())
    yield KeyedGuardStore(database)
    await database.close()


async def saved(store: GuardStore, guarded: GuardedNode) -> GuardedNode:
    async with store.unit_of_work() as unit:
        return await unit.save(guarded)


async def saved_last(store: GuardStore, guarded: GuardedNode) -> GuardedNode:
    async with store.unit_of_work() as unit:
        return await unit.save(guarded, last=True)


async def test_a_node_comes_back_as_it_was_written(store: GuardStore) -> None:
    first = await saved(store, FULL)
    second = await saved(store, replace(first, generation=4))
    async with store.unit_of_work() as unit:
        found = list(await unit.nodes())
    assert found == [second]
    assert second == replace(FULL, generation=4, version=2)


async def test_the_last_write_of_an_exchange_detects_another_writer_at_the_end(store: GuardStore) -> None:
    first = await saved(store, FULL)
    async with store.unit_of_work() as unit:
        second = await unit.save(replace(first, generation=4), last=True)
    with pytest.raises(Conflict, match=r"node n.1: version 1 is not"):
        await saved_last(store, replace(first, generation=9))
    async with store.unit_of_work() as unit:
        assert list(await unit.nodes()) == [second]
    assert second == replace(FULL, generation=4, version=2)


async def test_of_two_writers_the_second_learns_of_the_first(store: GuardStore) -> None:
    first = await saved(store, FULL)
    await saved(store, replace(first, generation=4))
    with pytest.raises(Conflict, match=r"n\.1: version 1"):
        await saved(store, replace(first, generation=5))
    with pytest.raises(Conflict):
        await saved(store, FULL)


async def test_a_unit_that_fails_leaves_nothing(store: GuardStore) -> None:
    with pytest.raises(RuntimeError):
        await write_and_fail(store)
    async with store.unit_of_work() as unit:
        assert list(await unit.nodes()) == []


async def write_and_fail(store: GuardStore) -> None:
    async with store.unit_of_work() as unit:
        await unit.save(FULL)
        raise RuntimeError

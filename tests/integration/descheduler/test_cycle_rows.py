"""Cycles and moves in PostgreSQL, and in the twin of the simulated world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of

from slackwater.descheduler.adapters.cycle_rows import KeyedCycleStore
from slackwater.descheduler.domain.cycle_state import ProfileCycle, WorkloadMove
from slackwater.descheduler.domain.kept_plans import KeptPlan, KeptStep, PlanState
from slackwater.descheduling.anomaly import AnomalyState
from slackwater.descheduling.placer import StepLoads
from slackwater.model.errors import Conflict
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_table import PostgresQuarantine


@pytest.fixture(params=["twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[KeyedCycleStore]:
    if request.param == "twin":
        database = twin_of("descheduler")
    else:
        server = (await fresh_database(["descheduler"]))["descheduler"]
        database = connect_database(server, "descheduler", SystemClock())
    quarantine = Quarantine("descheduler", PostgresQuarantine(database, "descheduler"), SystemClock())
    yield KeyedCycleStore(database, database, quarantine)
    await database.close()


async def test_a_cycle_is_read_as_it_was_written_and_not_written_twice(store: KeyedCycleStore) -> None:
    cycle = ProfileCycle("p", 0, 1, 10.0, {"n0": AnomalyState(2, 0, None, 9.5)}, "quiet")
    async with store.observe() as unit:
        assert await unit.cycle("p") == ProfileCycle("p")
        await unit.save(cycle)
    async with store.observe() as unit:
        assert await unit.cycle("p") == replace(cycle, generation=1)
    with pytest.raises(Conflict):
        async with store.observe() as unit:
            await unit.save(cycle)


async def test_the_later_move_of_a_pod_holds(store: KeyedCycleStore) -> None:
    proposed, evicted = WorkloadMove("u", "w", 10.0, "n1", 310.0), WorkloadMove("u", "w", 20.0)
    async with store.observe() as unit:
        await unit.add_moves([evicted])
        await unit.add_moves([proposed, WorkloadMove("v", "w", 5.0)])
        assert {move.pod_uid: move for move in await unit.moves()} == {"u": evicted, "v": WorkloadMove("v", "w", 5.0)}
    async with store.observe() as unit:
        await unit.drop(["v"], ["p"])
    async with store.observe() as unit:
        assert await unit.moves() == [evicted]


async def test_a_plan_is_read_by_its_id_and_state_and_not_written_twice(store: KeyedCycleStore) -> None:
    step = KeptStep("u", "n", "ns", "w", "n0", "n1", "x", "hot", loads=StepLoads(0.5, 0.25, 0.125, 0.375), gain=0.1)
    plan = KeptPlan("a", "p", 3, 10.0, 2, 1, (step,), refusals={"resting": 2}, looping=("w",))
    async with store.observe() as unit:
        await unit.save_plan(plan)
        await unit.save_plan(replace(plan, id="b", state=PlanState.APPLYING, made_s=5.0))
    async with store.observe() as unit:
        assert await unit.plan("a") == replace(plan, generation=1)
        assert await unit.plan("c") is None
        assert [each.id for each in await unit.plans()] == ["b", "a"]
        assert [each.id for each in await unit.plans(PlanState.APPLYING)] == ["b"]
        await unit.drop_plans(["b"])
    with pytest.raises(Conflict):
        async with store.observe() as unit:
            await unit.save_plan(plan)
    async with store.observe() as unit:
        assert [each.id for each in await unit.plans()] == ["a"]

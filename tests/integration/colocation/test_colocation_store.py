"""What colocation is promised by its store, by PostgreSQL and by the twin in memory alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from colocation_memory import MemoryColocationStore
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.windows import START

from slackwater.colocation.adapters.postgres import PostgresColocationStore
from slackwater.colocation.ports import ColocationStore
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.offers.node import InputSource, KnownPeak, NodeState
from slackwater.offers.node_notes import NodeNotes, NodeStatus
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.reserved_amounts import ThirdParty
from slackwater.offers.snapshot import PodInput, Zone
from slackwater.store.engine import connect_database

FULL = NodeState(
    node="n",
    capacity=Resources(8000, 2**40),
    reserved=Resources(1, 2),
    described_by=InputSource("e1", START),
    lost=True,
    liveness_by=InputSource("e2", START),
    pods=(
        PodInput("p", "prod", "LSE", Resources(1, 2), None),
        PodInput("q", "mid", "LS", Resources(), Resources(5, 6)),
    ),
    system=Resources(3, 4),
    system_is_current=True,
    window_end=1_700_000_000,
    used_by=InputSource("e3", START),
    peaks={"p": KnownPeak(Resources(7, 8), cold=True)},
    predicted_by=InputSource("e4", START),
    cpu=PublishGate(published=100, rising_windows=1, rising_to=150, last_window=60),
    generation=4,
    degraded="node is lost",
    due_at=1_700_000_180,
    mid_cpu=PublishGate(published=0),
    mid_memory=PublishGate(published=7, drifting_since=5, drifting_to=6),
    zones={"node0": Resources(1, 2)},
    strategies=("cluster@1", "node-label"),
    numa=(Zone("node0", Resources(8, 9)),),
    node_usage=Resources(9, 10),
    prod_peak=Resources(11, 12),
    system_by=InputSource("e5", START),
    whole_end=1_699_999_940,
    notes=NodeNotes(Resources(1, 1), Resources(2, 2), "1.5", (ThirdParty("y", "batch", Resources(3, 3)),), ("odd",)),
    status=NodeStatus(Resources(4, 4), Resources(5, 5), "1.5"),
)


@pytest.fixture(params=["memory", "twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ColocationStore]:
    if request.param == "memory":
        yield MemoryColocationStore()
        return
    if request.param == "twin":
        database = twin_of("colocation")
    else:
        database = connect_database((await fresh_database(["colocation"]))["colocation"], "colocation", SystemClock())
    yield PostgresColocationStore(database)
    await database.close()


async def save(store: ColocationStore, state: NodeState) -> None:
    async with store.begin() as transaction:
        await transaction.load(state.node)
        await transaction.save(state)


async def test_a_state_comes_back_as_it_was_saved(store: ColocationStore) -> None:
    async with store.begin() as transaction:
        assert await transaction.load("n") == NodeState("n")
    await save(store, FULL)
    async with store.begin() as transaction:
        assert await transaction.load("n") == FULL


async def test_an_event_is_new_once_per_consumer_and_only_if_it_was_committed(store: ColocationStore) -> None:
    event = new_id()

    async def fail() -> None:
        async with store.begin() as transaction:
            assert await transaction.first_time("c", event)
            await transaction.load("n")
            await transaction.save(FULL)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        await fail()
    async with store.begin() as transaction:
        assert await transaction.load("n") == NodeState("n")
        assert await transaction.first_time("c", event)
    async with store.begin() as transaction:
        assert not await transaction.first_time("c", event)
        assert await transaction.first_time("other", event)


async def test_writers_of_one_node_wait_for_each_other(store: ColocationStore) -> None:
    async def count_up() -> None:
        async with store.begin() as transaction:
            state = await transaction.load("n")
            await asyncio.sleep(0)
            await transaction.save(replace(state, generation=state.generation + 1))

    await asyncio.gather(*(count_up() for _ in range(5)))
    async with store.begin() as transaction:
        assert (await transaction.load("n")).generation == 5


async def test_only_old_offers_of_something_are_ageing(store: ColocationStore) -> None:
    await save(store, replace(FULL, node="old"))
    await save(store, replace(FULL, node="young", due_at=FULL.due_at + 1))
    await save(
        store,
        replace(
            FULL, node="empty", cpu=PublishGate(published=0), memory=PublishGate(published=0), mid_memory=PublishGate()
        ),
    )
    assert await store.ageing(FULL.due_at + 0.5) == ["old"]


async def test_totals_are_summed_per_pool_and_point_at_what_must_not_be(store: ColocationStore) -> None:
    gold = replace(FULL, node="g", pool="gold", cpu=PublishGate(published=None))
    much = replace(
        FULL, node="m", cpu=PublishGate(published=8001), memory=PublishGate(published=5), mid_cpu=PublishGate()
    )
    both = replace(FULL, node="b", cpu=PublishGate(published=1001), mid_cpu=PublishGate(published=7000))
    for state in (FULL, much, both, gold):
        await save(store, state)
    default, other = await store.totals()
    assert (default.pool, default.nodes, default.overoffered) == ("default", 3, 2)
    assert (default.capacity, default.batch) == (Resources(24000, 3 * 2**40), Resources(9102, 5))
    assert default.mid == Resources(7000, 21)
    assert (other.pool, other.nodes, other.overoffered, other.batch) == ("gold", 1, 0, Resources())


async def test_nodes_at_rest_are_those_that_do_not_age_and_are_read_without_a_lock(store: ColocationStore) -> None:
    young = replace(FULL, node="young", due_at=FULL.due_at + 1)
    empty = replace(
        FULL, node="empty", cpu=PublishGate(published=0), memory=PublishGate(published=0), mid_memory=PublishGate()
    )
    for state in (FULL, young, empty):
        await save(store, state)
    assert await store.at_rest(FULL.due_at + 0.5) == ["empty", "young"]
    async with store.begin() as transaction:
        await transaction.load("young")
        assert await store.states_of(["young", "nobody"]) == [young]

"""What prediction is promised by its store, by PostgreSQL and by the twin in memory alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from prediction_memory import MemoryPredictionStore
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.windows import START

from slackwater.model.quantities import Resources
from slackwater.model.time import SystemClock
from slackwater.prediction.adapters.prediction_rows import KeyedPredictionStore
from slackwater.prediction.adapters.snapshots import PostgresSnapshots
from slackwater.prediction.domain.cadence import Published
from slackwater.prediction.domain.snapshot import Snapshot
from slackwater.prediction.ports import DescribedNode, PredictionStore
from slackwater.store.engine import connect_database


@pytest.fixture(params=["memory", "twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[PredictionStore]:
    if request.param == "memory":
        yield MemoryPredictionStore()
        return
    if request.param == "twin":
        database = twin_of("prediction")
    else:
        database = connect_database((await fresh_database(["prediction"]))["prediction"], "prediction", SystemClock())
    yield KeyedPredictionStore(database, PostgresSnapshots())
    await database.close()


def published(until: int) -> Published:
    return Published(until, until + 0.25, "pool-p", 2**40, until % 7, (until, 0, 2**50))


def snapshot(position: int) -> Snapshot:
    return Snapshot(1, position, f"sum-{position}", bytes([position, 0, 255]))


async def test_an_empty_store_has_nothing(store: PredictionStore) -> None:
    assert list(await store.snapshots(5)) == []
    assert await store.published() == {}
    assert await store.nodes() == {}


async def test_only_the_newest_snapshots_are_kept_newest_first(store: PredictionStore) -> None:
    for position in (3, 2, 7):
        async with store.begin() as transaction:
            await transaction.keep_snapshot(5, snapshot(position), keep=2)
        async with store.begin() as transaction:
            await transaction.keep_snapshot(6, snapshot(position), keep=1)
    assert list(await store.snapshots(5)) == [snapshot(7), snapshot(2)]
    assert list(await store.snapshots(6)) == [snapshot(7)]


async def test_a_transaction_that_fails_leaves_nothing(store: PredictionStore) -> None:
    async def fail() -> None:
        async with store.begin() as transaction:
            await transaction.keep_snapshot(5, snapshot(1), keep=2)
            await transaction.set_published({"a": published(60)})
            await transaction.describe("a", DescribedNode(Resources(1000, 1), "p"), START)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        await fail()
    assert list(await store.snapshots(5)) == []
    assert await store.published() == {}
    assert await store.nodes() == {}


async def test_how_far_a_node_was_published_is_replaced(store: PredictionStore) -> None:
    for until in ({"a": 60, "b": 120}, {"a": 180}, {}):
        async with store.begin() as transaction:
            await transaction.set_published({node: published(end) for node, end in until.items()})
    assert await store.published() == {"a": published(180), "b": published(120)}


async def test_an_older_description_does_not_replace_a_younger_one(store: PredictionStore) -> None:
    newest = []
    for size, minutes in ((4000, 5), (2000, 1), (6000, 9)):
        async with store.begin() as transaction:
            known = DescribedNode(Resources(size, 2**40), f"pool-{minutes}")
            newest.append(await transaction.describe("a", known, START + timedelta(minutes=minutes)))
    assert newest == [True, False, True]
    assert await store.nodes() == {"a": DescribedNode(Resources(6000, 2**40), "pool-9")}

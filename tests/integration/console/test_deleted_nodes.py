"""A deleted node leaves the lists of both read models, and its records stay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
import pytest_asyncio
from served import END, record_all
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.postgres_server import FreshDatabase
from tests.support.reports import described
from tests.support.story import story

from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.domain.event_log import ListedEvent
from slackwater.console.domain.views import DecisionFilter, NodeCondition
from slackwater.console.ports import ReadModel
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.store.engine import connect_database

START = END - timedelta(minutes=15)
MONTH = timedelta(days=30)
CLOCK = FakeClock(END)
FACTS = described("edge-7", END).facts


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def model(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ReadModel]:
    if request.param == "memory":
        yield MemoryReadModel()
        return
    database = connect_database((await fresh_database(["console"]))["console"], "console", CLOCK)
    yield PostgresReadModel(database)
    await database.close()


async def test_a_deleted_node_is_not_listed_until_it_is_described_or_reports_and_its_records_stay(
    model: ReadModel,
) -> None:
    recorder = RecordEvents(model, CLOCK, usage_retention=MONTH, decision_retention=MONTH)
    await record_all(recorder, story(END))
    before, gone = await model.decisions(DecisionFilter(node="edge-7")), END + timedelta(minutes=1)
    listed = ListedEvent("e-gone", "node.deleted", "ingestion", "edge-7", gone, None, None, {})
    await model.delete_nodes([("edge-7", START - timedelta(days=1)), ("nowhere", gone)])
    assert await model.node("edge-7") is not None, "what is newer than a deletion stays"
    await model.delete_nodes([("edge-7", gone)])
    await model.save_events([listed])
    assert await model.decisions(DecisionFilter(node="edge-7")) == before
    late = await model.offers("edge-7", START, END)
    assert late
    forecasts = await model.forecasts("edge-7", START, END)
    old = NodeCondition("SchedulingClosed", "True", "r", "m", END, END, None, "d1", ("p.r",))

    async def late_events() -> None:
        await model.save_offers([replace(late[-1], offered_at=gone + timedelta(seconds=1))])
        await model.save_forecasts(forecasts)
        await model.save_conditions([("edge-7", old)])
        await model.save_liveness([("edge-7", "lost", gone)])

    await late_events()
    assert await model.node("edge-7") is None
    assert "edge-7" not in {pod.node for pod in await model.pods()}
    assert "edge-7" not in {node.name for node in await model.nodes()}
    await model.save_facts([(FACTS, "boot", gone - timedelta(hours=1))])  # a redelivery
    await model.prune(START, START)
    assert await model.node("edge-7") is None
    await model.save_facts([(FACTS, "boot", gone + timedelta(hours=1))])
    await late_events()
    await model.prune(START, START)
    found = await model.node("edge-7")
    assert found is not None
    assert found.offer is not None

"""Conditions of nodes in both read models: the newest of each type stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest
import pytest_asyncio
from served import END
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.postgres_server import FreshDatabase

from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.console.domain.views import NodeCondition
from slackwater.console.ports import ReadModel
from slackwater.store.engine import connect_database

START = END - timedelta(minutes=15)


@pytest_asyncio.fixture(params=["memory", "postgres"])
async def model(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[ReadModel]:
    if request.param == "memory":
        yield MemoryReadModel()
        return
    database = connect_database((await fresh_database(["console"]))["console"], "console", FakeClock(END))
    yield PostgresReadModel(database)
    await database.close()


async def test_the_newest_condition_stays(model: ReadModel) -> None:
    old, new = (
        NodeCondition("SchedulingClosed", status, "r", "m", END, at, None, "d1", ("p.r", "p.s"))
        for status, at in (("True", START), ("False", END))
    )
    await model.save_conditions([("n1", old), ("n2", old), ("n1", new)])
    await model.save_conditions([("n1", old), ("n2", new)])
    await model.save_liveness([("n3", "fresh", END)])
    assert [each.conditions for each in await model.nodes()] == [(new,), (new,), ()]
    found = await model.node("n1")
    assert found is not None
    assert found.conditions == (new,)


async def test_conditions_of_two_types_stand_beside_each_other(model: ReadModel) -> None:
    """Each is as new as the last one of its type, in any order of arrival."""

    def condition(kind: str, at: datetime, status: str = "True") -> NodeCondition:
        return NodeCondition(kind, status, "r", "m", START, at, END, "", ())

    closed, opened = condition("SchedulingClosed", START), condition("SchedulingClosed", END, "False")
    second, later = condition("DuplicateAgent", START), condition("DuplicateAgent", END)
    for told in (later, closed, second, opened, closed):
        await model.save_conditions([("n1", told)])
    found = await model.node("n1")
    assert found is not None
    assert set(found.conditions) == {later, opened}

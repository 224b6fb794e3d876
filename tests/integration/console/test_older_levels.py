"""Stored levels of an earlier version are read with the figures of this one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from served import END
from tests.support.clock import FakeClock
from tests.support.postgres_server import FreshDatabase

from slackwater.console.adapters.fleet_statements import SAVE_LEVEL
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.store.engine import connect_database

START = END - timedelta(minutes=15)
CLOCK = FakeClock(END)


async def test_levels_from_before_borrowing_was_stored_borrow_at_most_what_was_lent(
    fresh_database: FreshDatabase,
) -> None:
    """Rows as an earlier version wrote them, kept over the upgrade: nine pairs."""
    addresses = await fresh_database(["console"])
    database = connect_database(addresses["console"], "console", CLOCK)
    model = PostgresReadModel(database)
    try:
        amounts = [8000, 0, 3000, 0, *[0] * 10, 5000, 0, 1000, 0]
        async with database.unit_of_work() as unit:
            values = {"at": START, "nodes": 1, "silent": 0, "amounts": amounts}
            await unit.connection.execute(SAVE_LEVEL, values)
        found = await model.gained(START, END)
        (level,) = await model.levels(START, END, 15)
    finally:
        await database.close()
    assert (found.used_core_hours, found.lent_core_hours) == (pytest.approx(3 * 15 / 3600),) * 2
    assert found.beyond_core_hours == pytest.approx(3 * 15 / 3600)
    assert (level.borrowed.cpu_milli, level.beyond.cpu_milli) == (3000, 3000)

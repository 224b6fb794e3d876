"""An event that is committed again, because the answer of its first commit was lost, waits in the outbox once."""

from __future__ import annotations

from tests.support.clock import FakeClock
from tests.support.postgres_twin.database import twin_database
from tests.support.postgres_twin.migrated import migrated
from tests.support.postgres_twin.server import Server
from tests.support.windows import window

from slackwater.store.migrations import Schema


async def test_the_second_commit_of_an_event_is_no_error() -> None:
    clock = FakeClock()
    server = Server(clock)
    server.create("prediction", migrated(Schema.of("prediction")))
    database = twin_database(server, "prediction", clock)
    event = window("n", 1, {"p": 500})
    for _ in range(2):
        async with database.unit_of_work() as unit:
            await unit.publish(event)
    waiting = [row[1] for row in server.schemas["prediction"].tables["outbox"].committed()]
    assert waiting == [event.id]

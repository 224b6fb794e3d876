"""`sslmode` in the address of PostgreSQL counts for every connection that we make.

The PostgreSQL of the wheel is built without TLS, so this can show that we insist on it, and not what follows.
"""

from __future__ import annotations

import pytest

from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema, migrate
from slackwater.store.provision import prepare_database
from slackwater.testing.postgres_server import FreshDatabase


@pytest.mark.parametrize(("mode", "reached"), [("prefer", True), ("require", False), ("verify-full", False)])
async def test_a_server_without_tls_is_not_spoken_to_where_tls_is_asked_for(
    fresh_database: FreshDatabase, mode: str, reached: bool
) -> None:
    dsn = f"{(await fresh_database(['console']))['console']}?sslmode={mode}"
    database = connect_database(dsn, "console", SystemClock())
    assert await database.ping() is reached
    await database.close()
    if reached:
        await migrate(dsn, Schema.of("console"))
        return
    for refused in (migrate(dsn, Schema.of("console")), prepare_database(dsn, [Schema.of("console")])):
        with pytest.raises(Unavailable):
            await refused
    with pytest.raises(Unavailable):
        await database.relay(never).backlog()


async def never(event: object) -> None:
    raise AssertionError(event)

"""PostgreSQL is frozen (SIGSTOP to all its processes): every use of the database ends with Unavailable, and heals."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from probe_service import PROBE
from sqlalchemy import text

from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_postgres import EmbeddedPostgres
from slackwater.store import server_watch
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.provision import prepare_database

IMPATIENT_SECONDS = 1.0
"""Of the watch: what a server on a busy machine needs for an answer must be less."""
_USES = 9
"""More than the pool has sessions: the last ones wait for one."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "PATIENCE_SECONDS", IMPATIENT_SECONDS)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path / "state", durable=False) as server:
        yield server


@pytest.fixture
async def database(server: EmbeddedPostgres) -> AsyncIterator[PostgresDatabase]:
    database = connect_database((await prepare_database(server.dsn, [PROBE]))["probe"], "probe", SystemClock())
    yield database
    await database.close()


@contextmanager
def frozen(state: Path) -> Iterator[None]:
    (pid_file,) = state.rglob("postmaster.pid")
    main = int(pid_file.read_text().split()[0])
    os.kill(main, signal.SIGSTOP)  # first, so that the list of its children is final
    pids = [main, *map(int, Path(f"/proc/{main}/task/{main}/children").read_text().split())]
    for pid in pids[1:]:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


async def answers_again(database: PostgresDatabase) -> None:
    while not await database.ping():
        await asyncio.sleep(0.01)


async def count(database: PostgresDatabase, seconds: float = 0.0) -> int:
    async with database.unit_of_work() as unit:
        await unit.connection.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})
        return int((await unit.connection.execute(text("SELECT count(*) FROM facts"))).scalar_one())


@pytest.mark.usefixtures("impatient")
async def test_every_use_of_a_frozen_server_is_refused_and_works_again_after_it(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    assert await asyncio.gather(*(count(database) for _ in range(_USES))) == [0] * _USES
    async with asyncio.timeout(60):  # without the watch, those with an open session wait without end
        with frozen(tmp_path / "state"):
            answers = await asyncio.gather(*(count(database) for _ in range(_USES)), return_exceptions=True)
            assert [type(answer) for answer in answers] == [Unavailable] * _USES
            with pytest.raises(Unavailable, match="its sessions were ended, and new ones are tried"):
                await count(database)
            assert not await database.ping()
        await answers_again(database)
        assert await asyncio.gather(*(count(database) for _ in range(_USES))) == [0] * _USES
        assert database.connections().in_use == 0


@pytest.mark.usefixtures("impatient")
async def test_a_unit_of_work_open_when_the_server_freezes_ends_and_commits_nothing(
    tmp_path: Path, database: PostgresDatabase
) -> None:
    async def write(begun: asyncio.Event, go_on: asyncio.Event) -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(text("INSERT INTO facts VALUES ('a', 1)"))
            begun.set()
            await go_on.wait()
            await unit.connection.execute(text("INSERT INTO facts VALUES ('b', 2)"))

    begun, go_on = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(60):
        writing = asyncio.create_task(write(begun, go_on))
        await begun.wait()
        with frozen(tmp_path / "state"):
            go_on.set()
            with pytest.raises(Unavailable, match="PostgreSQL does not answer"):
                await writing
        await answers_again(database)
        assert await count(database) == 0


@pytest.mark.usefixtures("impatient")
async def test_a_slow_statement_of_a_server_that_answers_is_left_alone(database: PostgresDatabase) -> None:
    assert await count(database, seconds=2.5 * IMPATIENT_SECONDS) == 0

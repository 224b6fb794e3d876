"""Roles, schemas and migrations on a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from probe_service import PROBE
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError
from tests.support.postgres_server import FreshDatabase

from slackwater.model.errors import InvalidInput, Misconfigured, Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.migrations import Schema
from slackwater.store.names import schema_of, service_dsn
from slackwater.store.provision import prepare_database, prepare_service, revisions

OTHER = Schema("other", PROBE.versions)


async def test_two_processes_that_prepare_at_once_both_succeed_and_a_repeat_changes_nothing(postgres_dsn: str) -> None:
    name = "test_" + new_id().replace("-", "")
    admin = urlunsplit(urlsplit(postgres_dsn)._replace(path="/" + name))
    await prepare_database(admin, [])
    first, second = await asyncio.gather(prepare_database(admin, [PROBE, OTHER]), prepare_database(admin, [PROBE]))
    assert first["probe"] == second["probe"] == service_dsn(admin, "probe")
    assert (await prepare_database(admin, [PROBE, OTHER])) == first
    connection = await asyncpg.connect(first["other"], server_settings={"search_path": "other"})
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == "0001"
    assert await connection.fetchval("SELECT count(*) FROM facts") == 0
    await connection.close()
    maintenance = await asyncpg.connect(urlunsplit(urlsplit(postgres_dsn)._replace(path="/postgres")))
    await maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await maintenance.close()


async def test_a_version_of_before_starts_on_a_schema_that_a_newer_one_has_migrated(postgres_dsn: str) -> None:
    """In a rolling update a replica of before may be started once more after `migrate`: it works or waits."""
    name = "test_" + new_id().replace("-", "")
    admin = urlunsplit(urlsplit(postgres_dsn)._replace(path="/" + name))
    own = (await prepare_database(admin, [PROBE]))["probe"]
    connection = await asyncpg.connect(own, server_settings={"search_path": "probe"})
    try:
        await connection.execute("UPDATE alembic_version SET version_num = '0002'")
        assert await prepare_database(admin, [PROBE]) == {"probe": own}
        assert await prepare_service(admin, PROBE) == own
        assert await prepare_service(own, PROBE) == own
        assert await revisions(admin, [PROBE]) == {"probe": "0002"}
        assert await connection.fetchval("SELECT version_num FROM alembic_version") == "0002"
    finally:
        await connection.close()
        maintenance = await asyncpg.connect(urlunsplit(urlsplit(postgres_dsn)._replace(path="/postgres")))
        await maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await maintenance.close()


async def test_a_service_cannot_read_or_write_the_schema_of_another(fresh_database: FreshDatabase) -> None:
    addresses = await fresh_database([PROBE, OTHER])
    database = connect_database(addresses["probe"], "probe", SystemClock())

    async def run(statement: str) -> None:
        async with database.unit_of_work() as unit:
            await unit.connection.execute(text(statement))

    await run("INSERT INTO facts VALUES ('mine', 1)")
    for statement in (
        "SELECT * FROM other.facts",
        "INSERT INTO other.facts VALUES ('theirs', 1)",
        "CREATE TABLE other.mine (x int)",
        "SET ROLE slackwater_other",
        "CREATE TABLE public.anywhere (x int)",
    ):
        with pytest.raises(ProgrammingError, match=r"denied"):
            await run(statement)
    await database.close()


async def test_a_session_is_utc_and_says_whose_it_is(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database([PROBE]))["probe"], "probe", SystemClock())
    async with database.unit_of_work() as unit:
        settings = [
            (await unit.connection.execute(text(f"SHOW {name}"))).scalar()
            for name in ("timezone", "application_name", "search_path", "statement_timeout")
        ]
    await database.close()
    assert settings == ["UTC", "slackwater-probe", "probe", "30s"]


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    database = connect_database("postgresql://nobody:x@127.0.0.1:9/none", "probe", SystemClock())
    assert not await database.ping()
    with pytest.raises(Unavailable, match="PostgreSQL"):
        async with database.unit_of_work():
            pass
    with pytest.raises(Unavailable, match="PostgreSQL"):
        await prepare_database("postgresql://nobody:x@127.0.0.1:9/none", [PROBE])
    await database.close()


def test_versions_need_distinct_numbers(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="NNNN"):
        Schema("probe", tmp_path).head()
    (tmp_path / "0001_one.py").touch()
    (tmp_path / "0002_two.py").touch()
    assert Schema("probe", tmp_path).head() == "0002"
    (tmp_path / "0002_again.py").touch()
    with pytest.raises(Misconfigured, match="NNNN"):
        Schema("probe", tmp_path).head()


@pytest.mark.parametrize("name", ["", "Big", "a-b", "x;drop", "1a", 'a"b'])
def test_a_name_that_would_need_quoting_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="service"):
        schema_of(name)

"""Today's code migrates the schemas of the previous version, reads their rows and continues from them.

`golden/` holds a dump of a run with the previous version (commit 33858798): all services and a simulated fleet of four
nodes. Two rows of colocation were damaged by hand, so that its quarantine has rows. Decision 0077 says how to renew it.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from running import Site, eventually
from schema_dump import contents, definitions, session

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock
from slackwater.runtime.service_list import service_names
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.keyed import KeyedTable
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database, prepare_roles
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import MemoryQuarantine
from slackwater.testing.postgres_server import FreshDatabase
from slackwater.testing.reports import pod_usage, report

GOLDEN = Path(__file__).parent / "golden"
SERVICES = tuple(name for name in service_names() if (GOLDEN / f"{name}.sql").exists())
"""Those that the previous version had."""
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "ingestion": {"report_interval_seconds": 1, "window_seconds": 2, "lateness_seconds": 1},
    "prediction": {
        "cpu_settings": {"cold_hours": 1},
        "memory_settings": {"cold_hours": 1},
        "histogram_update_seconds": 1,
        "check_seconds": 0.2,
        "reporting_seconds": 1,
        "snapshot_seconds": 1,
    },
    "ensurance": {"lease_seconds": 6, "cool_down_seconds": 1},
}
"""As in the run that was dumped."""
NODES = ("sim-01", "sim-02")


class Clock:
    """Continues at the time of the dump, so that no row is too old."""

    def __init__(self, at: datetime) -> None:
        self._behind = datetime.now(UTC) - at

    def now(self) -> datetime:
        return datetime.now(UTC) - self._behind

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Installation:
    """A database with the rows of the previous version. `sql` has a session per service."""

    def __init__(self, addresses: Mapping[str, str], dsn: str) -> None:
        self.addresses = addresses
        self.dsn = dsn
        self.sql: dict[str, asyncpg.Connection[Any]] = {}

    async def upgrade(self) -> None:
        await prepare_database(self.dsn, [Schema.of(service) for service in SERVICES])

    async def quarantined(self) -> set[tuple[str, str, str]]:
        return {
            (service, row["state_table"], row["state_row"])
            for service, sql in self.sql.items()
            for row in await sql.fetch("SELECT * FROM quarantine")
        }


@pytest.fixture
async def installation(postgres_dsn: str) -> AsyncIterator[Installation]:
    name = f"before_{uuid.uuid4().hex[:12]}"
    root, _ = postgres_dsn.rsplit("/", 1)
    admin = await asyncpg.connect(f"{root}/postgres")
    await admin.execute(f"CREATE DATABASE {name}")
    made = Installation(await prepare_roles(f"{root}/{name}", SERVICES), f"{root}/{name}")
    try:
        for service in SERVICES:
            made.sql[service] = await session(made.addresses[service], service)
            await made.sql[service].execute((GOLDEN / f"{service}.sql").read_text())
        yield made
    finally:
        for sql in made.sql.values():
            await sql.close()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


async def test_a_loaded_dump_dumps_equal(installation: Installation) -> None:
    """What `schema_dump` writes, it reads back without loss."""
    for service, sql in installation.sql.items():
        again = [*await definitions(sql, service), *[line async for line in contents(sql, service)]]
        lines = (GOLDEN / f"{service}.sql").read_text().split(";\n")
        assert {line for line in again if "setval" not in line} <= set(lines), service


async def test_an_upgraded_schema_equals_a_new_one(installation: Installation, fresh_database: FreshDatabase) -> None:
    await installation.upgrade()
    for service, address in (await fresh_database(SERVICES)).items():
        fresh = await session(address, service)
        upgraded = await definitions(installation.sql[service], service)
        expected = await definitions(fresh, service)
        await fresh.close()
        assert [line for line in upgraded if "PARTITION OF" not in line] == [
            line for line in expected if "PARTITION OF" not in line
        ]


def keyed_tables(service: str) -> list[KeyedTable[Any]]:
    """The tables that its adapters declare."""
    folder = Path(importlib.import_module(f"slackwater.{service}.adapters").__path__[0])
    modules = [importlib.import_module(f"slackwater.{service}.adapters.{file.stem}") for file in folder.glob("*.py")]
    found = (table for module in modules for table in vars(module).values() if isinstance(table, KeyedTable))
    return list({table.name: table for table in found}.values())


def parsed(value: object) -> object:
    """A JSON document, or the text of any other value as PostgreSQL writes it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return json.loads(text) if text[:1] in "{[" and text[1:2] in '"[{]}' else text


def lost(stored: Any, written: Any, path: str = "") -> list[str]:
    """The paths whose value is not written back. A new field is none."""
    if isinstance(stored, dict) and isinstance(written, dict):
        return [found for key in stored for found in lost(stored[key], written.get(key), f"{path}/{key}")]
    if isinstance(stored, list) and isinstance(written, list) and len(stored) == len(written):
        pairs = enumerate(zip(stored, written, strict=True))
        return [found for number, pair in pairs for found in lost(*pair, f"{path}/{number}")]
    return [] if stored == written else [path]


async def test_a_row_is_written_back_as_it_was(installation: Installation) -> None:
    """A field that today's code reads under another name, or not at all, would lose its value without an error."""
    await installation.upgrade()
    tables = {service: keyed_tables(service) for service in SERVICES}
    assert any(tables.values())
    for service, declared in tables.items():
        database = connect_database(installation.addresses[service], service, SystemClock())
        try:
            for table in declared:
                await _assert_written_back(installation.sql[service], database, service, table)
        finally:
            await database.close()


async def _assert_written_back(
    sql: asyncpg.Connection[Any], database: PostgresDatabase, service: str, table: KeyedTable[Any]
) -> None:
    quarantine = Quarantine(service, MemoryQuarantine())
    async with database.unit_of_work() as unit:
        values = await unit.keyed(table, quarantine).read_all()
    columns = [column.name for column in table.columns]
    texts = ", ".join(f"{column.name}::text" for column in table.columns if column.type != "timestamptz")
    for row in await sql.fetch(f"SELECT {table.key}, {texts} FROM {table.name}"):  # noqa: S608 - declared names
        if quarantine.holds(table.name, row[table.key]):
            continue
        written = dict(zip(columns, table.encode(values[row[table.key]]), strict=True))
        stored = {name: parsed(value) for name, value in row.items() if name != table.key}
        assert lost(stored, {name: parsed(written[name]) for name in stored}) == [], f"{service}.{table.name}"


class Recorder:
    """Records the events that the services publish after the upgrade."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    async def __call__(self, event: Any) -> None:
        self.events.append(event.data)

    def counts(self, payload: type[Any], node: str, field: str) -> list[int]:
        """This field of each event of a type about a node, in the order of publishing."""
        return [getattr(event, field) for event in self.events if isinstance(event, payload) and event.node == node]

    def highest(self, payload: type[Any], node: str, field: str) -> int:
        return max(self.counts(payload, node, field), default=-1)

    def lowest(self, payload: type[Any], node: str) -> int:
        """The lowest generation, -1 before the first."""
        return min(self.counts(payload, node, "generation"), default=-1)


async def test_every_service_continues_from_its_rows(installation: Installation, bus: NatsBus, tmp_path: Path) -> None:
    await installation.upgrade()
    sql = installation.sql
    clock = Clock(await sql["console"].fetchval("SELECT max(sampled_at) FROM usage_point") + timedelta(seconds=5))
    before, quarantined = await _state(sql), await installation.quarantined()
    recorder = Recorder()
    async with AsyncExitStack() as stack:
        for payload in (PeakPredicted, ResourcesOffered, IntentDeclared):
            await stack.enter_async_context(bus.watch(payload, recorder))
        running = {}
        for service in SERVICES:
            site = Site(bus, installation.addresses[service], service, sql[service], tmp_path)
            site.clock = clock
            module = importlib.import_module(f"slackwater.{service}.service")
            settings = importlib.import_module(f"slackwater.{service}.settings")
            made = getattr(settings, f"{service.capitalize()}Settings")(**SETTINGS.get(service, {}))
            running[service] = await stack.enter_async_context(site.running(module, made))
        reporting = asyncio.create_task(_report(bus, clock, sql["ingestion"]))
        stack.callback(reporting.cancel)
        for node in NODES:
            await eventually(
                lambda node=node: recorder.highest(PeakPredicted, node, "samples") > before[node]["samples"]
            )
            await eventually(lambda node=node: recorder.lowest(ResourcesOffered, node) > before[node]["offer"])
            await eventually(lambda node=node: recorder.lowest(IntentDeclared, node) >= before[node]["intent"])
        await _read_model(running["console"].model, clock, sql["console"])
        for service in running.values():
            await service.quarantine.work()
        assert await installation.quarantined() == quarantined  # those of the dump, damaged by hand
        await eventually(lambda: _outboxes_are_empty(sql))
        for node in NODES:
            assert await sql["ingestion"].fetchval("SELECT gaps FROM nodes WHERE name = $1", node) == 0
            assert recorder.lowest(ResourcesOffered, node) > before[node]["offer"]
            assert recorder.lowest(IntentDeclared, node) >= before[node]["intent"]


async def _state(sql: Mapping[str, asyncpg.Connection[Any]]) -> dict[str, dict[str, int]]:
    """The counters of each node that must not go back."""
    return {
        node: {
            "samples": max(
                await sql["console"].fetchval(
                    "SELECT max((body->>'samples')::int) FROM forecast WHERE node = $1", node
                ),
                await sql["prediction"].fetchval(
                    """SELECT coalesce(max((payload::jsonb->>'samples')::int), 0) FROM outbox
                    WHERE type LIKE '%peak.predicted%' AND payload::jsonb->>'node' = $1""",
                    node,
                ),
            ),
            "offer": await sql["console"].fetchval("SELECT max(generation) FROM offer WHERE node = $1", node),
            "intent": await sql["ensurance"].fetchval("SELECT generation FROM guarded_nodes WHERE node = $1", node),
        }
        for node in NODES
    }


async def _read_model(model: PostgresReadModel, clock: Clock, sql: asyncpg.Connection[Any]) -> None:
    """Read the rows of the dump as the console's routes do."""
    since, until = clock.now() - timedelta(days=1), clock.now()
    for node in await model.nodes():
        for read in (model.usage, model.forecasts, model.offers):
            await read(node.name, since, until)
        await model.pods(node.name)
        await model.last_observation(node.name)
    for row in await sql.fetch("SELECT id FROM decision"):
        assert await model.decision(row["id"])
        for read_related in (model.effect, model.observations, model.evictions):
            await read_related(row["id"])
    for row in await sql.fetch("SELECT event_id FROM usage_window"):
        assert await model.event(row["event_id"])
    assert await model.processes()
    assert await model.strategies()


async def _outboxes_are_empty(sql: Mapping[str, asyncpg.Connection[Any]]) -> bool:
    """True when every outbox is empty, the events that the previous version left included."""
    return not any([await connection.fetchval("SELECT count(*) FROM outbox") for connection in sql.values()])


async def _report(bus: NatsBus, clock: Clock, sql: asyncpg.Connection[Any]) -> None:
    """Publish the next reports of the agents of NODES."""
    newest = {row["name"]: row for row in await sql.fetch("SELECT * FROM nodes")}
    sequence = {name: newest[name]["last_sequence"] for name in NODES}
    while True:
        for node in NODES:
            sequence[node] += 1
            pods = [pod_usage(f"{node}-p"), pod_usage(f"{node}-b", Tier.BATCH, 1500)]
            data = report(node, sequence[node], clock.now(), boot_epoch=newest[node]["boot_epoch"], pods=pods,
                          window_seconds=1)  # fmt: skip
            await bus.publish(event_of(data, source=f"agent/{node}", time=clock.now()))
        await asyncio.sleep(1)

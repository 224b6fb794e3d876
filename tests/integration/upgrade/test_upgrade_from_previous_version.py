"""Today's code loads the dump of a version, migrates it, reads its rows and continues from them.

The first release line begins with this version: its dump is built here, by a run of the services with two nodes. A
release adds the dump that `schema_dump.py` writes of it as `golden/VERSION/SERVICE.sql`; each folder is tested alike.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from running import Site, eventually
from schema_dump import contents, definitions, session
from tests.support.postgres_server import FreshDatabase
from tests.support.reports import described, pod_usage, report

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.console.adapters.postgres import PostgresReadModel
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock
from slackwater.store.engine import PostgresDatabase, connect_database
from slackwater.store.keyed import KeyedTable
from slackwater.store.migrations import Schema
from slackwater.store.provision import prepare_database, prepare_roles
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import MemoryQuarantine

GOLDEN = Path(__file__).parent / "golden"
THIS_VERSION = "this version"
VERSIONS = (THIS_VERSION, *sorted(folder.name for folder in GOLDEN.glob("*")))
SERVICES = ("ingestion", "prediction", "colocation", "ensurance", "console")
"""Those whose rows follow from reports of nodes."""
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
"""Short times, the same in the run that is dumped and in the one that continues."""
NODES = ("sim-01", "sim-02")


class Clock:
    """Continues at a moment, so that no row is too old."""

    def __init__(self, at: datetime) -> None:
        self._behind = datetime.now(UTC) - at

    def now(self) -> datetime:
        return datetime.now(UTC) - self._behind

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Installation:
    """A database with the rows of a version. `sql` has a session per service."""

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


@pytest.fixture(scope="module")
def dumps() -> dict[str, dict[str, str]]:
    """The statements of each version by service, once they are read or built."""
    return {name: {file.stem: file.read_text() for file in (GOLDEN / name).glob("*.sql")} for name in VERSIONS[1:]}


@pytest.fixture(params=VERSIONS)
async def dump(
    request: pytest.FixtureRequest,
    dumps: dict[str, dict[str, str]],
    bus: NatsBus,
    fresh_database: FreshDatabase,
    tmp_path: Path,
) -> Mapping[str, str]:
    if request.param not in dumps:
        dumps[request.param] = await _dump_of_a_run(Fleet(bus, await fresh_database(SERVICES), tmp_path))
    return dumps[request.param]


@pytest.fixture
async def installation(postgres_dsn: str, dump: Mapping[str, str]) -> AsyncIterator[Installation]:
    name = f"before_{uuid.uuid4().hex[:12]}"
    root, _ = postgres_dsn.rsplit("/", 1)
    admin = await asyncpg.connect(f"{root}/postgres")
    await admin.execute(f"CREATE DATABASE {name}")
    made = Installation(await prepare_roles(f"{root}/{name}", SERVICES), f"{root}/{name}")
    try:
        for service in SERVICES:
            made.sql[service] = await session(made.addresses[service], service)
            await made.sql[service].execute(dump[service])
        yield made
    finally:
        for sql in made.sql.values():
            await sql.close()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()


async def _dump_of_a_run(fleet: Fleet) -> dict[str, str]:
    """Run the services until every node has its rows; returns the dump of each schema."""
    sql = {service: await session(address, service) for service, address in fleet.addresses.items()}
    try:
        async with fleet.running(sql, SystemClock()):
            for node in NODES:
                at = datetime.now(UTC)
                await fleet.bus.publish(event_of(described(node, at), source=f"agent/{node}", time=at))
            for node in NODES:
                await eventually(lambda node=node: fleet.recorder.lowest(ResourcesOffered, node) >= 0)
                await eventually(lambda node=node: fleet.recorder.lowest(IntentDeclared, node) >= 0)
            for table in ("forecast", "offer"):
                query = f"SELECT count(DISTINCT node) = $1 FROM {table}"  # noqa: S608 - a constant
                await eventually(lambda query=query: sql["console"].fetchval(query, len(NODES)))
            await eventually(lambda: sql["console"].fetchval("SELECT count(*) FROM usage_window"))
        lines = {}
        for service, connection in sql.items():
            rows = [row async for row in contents(connection, service)]
            lines[service] = [*await definitions(connection, service), *rows]
        return {service: "".join(f"{line};\n" for line in statements) for service, statements in lines.items()}
    finally:
        for connection in sql.values():
            await connection.close()


async def test_a_loaded_dump_dumps_equal(installation: Installation, dump: Mapping[str, str]) -> None:
    """What `schema_dump` writes, it reads back without loss."""
    for service, sql in installation.sql.items():
        again = [*await definitions(sql, service), *[line async for line in contents(sql, service)]]
        lines = {without_parentheses(line) for line in dump[service].split(";\n")}
        assert {without_parentheses(line) for line in again if "setval" not in line} <= lines, service


def without_parentheses(statement: str) -> str:
    """PostgreSQL writes a chain of AND with other parentheses once it has read it back."""
    return statement.replace("(", "").replace(")", "")


async def test_an_upgraded_schema_equals_a_new_one(installation: Installation, fresh_database: FreshDatabase) -> None:
    await installation.upgrade()
    for service, address in (await fresh_database(SERVICES)).items():
        fresh = await session(address, service)
        upgraded = await definitions(installation.sql[service], service)
        expected = await definitions(fresh, service)
        await fresh.close()
        assert [without_parentheses(line) for line in upgraded if "PARTITION OF" not in line] == [
            without_parentheses(line) for line in expected if "PARTITION OF" not in line
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


class Fleet:
    """The services on a database, and two nodes that report to them."""

    def __init__(self, bus: NatsBus, addresses: Mapping[str, str], path: Path) -> None:
        self.bus = bus
        self.addresses = addresses
        self.path = path
        self.recorder = Recorder()

    @asynccontextmanager
    async def running(self, sql: Mapping[str, asyncpg.Connection[Any]], clock: Any) -> AsyncIterator[dict[str, Any]]:
        """The started services by name; `sql` has a session of each."""
        async with AsyncExitStack() as stack:
            for payload in (PeakPredicted, ResourcesOffered, IntentDeclared):
                await stack.enter_async_context(self.bus.watch(payload, self.recorder))
            services = {}
            for service in SERVICES:
                site = Site(self.bus, self.addresses[service], service, sql[service], self.path)
                site.clock = clock
                module = importlib.import_module(f"slackwater.{service}.service")
                settings = importlib.import_module(f"slackwater.{service}.settings")
                chosen = getattr(settings, f"{service.capitalize()}Settings")(**SETTINGS.get(service, {}))
                services[service] = await stack.enter_async_context(site.running(module, chosen))
            reporting = asyncio.create_task(_report(self.bus, clock, sql["ingestion"]))
            stack.callback(reporting.cancel)
            yield services


async def test_every_service_continues_from_its_rows(installation: Installation, bus: NatsBus, tmp_path: Path) -> None:
    await installation.upgrade()
    sql = installation.sql
    clock = Clock(await sql["console"].fetchval("SELECT max(sampled_at) FROM usage_point") + timedelta(seconds=5))
    before, quarantined = await _state(sql), await installation.quarantined()
    fleet = Fleet(bus, installation.addresses, tmp_path)
    recorder = fleet.recorder
    async with fleet.running(sql, clock) as services:
        for node in NODES:
            await eventually(
                lambda node=node: recorder.highest(PeakPredicted, node, "samples") > before[node]["samples"]
            )
            await eventually(lambda node=node: recorder.lowest(ResourcesOffered, node) > before[node]["offer"])
            await eventually(lambda node=node: recorder.lowest(IntentDeclared, node) >= before[node]["intent"])
        await _read_model(services["console"].model, clock, sql["console"])
        for service in services.values():
            await service.quarantine.work()
        assert await installation.quarantined() == quarantined
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


async def _outboxes_are_empty(sql: Mapping[str, asyncpg.Connection[Any]]) -> bool:
    """True when every outbox is empty, the events that the dump has included."""
    return not any([await connection.fetchval("SELECT count(*) FROM outbox") for connection in sql.values()])


async def _report(bus: NatsBus, clock: Clock, sql: asyncpg.Connection[Any]) -> None:
    """Publish the next reports of the agents of NODES."""
    rows = {row["name"]: row for row in await sql.fetch("SELECT name, last_sequence, boot_epoch FROM nodes")}
    sequence = {name: rows[name]["last_sequence"] if name in rows else 0 for name in NODES}
    epochs = {name: rows[name]["boot_epoch"] if name in rows else "boot-1" for name in NODES}
    while True:
        for node in NODES:
            sequence[node] += 1
            pods = [pod_usage(f"{node}-p"), pod_usage(f"{node}-b", Tier.BATCH, 1500)]
            data = report(node, sequence[node], clock.now(), boot_epoch=epochs[node], pods=pods,
                          window_seconds=1)  # fmt: skip
            await bus.publish(event_of(data, source=f"agent/{node}", time=clock.now()))
        await asyncio.sleep(1)

"""Nodes and policy in the schema `ensurance`. One row per node holds all of it; `version` keeps writers apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.ensurance.domain.guarded import Guarded, upgraded
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.events.envelope import Event
from slackwater.model.errors import Conflict
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.store.names import news_channel, partition_of_sql
from slackwater.store.port import Database, RowChange, UnitOfWork
from slackwater.waterline.nodeqos import NodeQos

_GUARDED: Final = TypeAdapter(Guarded)
_STANDING: Final = TypeAdapter(PoolStanding)

_NODES = text(
    "SELECT document FROM guarded_nodes"  # noqa: S608 - constants
    f" WHERE {partition_of_sql('node')} = ANY(CAST(:partitions AS int[])) ORDER BY node"
)
_TELL = text("SELECT pg_notify(:channel, 'policy')")
_INSERT_NODE = text(
    "INSERT INTO guarded_nodes (node, version, generation, throttled, document)"
    " VALUES (:node, :written, :generation, :throttled, CAST(:document AS jsonb))"
    " ON CONFLICT (node) DO NOTHING"
)
_UPDATE_NODE = (
    "UPDATE guarded_nodes SET version = :written, generation = :generation, throttled = :throttled,"
    " document = CAST(:document AS jsonb), changed_at = now() WHERE node = :node AND version = :read"
)
_UPDATE_NODE_NOW = text(_UPDATE_NODE)
_POLICY = text("SELECT document FROM policies WHERE name = :name")
_INSERT_POLICY = text(
    "INSERT INTO policies (name, generation, document) VALUES (:name, :generation, CAST(:document AS jsonb))"
    " ON CONFLICT (name) DO NOTHING"
)
_AUTONOMIES = text("SELECT document FROM pool_autonomy ORDER BY pool")
_INSERT_AUTONOMY = text(
    "INSERT INTO pool_autonomy (pool, version, document) VALUES (:pool, :written, CAST(:document AS jsonb))"
    " ON CONFLICT (pool) DO NOTHING"
)
_UPDATE_AUTONOMY = text(
    "UPDATE pool_autonomy SET version = :written, document = CAST(:document AS jsonb), changed_at = now()"
    " WHERE pool = :pool AND version = :read"
)
_UPDATE_POLICY = text(
    "UPDATE policies SET generation = :generation, document = CAST(:document AS jsonb), changed_at = now()"
    " WHERE name = :name AND generation = :generation - 1"
)


class PostgresGuardStore:
    """slackwater.ensurance.ports.GuardStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[PostgresGuardUnit]:
        async with self._database.unit_of_work() as unit:
            yield PostgresGuardUnit(unit)


class PostgresGuardUnit:
    """slackwater.ensurance.ports.GuardUnit."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def nodes(self, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[Guarded]:
        found = await self._unit.connection.execute(_NODES, {"partitions": list(partitions)})
        return [_GUARDED.validate_python(upgraded(row.document)) for row in found]

    async def save(self, guarded: Guarded, *, last: bool = False) -> Guarded:
        self._unit.concerns(guarded.node)
        written = replace(guarded, version=guarded.version + 1)
        values = {
            "node": guarded.node,
            "read": guarded.version,
            "written": written.version,
            "generation": guarded.generation,
            "throttled": len(guarded.state.throttles),
            "document": _GUARDED.dump_json(written).decode(),
        }
        missed = Conflict(f"node {guarded.node}: version {guarded.version} is not the one that is stored")
        if last and guarded.version:
            self._unit.changes_last(RowChange(_UPDATE_NODE, values, missed))
            return written
        if guarded.version == 0:
            del values["read"]
        statement = _INSERT_NODE if guarded.version == 0 else _UPDATE_NODE_NOW
        if (await self._unit.connection.execute(statement, values)).rowcount != 1:
            raise missed
        return written

    async def policy(self, name: str) -> NodeQos | None:
        document = (await self._unit.connection.execute(_POLICY, {"name": name})).scalar_one_or_none()
        return None if document is None else NodeQos.stored(document)

    async def autonomies(self) -> Sequence[PoolStanding]:
        return [_STANDING.validate_python(row.document) for row in await self._unit.connection.execute(_AUTONOMIES)]

    async def save_autonomy(self, standing: PoolStanding) -> PoolStanding:
        written = replace(standing, version=standing.version + 1)
        values = {
            "pool": standing.pool,
            "read": standing.version,
            "written": written.version,
            "document": _STANDING.dump_json(written).decode(),
        }
        if standing.version == 0:
            del values["read"]
        statement = _INSERT_AUTONOMY if standing.version == 0 else _UPDATE_AUTONOMY
        if (await self._unit.connection.execute(statement, values)).rowcount != 1:
            raise Conflict(f"pool {standing.pool}: version {standing.version} is not the one that is stored")
        await self._unit.connection.execute(_TELL, {"channel": news_channel("ensurance")})
        return written

    async def save_policy(self, policy: NodeQos) -> None:
        name, generation = policy.metadata.name, policy.metadata.generation
        values = {"name": name, "generation": generation, "document": policy.model_dump_json(by_alias=True)}
        statement = _INSERT_POLICY if generation == 1 else _UPDATE_POLICY
        result = await self._unit.connection.execute(statement, values)
        if result.rowcount != 1:
            raise Conflict(f"nodeqos {name}: generation {generation - 1} is not the one that is stored")
        await self._unit.connection.execute(_TELL, {"channel": news_channel("ensurance")})

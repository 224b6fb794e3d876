"""Nodes and standings of pools in the schema `ensurance`. One row per node; `version` keeps writers apart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.ensurance.domain.guarded import Guarded, upgraded
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.ensurance.ports import NODES, STANDINGS
from slackwater.events.envelope import Event
from slackwater.events.state_quarantined import QuarantineReason
from slackwater.model.errors import Conflict
from slackwater.model.identifiers import ALL_PARTITIONS
from slackwater.store.names import news_channel, partition_of_sql
from slackwater.store.port import Database, RowChange, UnitOfWork
from slackwater.store.quarantine import Quarantine, described
from slackwater.store.quarantine_memory import unstored

_GUARDED: Final = TypeAdapter(Guarded)
_STANDING: Final = TypeAdapter(PoolStanding)

_NODES = text(
    "SELECT node, version, generation, document FROM guarded_nodes"  # noqa: S608 - constants
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
_GENERATION = text("SELECT generation FROM guarded_nodes WHERE node = :node")
_AUTONOMIES = text("SELECT pool, version, document FROM pool_autonomy ORDER BY pool")
_INSERT_AUTONOMY = text(
    "INSERT INTO pool_autonomy (pool, version, document) VALUES (:pool, :written, CAST(:document AS jsonb))"
    " ON CONFLICT (pool) DO NOTHING"
)
_UPDATE_AUTONOMY = text(
    "UPDATE pool_autonomy SET version = :written, document = CAST(:document AS jsonb), changed_at = now()"
    " WHERE pool = :pool AND version = :read"
)

UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_MOST: Final = 2**62
_LAST_YEAR: Final = 9000
"""Later, an hour more may be beyond what a time can be."""


def _guarded_of(row: Any) -> Guarded:
    """Raises one of UNREADABLE for what is not a state of this very node and version."""
    guarded = _GUARDED.validate_python(upgraded(row.document))
    if (guarded.node, guarded.version, guarded.generation) != (row.node, row.version, row.generation):
        raise ValueError(f"the row is {row.node} {row.version}, its document {guarded.node} {guarded.version}")
    if not 0 < guarded.capacity_milli < _MOST:
        raise ValueError(f"capacity is {guarded.capacity_milli} milli-cores")
    for evicting in guarded.evictions:
        _refuse_late(evicting.deadline)
    if guarded.last_report is not None:
        _refuse_late(guarded.last_report.sampled_at)
    return guarded


def _standing_of(row: Any) -> PoolStanding:
    """Raises one of UNREADABLE for what is not the standing of this very pool."""
    standing = _STANDING.validate_python(row.document)
    if (standing.pool, standing.version) != (row.pool, row.version):
        raise ValueError(f"the row is {row.pool} {row.version}, its document {standing.pool} {standing.version}")
    times = [*standing.state.evictions_at, standing.state.stepped_back_at, *(loss.at for loss in standing.losses)]
    for at in times:
        _refuse_late(at)
    return standing


def _refuse_late(at: datetime | None) -> None:
    """Raises ValueError for a time with which nothing can be reckoned."""
    if at is not None and (at.tzinfo is None or not 1970 <= at.year < _LAST_YEAR):
        raise ValueError(f"{at.isoformat()} is no time of this system")


class PostgresGuardStore:
    """slackwater.ensurance.ports.GuardStore."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[PostgresGuardUnit]:
        async with self._database.unit_of_work() as unit:
            yield PostgresGuardUnit(unit, self._quarantine)


class PostgresGuardUnit:
    """slackwater.ensurance.ports.GuardUnit."""

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        self._unit = unit
        self._quarantine = quarantine

    async def publish(self, event: Event[Any]) -> None:
        await self._unit.publish(event)

    async def nodes(self, partitions: Collection[int] = ALL_PARTITIONS) -> Sequence[Guarded]:
        found = await self._unit.connection.execute(_NODES, {"partitions": list(partitions)})
        return [guarded for row in found if (guarded := self._readable(row)) is not None]

    def _readable(self, row: Any) -> Guarded | None:
        """One row; None where it cannot be read, which is noted."""
        if self._quarantine.holds_node(row.node):
            return None
        try:
            return _guarded_of(row)
        except UNREADABLE as error:
            unreadable, document = QuarantineReason.UNREADABLE, json.dumps(row.document)
            self._quarantine.note(NODES, row.node, error, reason=unreadable, node=row.node, document=document)
            return None

    async def generation(self, node: str) -> int:
        found = (await self._unit.connection.execute(_GENERATION, {"node": node})).scalar_one_or_none()
        return 0 if found is None else int(found)

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

    async def autonomies(self) -> Sequence[PoolStanding]:
        standings: list[PoolStanding] = []
        unreadable: dict[str, tuple[int, str]] = {}
        for row in await self._unit.connection.execute(_AUTONOMIES):
            try:
                standings.append(_standing_of(row))
            except UNREADABLE as error:
                unreadable[row.pool] = row.version, described(error)
        self._quarantine.follow(STANDINGS, {pool: why for pool, (_, why) in unreadable.items()})
        return [*standings, *(PoolStanding(pool, version) for pool, (version, _) in unreadable.items())]

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

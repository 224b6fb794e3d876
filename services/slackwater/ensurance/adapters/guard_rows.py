"""Nodes and standings of pools in the schema `ensurance`: keyed rows, whose `version` keeps writers apart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.ensurance.domain.pools import PoolStanding
from slackwater.ensurance.ports import NODES, STANDINGS
from slackwater.intents.keyed_store import DOCUMENT, GENERATION, KeyedIntentUnit
from slackwater.store.keyed import KeyedTable, RowColumn
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_memory import unstored

_GUARDED: Final = TypeAdapter(GuardedNode)
_STANDING: Final = TypeAdapter(PoolStanding)
_MOST: Final = 2**62
_LAST_YEAR: Final = 9000
"""Later, an hour more may be beyond what a time can be."""


def _guarded_of(row: Any) -> GuardedNode:
    """Raises one of UNREADABLE for what is not a state of this very node and version."""
    if "state" not in row.document:  # its default would forget the limits in force
        raise ValueError(f"the row of {row.node} has no state")
    guarded = _GUARDED.validate_python(row.document)
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


GUARDED: Final = KeyedTable[GuardedNode](
    name=NODES,
    key="node",
    kind="node",
    version="version",
    columns=(
        DOCUMENT,
        GENERATION,
        RowColumn("throttled", "integer", write_only=True),
    ),
    key_of=lambda guarded: guarded.node,
    version_of=lambda guarded: guarded.version,
    encode=lambda guarded: (
        _GUARDED.dump_json(guarded).decode(),
        guarded.generation,
        len(guarded.state.limited),
    ),
    decode=_guarded_of,
    touched="changed_at",
)
STANDING: Final = KeyedTable[PoolStanding](
    name=STANDINGS,
    key="pool",
    kind="pool",
    version="version",
    columns=(DOCUMENT,),
    key_of=lambda standing: standing.pool,
    version_of=lambda standing: standing.version,
    encode=lambda standing: (_STANDING.dump_json(standing).decode(),),
    decode=_standing_of,
    unreadable=lambda pool, version, _: PoolStanding(pool, version),
    of_nodes=False,
    touched="changed_at",
    announced=True,
)


class KeyedGuardStore:
    """slackwater.ensurance.ports.GuardStore."""

    def __init__(self, database: Database, quarantine: Quarantine | None = None) -> None:
        self._database = database
        self._quarantine = quarantine or unstored()

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[KeyedGuardUnit]:
        async with self._database.unit_of_work() as unit:
            yield KeyedGuardUnit(unit, self._quarantine)


class KeyedGuardUnit(KeyedIntentUnit[GuardedNode]):
    """slackwater.ensurance.ports.GuardUnit."""

    def __init__(self, unit: UnitOfWork, quarantine: Quarantine) -> None:
        super().__init__(unit, GUARDED, quarantine)
        self._standings = unit.keyed(STANDING, quarantine)

    async def autonomies(self) -> Sequence[PoolStanding]:
        return list((await self._standings.read_all()).values())

    async def save_autonomy(self, standing: PoolStanding) -> PoolStanding:
        written = replace(standing, version=standing.version + 1)
        await self._standings.replace(written, standing.version)
        return written

"""Policy documents in the schema `prediction`. Written rarely: a change locks the table against other changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import text

from slackwater.model.errors import Conflict
from slackwater.prediction.ports import StoredPolicy
from slackwater.store.names import news_channel
from slackwater.store.port import Database, UnitOfWork

_LOCK = text("LOCK TABLE policies IN SHARE ROW EXCLUSIVE MODE")
_POLICIES = text("SELECT name, generation, document FROM policies ORDER BY name")
_INSERT = text(
    "INSERT INTO policies (name, generation, document) VALUES (:name, :generation, CAST(:document AS jsonb))"
    " ON CONFLICT (name) DO NOTHING"
)
_UPDATE = text(
    "UPDATE policies SET generation = :generation, document = CAST(:document AS jsonb), changed_at = now()"
    " WHERE name = :name AND generation = :generation - 1"
)
_TELL = text("SELECT pg_notify(:channel, 'policy')")


class _Transaction:
    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit

    async def policies(self) -> Sequence[StoredPolicy]:
        await self._unit.connection.execute(_LOCK)
        return await _read(self._unit)

    async def save(self, policy: StoredPolicy) -> None:
        document = None if policy.document is None else json.dumps(policy.document)
        values = {"name": policy.name, "generation": policy.generation, "document": document}
        statement = _INSERT if policy.generation == 1 else _UPDATE
        if (await self._unit.connection.execute(statement, values)).rowcount != 1:
            raise Conflict(f"predictpolicy {policy.name}: generation {policy.generation - 1} is not what is stored")
        await self._unit.connection.execute(_TELL, {"channel": news_channel("prediction")})


class PostgresPolicyStore:
    """slackwater.prediction.ports.PolicyStore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[_Transaction]:
        async with self._database.unit_of_work() as unit:
            yield _Transaction(unit)

    async def policies(self) -> Sequence[StoredPolicy]:
        async with self._database.unit_of_work() as unit:
            return await _read(unit)


async def _read(unit: UnitOfWork) -> Sequence[StoredPolicy]:
    rows = await unit.connection.execute(_POLICIES)
    return [StoredPolicy(row.name, row.generation, row.document) for row in rows]

"""Strategies in effect, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.console.adapters.queries import Queries
from slackwater.console.domain.strategies import StrategyView

_STRATEGY = TypeAdapter(StrategyView)
_SAVE = text("""
    INSERT INTO strategy AS s (name, told_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(name text, told_at timestamptz, body jsonb)
    ON CONFLICT (name) DO UPDATE SET told_at = excluded.told_at, body = excluded.body
    WHERE excluded.told_at >= s.told_at
""")
_ALL = text('SELECT CAST(body AS text) FROM strategy ORDER BY name COLLATE "C"')
_FOLLOWERS = text("""
    SELECT source, count(*) FROM node, jsonb_array_elements_text(offer -> 'strategies') AS source
    WHERE jsonb_typeof(offer -> 'strategies') = 'array' GROUP BY source
""")


class PostgresStrategies(Queries):
    """Implements slackwater.console.ports.StrategyReads and the related write."""

    async def save_strategies(self, rows: Sequence[StrategyView]) -> None:
        newest = {row.document: row for row in sorted(rows, key=lambda row: row.told_at)}.values()
        bodies = [_STRATEGY.dump_python(row, mode="json") for row in newest]
        await self._write((_SAVE, [{"name": b["document"], "told_at": b["told_at"], "body": b} for b in bodies]))

    async def strategies(self) -> Sequence[StrategyView]:
        return await self._all(_STRATEGY, _ALL)

    async def followers(self) -> Mapping[str, int]:
        return {row[0]: row[1] for row in await self._rows(_FOLLOWERS)}

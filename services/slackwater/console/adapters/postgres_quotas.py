"""Ledgers of quota trees, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.console.adapters.queries import Queries
from slackwater.console.domain.quota_points import QuotaPoint, ledger_time
from slackwater.events.quota_accounted import QuotaAccounted

_LEDGER = TypeAdapter(QuotaAccounted)
_POINT = TypeAdapter(QuotaPoint)
_SAVE = text("""
    INSERT INTO quota_ledger AS q (tree, at, accounted_at, body)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS r(tree text, at timestamptz, accounted_at timestamptz, body jsonb)
    ON CONFLICT (tree, at) DO UPDATE SET accounted_at = excluded.accounted_at, body = excluded.body
    WHERE excluded.accounted_at >= q.accounted_at
""")
_NEWEST = text("""
    SELECT CAST(body AS text) FROM quota_ledger
    WHERE (tree, at) IN (SELECT tree, max(at) FROM quota_ledger GROUP BY tree) ORDER BY tree COLLATE "C"
""")
_POINTS = text("""
    SELECT CAST(jsonb_build_object('at', at, 'quotas', coalesce((
        SELECT jsonb_object_agg(quota ->> 'name', jsonb_build_object(
            'used', coalesce(quota -> 'used' -> CAST(:resource AS text), '0'),
            'runtime', coalesce(quota -> 'runtime' -> CAST(:resource AS text), '0'),
            'requested', coalesce(quota -> 'requested' -> CAST(:resource AS text), '0')))
        FROM jsonb_array_elements(body -> 'quotas') AS quota WHERE quota ? 'name'), '{}')) AS text)
    FROM (
        SELECT DISTINCT ON (step) at, body, floor(extract(epoch FROM at) / :seconds) AS step FROM quota_ledger
        WHERE tree = :tree AND at BETWEEN :since AND :until AND jsonb_typeof(body -> 'quotas') = 'array'
        ORDER BY step, at DESC
    ) AS last ORDER BY at
""")
PRUNE_LEDGERS = text("""
    DELETE FROM quota_ledger AS old WHERE at < :before
    AND EXISTS (SELECT FROM quota_ledger AS newer WHERE newer.tree = old.tree AND newer.at > old.at)
""")


class PostgresQuotas(Queries):
    """Implements slackwater.console.ports.QuotaReads and the related write."""

    async def save_quota_ledgers(self, rows: Sequence[QuotaAccounted]) -> None:
        newest = {
            (row.tree, ledger_time(row.accounted_at, len(row.quotas))): row
            for row in sorted(rows, key=lambda row: row.accounted_at)
        }
        saved = []
        for (tree, at), row in sorted(newest.items(), key=lambda item: item[0]):
            body = _LEDGER.dump_python(row, mode="json")
            saved.append(
                {"tree": tree, "at": at.isoformat(), "accounted_at": row.accounted_at.isoformat(), "body": body}
            )
        await self._write((_SAVE, saved))

    async def quota_ledgers(self) -> Sequence[QuotaAccounted]:
        return await self._all(_LEDGER, _NEWEST)

    async def quota_points(
        self, tree: str, resource: str, since: datetime, until: datetime, step_seconds: int
    ) -> Sequence[QuotaPoint]:
        return await self._all(
            _POINT, _POINTS, tree=tree, resource=resource, since=since, until=until, seconds=step_seconds
        )

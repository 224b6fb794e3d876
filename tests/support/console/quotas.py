"""Ledgers of quota trees, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from slackwater.console.domain.quota_points import QuotaAmounts, QuotaPoint, ledger_time
from slackwater.events.quota_accounted import QuotaAccounted


class MemoryQuotas:
    """Implements slackwater.console.ports.QuotaReads and the related write."""

    def __init__(self) -> None:
        super().__init__()
        self._ledgers: dict[tuple[str, datetime], QuotaAccounted] = {}

    async def save_quota_ledgers(self, rows: Sequence[QuotaAccounted]) -> None:
        for row in rows:
            key = (row.tree, ledger_time(row.accounted_at, len(row.quotas)))
            known = self._ledgers.get(key)
            if known is None or row.accounted_at >= known.accounted_at:
                self._ledgers[key] = row

    async def quota_ledgers(self) -> Sequence[QuotaAccounted]:
        newest = {tree: row for (tree, _), row in sorted(self._ledgers.items(), key=lambda item: item[0])}
        return [newest[tree] for tree in sorted(newest)]

    async def quota_points(
        self, tree: str, resource: str, since: datetime, until: datetime, step_seconds: int
    ) -> Sequence[QuotaPoint]:
        last: dict[int, QuotaPoint] = {}
        for (name, at), row in sorted(self._ledgers.items(), key=lambda item: item[0]):
            if name == tree and since <= at <= until:
                last[int(at.timestamp() // step_seconds)] = QuotaPoint(
                    at,
                    {
                        quota.name: QuotaAmounts(
                            quota.used.get(resource, 0),
                            quota.runtime.get(resource, 0),
                            quota.requested.get(resource, 0),
                        )
                        for quota in row.quotas
                    },
                )
        return [last[step] for step in sorted(last)]

    def _drop_ledgers(self, before: datetime) -> None:
        newest = dict(sorted(self._ledgers))
        self._ledgers = {key: row for key, row in self._ledgers.items() if key[1] >= before or key[1] == newest[key[0]]}

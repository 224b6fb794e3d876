"""The quarantine in a service's schema: items, and their events, in one transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import text

from slackwater.events.envelope import event_of
from slackwater.events.state_quarantined import QuarantineReason
from slackwater.store.names import news_channel, readable_time
from slackwater.store.port import Database, UnitOfWork
from slackwater.store.quarantine import MOST_ITEMS, Item, quarantine_event

_COLUMNS: Final = "state_table, state_row, node, reason, detail, document, since, failed_at, count"
_READ: Final = f"""state_table, state_row, node, reason, detail, document,
    {readable_time("since")} AS since, {readable_time("failed_at")} AS failed_at, count"""
_ITEMS = text(f"SELECT {_READ} FROM quarantine ORDER BY quarantine.since, id")  # noqa: S608 - constants
_PUT = text(f"""
INSERT INTO quarantine (id, {_COLUMNS})
SELECT :id, :state_table, :state_row, :node, :reason, :detail, :document, :since, :failed_at, :count
WHERE EXISTS (SELECT FROM quarantine WHERE id = :id) OR (SELECT count(*) FROM quarantine) < :most
ON CONFLICT (id) DO UPDATE SET count = quarantine.count + excluded.count, failed_at = excluded.failed_at,
    reason = excluded.reason, detail = excluded.detail, document = excluded.document
RETURNING xmax = 0 AS is_new
""")  # noqa: S608 - constants
_REASONS: Final = frozenset(reason.value for reason in QuarantineReason)
"""Known reasons; another version may have stored others."""
_REMOVE = text(f"DELETE FROM quarantine WHERE id = :id RETURNING {_READ}")  # noqa: S608 - constants
_NOTIFY = text("SELECT pg_notify(:channel, 'quarantine')")


class PostgresQuarantine:
    """slackwater.store.quarantine.QuarantineStore. Its database is not fenced: an item belongs to no partition."""

    def __init__(self, database: Database, service: str) -> None:
        self._database = database
        self._service = service

    async def items(self) -> Sequence[Item]:
        async with self._database.unit_of_work() as unit:
            return [self._item(row) for row in await unit.connection.execute(_ITEMS)]

    async def put(self, item: Item) -> bool:
        values = {
            "id": item.id,
            "state_table": item.table,
            "state_row": item.row,
            "node": item.node,
            "reason": item.reason.value,
            "detail": item.detail,
            "document": item.document,
            "since": item.since,
            "failed_at": item.failed_at,
            "count": item.count,
            "most": MOST_ITEMS,
        }
        async with self._database.unit_of_work() as unit:
            row = (await unit.connection.execute(_PUT, values)).first()
            if row is not None and row.is_new:
                await self._publish(unit, item, item.failed_at, released=False)
        return row is not None

    async def remove(self, item_id: str, now: datetime) -> Item | None:
        async with self._database.unit_of_work() as unit:
            row = (await unit.connection.execute(_REMOVE, {"id": item_id})).first()
            if row is None:
                return None
            item = self._item(row)
            await self._publish(unit, item, now, released=True)
        return item

    async def _publish(self, unit: UnitOfWork, item: Item, now: datetime, *, released: bool) -> None:
        await unit.publish(event_of(quarantine_event(item, now, released=released), source=self._service, time=now))
        await unit.connection.execute(_NOTIFY, {"channel": news_channel(self._service)})

    def _item(self, row: Any) -> Item:
        return Item(
            self._service,
            row.state_table,
            row.state_row,
            row.node,
            QuarantineReason(row.reason) if row.reason in _REASONS else QuarantineReason.UNREADABLE,
            row.detail,
            row.document,
            row.since,
            row.failed_at,
            row.count,
        )

"""Listed events, in PostgreSQL: one table for every type."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter
from sqlalchemy import text

from slackwater.console.adapters.queries import Queries, as_json
from slackwater.console.domain.event_log import EventFilter, ListedEvent

_EVENT = TypeAdapter(ListedEvent)
_SAVE = text("""
    INSERT INTO event (id, type, source, node, time, causedby, trace, body)
    SELECT id, type, source, node, time, causedby, trace, CAST(body AS jsonb)
    FROM unnest(CAST(:id AS text[]), CAST(:type AS text[]), CAST(:source AS text[]), CAST(:node AS text[]),
        CAST(:time AS timestamptz[]), CAST(:causedby AS text[]), CAST(:trace AS text[]), CAST(:body AS text[]))
        AS r(id, type, source, node, time, causedby, trace, body)
    ON CONFLICT (id) DO NOTHING
""")
_LIST = text("""
    WITH RECURSIVE stored AS (
        (SELECT type FROM event ORDER BY type LIMIT 1)
        UNION ALL
        SELECT (SELECT type FROM event WHERE type > stored.type ORDER BY type LIMIT 1)
        FROM stored WHERE stored.type IS NOT NULL
    )
    SELECT CAST(jsonb_build_object('id', id, 'type', type, 'source', source, 'node', node, 'time', time,
        'causedby', causedby, 'trace', trace, 'data', body) AS text)
    FROM unnest(coalesce(CAST(:types AS text[]), ARRAY(SELECT stored.type FROM stored))) AS wanted
    CROSS JOIN LATERAL (
        SELECT * FROM event
        WHERE type = wanted
          AND (CAST(:node AS text) IS NULL OR node = :node)
          AND (CAST(:trace AS text) IS NULL OR trace = :trace)
          AND (CAST(:since AS timestamptz) IS NULL OR time >= :since)
          AND (CAST(:until AS timestamptz) IS NULL OR time <= :until)
          AND (CAST(:before_at AS timestamptz) IS NULL
               OR (time, id COLLATE "C") < (:before_at, CAST(:before_id AS text) COLLATE "C"))
        ORDER BY time DESC, id COLLATE "C" DESC LIMIT :limit
    ) AS newest
    ORDER BY time DESC, id COLLATE "C" DESC LIMIT :limit
""")
"""Reads the newest of each type, because a filter by several types gives an index no order. `stored` is every type in
the table, one index lookup each.
"""
PRUNE_EVENTS = text("DELETE FROM event WHERE time < :before")


class PostgresEvents(Queries):
    """Implements slackwater.console.ports.EventReads and the related write."""

    async def save_events(self, rows: Sequence[ListedEvent]) -> None:
        unique = {row.id: row for row in reversed(rows)}.values()
        await self._write((_SAVE, [_row(row) for row in unique]))

    async def events(self, wanted: EventFilter) -> Sequence[ListedEvent]:
        before_at, before_id = wanted.before or (None, None)
        return await self._all(
            _EVENT,
            _LIST,
            types=list(wanted.types) if wanted.types is not None else None,
            node=wanted.node,
            trace=wanted.trace,
            since=wanted.since,
            until=wanted.until,
            before_at=before_at,
            before_id=before_id,
            limit=wanted.limit,
        )


def _row(event: ListedEvent) -> dict[str, object]:
    return {
        "id": event.id,
        "type": event.type,
        "source": event.source,
        "node": event.node,
        "time": event.time,
        "causedby": event.causedby,
        "trace": event.trace,
        "body": as_json(event.data),
    }

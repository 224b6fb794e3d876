"""How far behind an outbox is, asked through the service's own pool: cheap enough to ask every few seconds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from slackwater.store.port import Database

_OUTBOX = text("""
    SELECT count(*) FILTER (WHERE refused IS NULL),
        CAST(coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE refused IS NULL)), 0) AS float8),
        count(*) FILTER (WHERE refused IS NOT NULL)
    FROM outbox
""")


@dataclass(frozen=True, slots=True)
class OutboxState:
    """Facts that wait to be published, the age of the oldest, and facts that the bus will never take."""

    depth: int
    oldest_age_seconds: float
    refused: int


async def outbox_state(database: Database) -> OutboxState:
    """Of the service whose database this is. Raises Unavailable when PostgreSQL does not answer."""
    async with database.unit_of_work() as unit:
        depth, age, refused = (await unit.connection.execute(_OUTBOX)).one()
    return OutboxState(depth, max(0.0, age), refused)

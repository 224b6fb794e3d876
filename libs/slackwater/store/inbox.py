"""Events that a consumer has handled: a redelivery finds its row and has no second effect."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_NOTE = text(
    "INSERT INTO inbox (consumer, event_id) VALUES (:consumer, CAST(:event_id AS uuid))"
    " ON CONFLICT DO NOTHING RETURNING 1"
)
_NOTE_ALL = text(
    "INSERT INTO inbox (consumer, event_id) SELECT :consumer, id FROM unnest(CAST(:event_ids AS uuid[])) AS id"
    " ORDER BY id ON CONFLICT DO NOTHING RETURNING CAST(event_id AS text)"
)
PRUNE = "DELETE FROM inbox WHERE handled_at < now() - interval '7 days'"
"""Seven days exceed any consumer's redelivery; an older repeat is an operator's replay."""


async def first_time(connection: AsyncConnection, consumer: str, event_id: str) -> bool:
    """Record the event in this transaction; returns whether it is new. A second transaction with
    the same id waits for the end of the first.
    """
    noted = await connection.execute(_NOTE, {"consumer": consumer, "event_id": event_id})
    return noted.first() is not None


async def first_times(connection: AsyncConnection, consumer: str, event_ids: Collection[str]) -> set[str]:
    """Record many events at once; returns the new ones."""
    noted = await connection.execute(_NOTE_ALL, {"consumer": consumer, "event_ids": list(event_ids)})
    return set(noted.scalars())

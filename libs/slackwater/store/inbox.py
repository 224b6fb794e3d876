"""Which events a consumer has handled: a redelivery finds its row and has no second effect."""

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
"""Seven days is longer than any consumer redelivers: what is older is not a repeat but an operator's replay."""


async def first_time(connection: AsyncConnection, consumer: str, event_id: str) -> bool:
    """Note it in this transaction. A second transaction with the same id waits for the end of the first."""
    noted = await connection.execute(_NOTE, {"consumer": consumer, "event_id": event_id})
    return noted.first() is not None


async def first_times(connection: AsyncConnection, consumer: str, event_ids: Collection[str]) -> set[str]:
    """The same for many at once: those that had not been handled before."""
    noted = await connection.execute(_NOTE_ALL, {"consumer": consumer, "event_ids": list(event_ids)})
    return set(noted.scalars())

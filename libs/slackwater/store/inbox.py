"""Which events a consumer has handled: a redelivery finds its row and has no second effect."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

_NOTE = text(
    "INSERT INTO inbox (consumer, event_id) VALUES (:consumer, CAST(:event_id AS uuid))"
    " ON CONFLICT DO NOTHING RETURNING 1"
)
PRUNE = "DELETE FROM inbox WHERE handled_at < now() - interval '7 days'"
"""Seven days is longer than any consumer redelivers: what is older is not a repeat but an operator's replay."""


async def first_time(connection: AsyncConnection, consumer: str, event_id: str) -> bool:
    """Note it in this transaction. A second transaction with the same id waits for the end of the first."""
    noted = await connection.execute(_NOTE, {"consumer": consumer, "event_id": event_id})
    return noted.first() is not None

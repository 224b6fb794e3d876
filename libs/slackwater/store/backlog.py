"""Outbox backlog, read through the service's own pool: cheap enough to query every few seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text

from slackwater.events.envelope import Payload
from slackwater.events.serialized import type_of
from slackwater.store.port import Database
from slackwater.store.tables import HAS_SHARD, PARTITION_OF_ROW

_OUTBOX = text("""
    SELECT count(*) FILTER (WHERE refused IS NULL),
        CAST(coalesce(extract(epoch FROM now() - min(created_at) FILTER (WHERE refused IS NULL)), 0) AS float8),
        count(*) FILTER (WHERE refused IS NOT NULL)
    FROM outbox
""")

_WAITING = text(f"""
    SELECT {PARTITION_OF_ROW} AS partition, CAST(extract(epoch FROM now() - min(created_at)) AS float8) AS age
    FROM outbox WHERE refused IS NULL AND type = :type AND {HAS_SHARD} GROUP BY 1
""")  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class OutboxState:
    """Events waiting to be published, the age in seconds of the oldest, and events that the bus
    will never accept.
    """

    depth: int
    oldest_age_seconds: float
    refused: int


async def outbox_state(database: Database) -> OutboxState:
    """Returns the outbox state of a service's database. Raises Unavailable when PostgreSQL does not
    answer.
    """
    async with database.unit_of_work() as unit:
        depth, age, refused = (await unit.connection.execute(_OUTBOX)).one()
    return OutboxState(depth, max(0.0, age), refused)


async def oldest_waiting(database: Database, payload: type[Payload]) -> Mapping[int, float]:
    """Returns, per partition, the age in seconds of the oldest unpublished event of a type;
    partitions without one are absent. Raises Unavailable when PostgreSQL does not answer.
    """
    async with database.unit_of_work() as unit:
        rows = (await unit.connection.execute(_WAITING, {"type": type_of(payload)})).all()
    return {row.partition: row.age for row in rows}

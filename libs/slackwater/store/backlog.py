"""Since when events of a type wait in the outbox, by partition; read over the reserved session, because leases depend
on it.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import text

from slackwater.events.envelope import Payload
from slackwater.events.serialized import type_of
from slackwater.store.port import Database
from slackwater.store.tables import HAS_SHARD, PARTITION_OF_ROW

_WAITING = text(f"""
    SELECT {PARTITION_OF_ROW} AS partition, CAST(extract(epoch FROM now() - min(created_at)) AS float8) AS age
    FROM outbox WHERE refused IS NULL AND type = :type AND {HAS_SHARD} GROUP BY 1
""")  # noqa: S608 - constants


async def oldest_waiting(database: Database, payload: type[Payload]) -> Mapping[int, float]:
    """Returns, per partition, the age in seconds of the oldest unpublished event of a type;
    partitions without one are absent. Raises Unavailable when PostgreSQL does not answer.
    """
    async with database.reserved().unit_of_work() as unit:
        rows = (await unit.connection.execute(_WAITING, {"type": type_of(payload)})).all()
    return {row.partition: row.age for row in rows}

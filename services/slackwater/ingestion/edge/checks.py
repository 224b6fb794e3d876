"""Readiness checks of ingestion's database and broker."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.errors import Unavailable
from slackwater.runtime.replicated import Replica
from slackwater.runtime.service import Check

BACKLOG_LIMIT_SECONDS = 30.0


async def dependencies(replica: Replica) -> Sequence[Check]:
    """Checks the database, the outbox and the broker. The database check reads the size of the outbox."""
    bus = await replica.bus_check()
    try:
        backlog = await replica.relay.backlog()
    except Unavailable as error:
        return (Check("database", ok=False, detail=error.message), bus)
    is_late = backlog.oldest_age_seconds > BACKLOG_LIMIT_SECONDS
    detail = f"{backlog.depth} events, oldest {backlog.oldest_age_seconds:.1f} s, {backlog.refused} set aside"
    return (Check("database", ok=True), bus, Check("outbox", ok=not is_late, detail=detail))

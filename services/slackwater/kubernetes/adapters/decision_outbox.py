"""Decisions in the outbox of the service, from which they are published."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import decision_event
from slackwater.store.port import Database


class OutboxDecisions:
    """slackwater.kubernetes.ports.DecisionStore. A fenced database refuses nodes of other replicas."""

    def __init__(self, database: Database, source: str) -> None:
        self._database = database
        self._source = source

    async def record(self, records: Sequence[DecisionRecord]) -> None:
        async with self._database.unit_of_work() as unit:
            for record in records:
                await unit.publish(decision_event(record, record.trigger_event_id, self._source))

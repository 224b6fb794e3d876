"""Puts the decisions of a disconnected agent under a budget of records, as ensurance does with its own.

All stretches since the start share one account: a node that loses its connection again and again has one burst.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordAccount, RecordBudget, recorded
from slackwater.events.decision_recorded import stream_bytes


@dataclass(slots=True)
class DisconnectedRecords:
    """The account of one agent."""

    budget: RecordBudget
    account: RecordAccount = field(default_factory=RecordAccount)

    def within(self, decided: Iterable[DecisionRecord], now: datetime, *, continues: bool) -> list[DecisionRecord]:
        """Returns the records to publish. Decisions without one are listed in the next. `continues`: limits or
        evictions of earlier decisions are still in force."""
        found: list[DecisionRecord] = []
        for record in decided:
            step = recorded(self.account, record, self.budget, now, stream_bytes, continues=continues)
            self.account, continues = step.account, True
            if step.record is not None:
                found.append(step.record)
        return found

"""Records each allocation and release of CPUs, and each resize of a pool, within the node's budget of records."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.agent.domain.resource_manager.placement_record import MachinePlacement, change_of, placement_record
from slackwater.agent.ports import Publisher
from slackwater.decisions.record_budget import RecordAccount, RecordBudget, recorded
from slackwater.events.decision_recorded import stream_bytes
from slackwater.model.identifiers import new_id
from slackwater.model.time import Clock

_MOST_WAITING = 50
"""So many records wait for the bus; the oldest make room."""


@dataclass(slots=True)
class RecordPlacements:
    """`in_force` is the placement that the last record describes; None before the first one of this run."""

    node: str
    clock: Clock
    publisher: Publisher
    budget: RecordBudget
    account: RecordAccount = field(default_factory=RecordAccount)
    in_force: MachinePlacement | None = None
    _count: int = 0

    def resume(self, placement: MachinePlacement) -> None:
        """Continue with what an earlier run has decided and recorded."""
        self.in_force = placement

    def record(self, placement: MachinePlacement) -> None:
        """Record a placement where it is another decision than the one in force."""
        reason = change_of(self.in_force, placement)
        if reason is None:
            return
        now = self.clock.now()
        record = placement_record(new_id(), self.node, reason, now, self.in_force, placement)
        self.in_force = placement
        step = recorded(self.account, record, self.budget, now, stream_bytes, continues=False)
        self.account = step.account
        if step.record is not None:
            self._count += 1
            self.publisher.decided(f"cpuset/{self._count % _MOST_WAITING}", step.record, None)

"""Enters and leaves disconnected mode: from a lapsed lease of ensurance until its next document or renewal.

A machine that runs out of memory does not wait for a lease to lapse. While a memory waterline is exceeded, the agent
plans beside ensurance. Where its plan evicts and ensurance has not answered by the next sample, half an interval later,
the agent carries the plan out and guards the machine until these evictions are over.

The planner is loaded with the first need of it: an agent that stays connected does not pay for its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.agent.domain.evictions import EvictionRequest
from slackwater.agent.domain.waterlines import MEMORY
from slackwater.agent.ports import Driver, Publisher
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.agent.usecases.describe_node import PublishDescription
from slackwater.agent.usecases.evict import EvictPods
from slackwater.agent.usecases.held_documents import HeldDocument
from slackwater.agent.usecases.sample import Tick
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import AGENT_WRITER
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

if TYPE_CHECKING:
    from slackwater.agent.usecases.guard_disconnected import DisconnectedGuard, DisconnectedRecords

_log = get_logger(__name__)
STANDS_IN_FOR = "ensurance"
"""The writer whose rules a disconnected agent applies."""
_CONNECTED_WITHIN_SECONDS = 5.0
"""So long after a start no agent counts as disconnected: a connected one receives ensurance's documents before that."""
DECISIONS_KEPT = 200
"""So many decisions wait for the bus; the oldest make room."""
LAPSED = "the lease of ensurance has lapsed"
UNANSWERED = "memory is above its waterline and ensurance has not answered"
"""Why an agent decides alone."""


@dataclass(slots=True)
class DisconnectedMode:
    """At most one guard at a time; None while ensurance guards the node."""

    node: PublishDescription
    driver: Driver
    converge: ConvergeToIntents
    evict: EvictPods
    clock: Clock
    publisher: Publisher
    started_at: float
    record_burst_bytes: int
    record_bytes_per_hour: int
    guard: DisconnectedGuard | None = None
    because: str = ""
    is_unanswered: bool = False
    """Whether the last plan beside ensurance evicts, and ensurance may still answer."""
    _beside: DisconnectedGuard | None = None
    """Plans beside ensurance while a memory waterline is exceeded, and carries nothing out."""
    _decided: int = 0
    """Decisions of all stretches since the start. Their count names the records that wait for the bus: one that began
    anew with each stretch would replace records of the stretch before."""
    _decided_before: int = 0
    """Those of the earlier stretches."""
    _unreadable: str = ""
    _records: DisconnectedRecords | None = None

    def update(self) -> None:
        """Enter or leave. Called before limits of a lapsed lease rise, so that those in force stay without a gap."""
        held, now = self.converge.held.by_writer.get(STANDS_IN_FOR), self.clock.monotonic()
        if held is None or not held.event.data.rules or held.desired.alive(now):
            if self.guard is not None and not (self.because == UNANSWERED and self.guard.evictions):
                _log.info("no longer alone", node=self.node.name, decisions=self._decided - self._decided_before)
                self.guard.end()
                self.guard = None
        elif self.guard is None and now - self.started_at >= _CONNECTED_WITHIN_SECONDS:
            self._stand_in(self._begin(held), LAPSED)

    def decide(self, tick: Tick) -> None:
        """While disconnected: what ensurance would do with the rules that it left here."""
        if self.guard is None:
            self._plan_beside(tick)
        if self.guard is None or self._records is None:
            return
        continues = self.guard.is_in_episode
        decided = self.guard.tick(tick.instant, tick.pods, self.evict.ending())
        for record in self._records.within(decided, self.clock.now(), continues=continues):
            self._decided += 1
            _log.info("decided alone", node=self.node.name, decision_id=record.id, kind=record.kind)
            self.publisher.decided(f"decision/{self._decided % DECISIONS_KEPT}", record, self.guard.held.event)

    def _plan_beside(self, tick: Tick) -> None:
        """Stand in for ensurance where it has not answered a plan of the sample before. Its every document begins anew:
        that is an answer."""
        held = self.converge.held.by_writer.get(STANDS_IN_FOR)
        is_short = any(line.metric in MEMORY for line in tick.crossed)
        if held is None or not (is_short and self.evict.begins and held.desired.alive(self.clock.monotonic())):
            self._beside, self.is_unanswered = None, False
            return
        if self._beside is None or self._beside.held.event is not held.event:
            self._beside, self.is_unanswered = self._begin(held) if held.event.data.rules else None, False
        if self._beside is None or not self._beside.would_evict(tick.instant, tick.pods, self.evict.ending()):
            self.is_unanswered = False
        elif self.is_unanswered:
            self._stand_in(self._beside, UNANSWERED)
        else:
            self.is_unanswered = True

    def _stand_in(self, guard: DisconnectedGuard | None, because: str) -> None:
        if guard is None:
            return
        from slackwater.agent.usecases.guard_disconnected import DisconnectedRecords
        from slackwater.decisions.record_budget import RecordBudget

        if self._records is None:
            self._records = DisconnectedRecords(RecordBudget(self.record_burst_bytes, self.record_bytes_per_hour))
        self._decided_before = self._decided
        self.guard, self.because, self._beside, self.is_unanswered = guard, because, None, False
        self.converge.own = guard.desired()
        self.publisher.disconnected()
        evictions = "decided here" if self.evict.begins else "none: the API server carries them out"
        _log.warning(
            "alone",
            node=self.node.name,
            because=because,
            generation=guard.held.desired.generation,
            evictions=evictions,
        )

    def evictions(self) -> list[EvictionRequest]:
        """The evictions decided here that have not come to their end."""
        return [] if self.guard is None else self.guard.evictions

    def on_completed(self, completion: EvictionCompleted) -> None:
        if self.guard is not None:
            self.guard.ended(completion)

    def _begin(self, held: HeldDocument) -> DisconnectedGuard | None:
        if held.event.id == self._unreadable:
            return None
        from slackwater.agent.domain.disconnected import Machine
        from slackwater.agent.usecases.guard_disconnected import begin

        try:
            leaving, begun_at, pods = self.evict.ending(), self.evict.begun_lately(), self.driver.pods()
            return begin(
                held,
                Machine(self.node.facts),
                self.converge,
                self.clock,
                pods,
                lambda requests: self.evict.consider(requests, {AGENT_WRITER: True}),
                leaving,
                begun_at,
                evicts=self.evict.begins,
            )
        except ValueError as error:
            self._unreadable = held.event.id
            _log.warning("rules not readable", node=self.node.name, error=str(error))
            return None

"""On usage.reported: plan, and if there is something to do, record it and declare the new intent in one transaction.

An urgent report comes twice, as usage.reported and as waterline.crossed, and in any order: whichever is first is
handled, for a report whose number has been seen never causes action again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.domain.explaining import Deciding, record_of
from slackwater.ensurance.domain.guarded import Cause, Guarded, LastReport, carried_out, is_recorded, outdated
from slackwater.ensurance.ports import Meter
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.declaring import declared, recorded
from slackwater.ensurance.usecases.measure_effect import Effect, measure_effects
from slackwater.ensurance.usecases.sampling import snapshot_of
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.model.identifiers import new_id
from slackwater.model.time import Clock
from slackwater.telemetry.spans import Attributes, span
from slackwater.telemetry.traceparent import sampled, trace_id_of
from slackwater.waterline.plan import Outcome
from slackwater.waterline.planner import plan

INBOX = "ensurance-usage-reported"
"""Who has handled a report, by either way: both carry the same id."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What one report leads to. `before` is what the node was, for the gauges."""

    before: Guarded
    after: Guarded
    outcome: Outcome
    record: DecisionRecord | None
    effects: Sequence[Effect]
    cause: Event[UsageReported]
    """The report, in the step that decided."""

    @property
    def is_written(self) -> bool:
        """Counters and the position of the last report are not worth a write; everything else is."""
        changed = self.after.generation != self.before.generation or self.after.awaited != self.before.awaited
        return changed or self.record is not None


class GuardNode:
    """See the module's docstring."""

    def __init__(
        self, book: Book, clock: Clock, meter: Meter, lease_seconds: float, max_report_age_seconds: float
    ) -> None:
        self._book = book
        self._clock = clock
        self._meter = meter
        self._lease_seconds = lease_seconds
        self._max_report_age_seconds = max_report_age_seconds

    async def __call__(self, report: Event[UsageReported]) -> None:
        """Handle one report. Raises Unavailable or Conflict when the decision could not be committed."""
        async with self._book.turn():
            now = self._clock.now()
            guarded = self._book.node(report.data.node)
            why = "unknown_node" if guarded is None else self._outdated(guarded, report, now)
            if guarded is None or why is not None:
                self._meter.ignored(why or "")
                return
            self._book.heard_at[guarded.node] = now
            answer = self._answer(guarded, report, now)
            if answer.is_written:
                answer = await self._commit(answer, report, now)
            self._book.put(answer.after)
        self._tell(answer)

    def _outdated(self, guarded: Guarded, report: Event[UsageReported], now: datetime) -> str | None:
        return outdated(guarded, _position(report), now, self._max_report_age_seconds)

    def _answer(self, guarded: Guarded, report: Event[UsageReported], now: datetime) -> _Answer:
        policy = self._book.policy.policy()
        snapshot = snapshot_of(report, guarded.capacity_milli)
        effects, measured = measure_effects(guarded, snapshot, report, policy.throttle.settle_seconds, now)
        outcome = plan(snapshot, guarded.state, policy, now)
        source = Deciding(guarded.node, guarded.capacity_milli, guarded.state, policy, now, snapshot)
        record = record_of(new_id(), outcome.plan, source) if is_recorded(outcome) else None
        cause = report if record is None else _decided(record, report, guarded.generation)
        if record is not None:
            record = record.model_copy(update={"trace_id": trace_id_of(cause.traceparent)})
        origin = Cause(snapshot.sampled_at, cause.traceparent)
        after = carried_out(measured, outcome, record.id if record is not None else None, now, origin)
        return _Answer(guarded, replace(after, last_report=_position(report)), outcome, record, effects, cause)

    async def _commit(self, answer: _Answer, report: Event[UsageReported], now: datetime) -> _Answer:
        async with self._book.writing() as unit:
            if not await unit.first_time(INBOX, report.id):
                before = replace(answer.before, last_report=_position(report))
                return replace(answer, after=before, record=None, effects=())
            for effect in answer.effects:
                await unit.publish(effect.event)
            cause: Event[Any] = answer.cause
            if answer.record is not None:
                cause = recorded(answer.record, answer.cause)
                await unit.publish(cause)
            if answer.after.generation != answer.before.generation:
                await unit.publish(
                    declared(
                        answer.after,
                        self._book.policy,
                        self._lease_seconds,
                        now,
                        cause,
                        self._book.epoch_of(answer.after.node),
                    )
                )
            return replace(answer, after=await unit.save(answer.after))

    def _tell(self, answer: _Answer) -> None:
        for effect in answer.effects:
            self._meter.effect(effect.event.data, effect.decision_age_seconds)
        if answer.record is not None:
            age = answer.record.decided_at - answer.cause.data.sampled_at
            self._meter.decided(answer.record, age.total_seconds())
        states = answer.before.state, answer.after.state
        if answer.record is not None or states[0].exhausted_told != states[1].exhausted_told:
            remaining = answer.outcome.plan.remaining_milli
            self._meter.standing(answer.after.node, len(states[1].throttles), remaining)


def _decided(record: DecisionRecord, report: Event[UsageReported], generation: int) -> Event[UsageReported]:
    """The decision as a step of its own. Decisions are few: each is traced from here on, sampled report or not."""
    attributes: Attributes = {
        "node": record.node,
        "decision_id": record.id,
        "kind": record.kind,
        "reason": record.reason,
        "generation": generation + 1,
        "released": record.result,
        "remaining": record.remaining,
    }
    with span("ensurance decide", sampled(report.traceparent), attributes) as step:
        return report.model_copy(update={"traceparent": step.traceparent})


def _position(report: Event[UsageReported]) -> LastReport:
    return LastReport(report.data.boot_epoch, report.data.sequence, report.data.sampled_at)

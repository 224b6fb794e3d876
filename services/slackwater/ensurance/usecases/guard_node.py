"""On usage.reported: plan; if there is something to do, record it and declare the new intent in one transaction.

An urgent report arrives twice, as usage.reported and as waterline.crossed, in any order. The first is handled; a report
whose number was seen causes no action again. The number is stored in the node's row, so a new owner, or a process that
reads again after a lost commit, sees it too, and no inbox is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordBudget
from slackwater.ensurance.domain.node_state import (
    VALID_SECONDS,
    Awaited,
    Evicting,
    GuardedNode,
    LastReport,
    carried_out,
    implausible,
    limit_key,
    outdated,
    settle_seconds_of,
)
from slackwater.ensurance.domain.pools import EvictedPod, PoolStanding
from slackwater.ensurance.ports import NODES, EnsuranceMeter
from slackwater.ensurance.usecases.budgeted_records import DecidedStep, budgeted
from slackwater.ensurance.usecases.cordon import Cordon, after_cycle, scheduling_event, state_of
from slackwater.ensurance.usecases.measure_effect import Effect, measure_effects
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.ensurance.usecases.pool_autonomy import standing_after, stepped_record
from slackwater.ensurance.usecases.report_view import partial_view, view_of
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import eviction_id
from slackwater.events.measures import Usage
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.controls import ENSURANCE
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.store.quarantine import OF_NO_ROW
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.spans import Attributes, sampled, span, trace_id_of
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Cycle, RecordedPlan
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import kind_of, record_of, release_records, remaining_milli, trigger_of
from slackwater.waterline.execution.executor import given_up
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.reversals import reversal_of
from slackwater.waterline.node_guard import GuardResult, concerned, fast_path, guard, is_released, release
from slackwater.waterline.rulebook import Rulebook

log = get_logger(__name__)
UNBOUNDED: Final = RecordBudget(2**53, 0)
DEFAULT_GRACE_SECONDS: Final = 30.0
"""Grace of an eviction whose action names none: the default of Kubernetes."""


@record(frozen=True, slots=True)
class _Answer:
    """The result of one report. `before` is the node before it."""

    before: GuardedNode
    after: GuardedNode
    decided: Sequence[DecidedStep] = ()
    effects: Sequence[Effect] = ()
    remaining_milli: int = 0
    standing: PoolStanding | None = None
    evicted: Sequence[EvictedPod] = ()
    repeated: Sequence[EvictedPod] = ()
    closing: Cordon | None = None
    """Set if the node is cordoned or uncordoned, or its cordon is renewed."""

    @property
    def is_written(self) -> bool:
        """Whether a row has to be written. Counters and the position of the last report alone are not written."""
        changed = self.after.generation != self.before.generation or self.after.awaited != self.before.awaited
        return changed or bool(self.decided) or self.after.closed != self.before.closed


@record(frozen=True, slots=True)
class _Ready:
    """An answer computed before the node was locked, with the other inputs that it depends on."""

    answer: _Answer
    at: datetime
    rules: Rulebook
    standing: PoolStanding

    def holds(self, book: GuardedNodeCache, guarded: GuardedNode) -> bool:
        """Whether the inputs are still the same after the node was locked."""
        return (
            self.answer.before is guarded and self.rules is book.rules and self.standing == book.standing(guarded.pool)
        )


class GuardNode:
    """See the module's docstring."""

    def __init__(
        self,
        book: GuardedNodeCache,
        meter: EnsuranceMeter,
        intents: GuardIntents,
        max_report_age_seconds: float,
        closing_seconds: float = VALID_SECONDS,
        budget: RecordBudget = UNBOUNDED,
    ) -> None:
        self._book = book
        self._clock = intents.clock
        self._meter = meter
        self._intents = intents
        self._max_report_age_seconds = max_report_age_seconds
        self._closing_seconds = closing_seconds
        self._budget = budget
        self._failed: dict[str, LastReport] = {}
        """By node, its last report if planning failed on it."""

    async def __call__(self, report: Event[UsageReported]) -> None:
        """Handle one report. If planning fails on two reports of a node in a row, the node is put in quarantine.

        Raises:
            Unavailable, Conflict: the decision could not be committed.
            InvalidInput: the report cannot be used, such as `implausible` for usage above the described capacity.
        """
        try:
            await self._handle(report)
        except (*OF_NO_ROW, InvalidInput):
            raise
        except Exception as error:
            log.exception("a report cannot be decided upon", node=report.data.node)
            if not self._fails_again(report):
                raise
            self._book.quarantine.note(NODES, report.data.node, error, node=report.data.node)
        else:
            self._failed.pop(report.data.node, None)

    def _fails_again(self, report: Event[UsageReported]) -> bool:
        """Whether the report before this one failed too, so that the cause is the node and not one report."""
        node, position = report.data.node, _position(report)
        before = self._failed.get(node)
        self._failed[node] = position
        return before is not None and before != position and self._book.node(node) is not None

    def _absent(self, report: Event[UsageReported]) -> str:
        """Why its node is not in the book."""
        if not self._book.quarantine.holds_node(report.data.node):
            return "unknown_node"
        self._book.quarantine.left_out(report.data.TYPE)
        return "quarantined"

    async def _handle(self, report: Event[UsageReported]) -> None:
        ready: _Ready | None = None
        if self._book.is_free(report.data.node):
            ready = self._ready(report)
            if ready is None:
                return
        async with self._book.lock(report.data.node):
            now = self._clock.now()
            guarded = self._book.node(report.data.node)
            why = self._absent(report) if guarded is None else self._outdated(guarded, report, now)
            if guarded is None or why is not None:
                self._meter.ignored(why or "")
                return
            _check_plausible(guarded, [report.data.node_usage])
            self._record_contact(guarded, report, now)
            if ready is not None and ready.holds(self._book, guarded):
                now, answer = ready.at, ready.answer
            else:
                answer = self._fast_answer(guarded, report, now) or self._answer(guarded, report, now)
            if answer.standing is not None:
                answer = await self._with_pool(answer, guarded, report)
            elif answer.is_written:
                answer = await self._commit(answer, report, now)
            self._book.put(answer.after)
        self._record_metrics(answer)

    async def _with_pool(self, answer: _Answer, guarded: GuardedNode, report: Event[UsageReported]) -> _Answer:
        """Commit under the lock of the pool. If another node held it, the pool's state may have changed: plan again."""
        pool = self._book.of_pool(guarded.pool)
        is_first = not pool.locked()
        async with pool:
            now = self._clock.now()
            current = answer if is_first else self._answer(guarded, report, now)
            return await self._commit(current, report, now) if current.is_written else current

    def _ready(self, report: Event[UsageReported]) -> _Ready | None:
        """Handle a report that needs no write without a lock, so that it waits for no transaction. Returns the answer
        of a report that needs one; None if the report is handled."""
        now, guarded = self._clock.now(), self._book.node(report.data.node)
        why = self._absent(report) if guarded is None else self._outdated(guarded, report, now)
        if guarded is None or why is not None:
            self._meter.ignored(why or "")
            return None
        _check_plausible(guarded, [report.data.node_usage])
        answer = self._fast_answer(guarded, report, now) or self._answer(guarded, report, now)
        if answer.is_written:
            return _Ready(answer, now, self._book.rules, self._book.standing(guarded.pool))
        self._record_contact(guarded, report, now)
        self._book.put(answer.after)
        self._record_metrics(answer)
        return None

    def _record_contact(self, guarded: GuardedNode, report: Event[UsageReported], now: datetime) -> None:
        self._book.contacts.report(
            guarded.node, now, disconnected=report.data.alone, follows=report.data.intent_declared_at
        )
        if report.data.alone:
            self._meter.ignored("alone")

    def _concerned(self, guarded: GuardedNode, report: Event[UsageReported], now: datetime) -> frozenset[str] | None:
        """Uids of the pods that the plan can concern. None: any pod, because a rule may trigger."""
        glimpse = partial_view(report.data, guarded)
        return concerned(glimpse, guarded.state, self._book.rules.policies, now, self._book.metrics)

    def _outdated(self, guarded: GuardedNode, report: Event[UsageReported], now: datetime) -> str | None:
        return outdated(guarded, _position(report), now, self._max_report_age_seconds)

    def _fast_answer(self, guarded: GuardedNode, report: Event[UsageReported], now: datetime) -> _Answer | None:
        """The answer without reading any pod, for almost every report: nothing is triggered, in force or awaited. A
        report of a disconnected agent is not planned either, because both would act on one surge (0045)."""
        if report.data.alone:
            return _Answer(guarded, replace(guarded, last_report=_position(report)))
        if guarded.awaited or guarded.evictions:
            return None
        state = fast_path(
            partial_view(report.data, guarded), guarded.state, self._book.rules.policies, now, self._book.metrics
        )
        if state is None:
            return None
        return _Answer(guarded, replace(guarded, state=state, last_report=_position(report)))

    def _answer(self, guarded: GuardedNode, report: Event[UsageReported], now: datetime) -> _Answer:
        rules, metrics = self._book.rules, self._book.metrics
        _check_plausible(guarded, [pod.usage for pod in report.data.pods])
        view = view_of(report.data, guarded, self._concerned(guarded, report, now))
        effects, measured = measure_effects(guarded, view, report, rules.loop.settle_seconds, now, metrics)
        standing = standing_after(self._book, guarded.pool, now, effects)
        options = self._book.options(guarded, now, standing=standing)
        measured = replace(measured, last_report=_position(report))
        state = state_of(guarded, now)
        source = DecisionContext(guarded.node, guarded.capacity_milli, state, rules, options, now, view, report.id)
        if is_released(guarded.state, options):
            return self._released(guarded, measured, source, report, effects, standing)
        made = guard(view, state, rules.policies, now, options, metrics)
        decided = [_decided(plan, made.cycle, source, report, guarded.generation) for plan in made.cycle.recorded]
        plans = zip(made.cycle.recorded, decided, strict=True)
        carried = [(plan, decision.record) for plan, decision in plans if plan.carried_out]
        evicted = tuple(one for plan, record in carried for one in _evictions(plan, record, options.limits, now))
        awaited = _awaited(made, decided, guarded.generation + 1, view, now)
        unanswered = given_up(guarded.state.cycle.executor, made.state.cycle.executor)
        left_alone = {one.uid for one in unanswered}
        after = carried_out(measured, made.state, _limited(made, decided), evicted, awaited, now, left_alone)
        closing = after_cycle(guarded.closed, made.cycle, source, self._closing_seconds)
        if closing.record is not None:
            decided.append(_traced(closing.record, report, guarded.generation))
        after = replace(after, closed=closing.closed)
        gone = _evicted_pods(report.data, evicted) if evicted else ()
        in_vain = [one.begun_at for one in unanswered if one.begun_at is not None]
        standing = standing_after(self._book, guarded.pool, now, effects, gone, in_vain)
        repeated, left = self._book.standing(guarded.pool).repeated(now, gone), remaining_milli(made.cycle)
        recorded, after = budgeted(guarded, after, decided, self._budget, now)
        return _Answer(guarded, after, recorded, effects, left, standing, gone, repeated, closing)

    def _released(
        self,
        before: GuardedNode,
        measured: GuardedNode,
        source: DecisionContext,
        report: Event[UsageReported],
        effects: Sequence[Effect],
        standing: PoolStanding | None,
    ) -> _Answer:
        """Restore every limit, because the mode no longer allows any."""
        plan, state = release(before.state, before.capacity_milli)
        made = [_traced(record, report, before.generation) for record in release_records(new_id, plan, source)]
        after = carried_out(measured, state, {}, (), (), source.now)
        decided, after = budgeted(before, after, made, self._budget, source.now)
        return _Answer(before, after, decided, effects, standing=standing)

    async def _commit(self, answer: _Answer, report: Event[UsageReported], now: datetime) -> _Answer:
        async with self._book.transaction() as unit:
            for effect in answer.effects:
                if effect.is_recorded:
                    await unit.publish(effect.event)
            cause: Event[Any] = report
            decision: Event[Any] = report
            for number, decided in enumerate(one for one in answer.decided if one.is_published):
                decision = decision_event(decided.record, decided.cause, ENSURANCE.name)
                await unit.publish(decision)
                cause = decision if number == 0 else cause
            if answer.after.generation != answer.before.generation:
                await unit.publish(self._intents.event(answer.after, now, cause))
            if answer.closing is not None and answer.closing.event is not None:
                await unit.publish(scheduling_event(answer.closing.event, now, decision))
            standing, stepped = answer.standing, None
            if standing is not None:
                stepped = stepped_record(self._book, standing, answer.after.node, now, report.id)
                if stepped is not None:
                    await unit.publish(decision_event(stepped, report, ENSURANCE.name))
                standing = await unit.save_autonomy(standing)
            saved = await unit.save(answer.after, last=True)
        if stepped is not None:
            self._meter.decided(stepped, None)
        if standing is not None:
            self._book.stands(standing)
            self._meter.stepped_back(len(self._book.stepped_back(now)))
        return replace(answer, after=saved)

    def _record_metrics(self, answer: _Answer) -> None:
        for effect in answer.effects:
            self._meter.effect(effect.event.data, effect.kind, effect.decision_age_seconds)
        for decided in answer.decided:
            age = decided.record.decided_at - decided.cause.data.sampled_at
            self._meter.decided(decided.record, age.total_seconds())
            self._meter.recorded(decided.form)
        self._record_reversal(answer)
        if answer.evicted:
            self._record_evictions(answer)
        recorded = bool(answer.before.state.cycle.loop.told), bool(answer.after.state.cycle.loop.told)
        if answer.decided or recorded[0] != recorded[1]:
            throttled = len(answer.after.state.limited)
            self._meter.standing(answer.after.node, throttled, answer.remaining_milli)

    def _record_reversal(self, answer: _Answer) -> None:
        before, after = answer.before.state.cycle.loop.damping, answer.after.state.cycle.loop.damping
        result = "" if before is after else reversal_of(before, after, self._book.rules.loop.damping)
        if not result:
            return
        self._meter.reversed(answer.after.pool, result)
        if result == "longest":
            log.warning("limits flap", node=answer.after.node, pool=answer.after.pool)

    def _record_evictions(self, answer: _Answer) -> None:
        node = answer.after
        self._meter.evictions_began(node.pool, len(answer.evicted), len(answer.repeated))
        for pod in answer.repeated:
            log.warning("evicted again", node=node.node, pool=node.pool, workload=pod.workload)


def _decided(
    plan: RecordedPlan, cycle: Cycle, source: DecisionContext, report: Event[UsageReported], generation: int
) -> DecidedStep:
    return _traced(record_of(new_id(), plan, cycle, source), report, generation)


def _limited(made: GuardResult, decided: Sequence[DecidedStep]) -> dict[str, str]:
    """Decision id of each pod whose limit changes, by `limit_key`."""
    return {
        limit_key(step.uid, of_memory=step.memory is not None): decision.record.id
        for recorded, decision in zip(made.cycle.recorded, decided, strict=True)
        if recorded.carried_out
        for step in recorded.plan.of(recorded.kind)
        if step.changes or step.memory is not None
    }


def _evictions(recorded: RecordedPlan, record: DecisionRecord, limits: ActionLimits, now: datetime) -> list[Evicting]:
    """The evictions of a decision: a plan that also sets limits has another decision for these. The agent starts each
    eviction before its deadline or not at all."""
    if recorded.kind is not ActionKind.EVICT:
        return []
    return [
        Evicting(
            id=eviction_id(record.id, number),
            pod_uid=step.uid,
            pod_name=step.name,
            grace_seconds=DEFAULT_GRACE_SECONDS if step.grace_seconds is None else float(step.grace_seconds),
            deadline=now + timedelta(seconds=limits.underway_seconds),
            reason=record.reason,
            decision_id=record.id,
            waits=False,
        )
        for number, step in enumerate(recorded.plan.of(ActionKind.EVICT), 1)
    ]


def _evicted_pods(report: UsageReported, evicted: Sequence[Evicting]) -> tuple[EvictedPod, ...]:
    uids = {eviction.pod_uid for eviction in evicted}
    return tuple(EvictedPod(use.pod.workload, use.pod.started_at) for use in report.pods if use.pod.uid in uids)


def _awaited(
    made: GuardResult, decided: Sequence[DecidedStep], generation: int, view: NodeReadings, now: datetime
) -> list[Awaited]:
    """Decisions that were carried out and whose effect a metric will show."""
    awaited = []
    for recorded, decision in zip(made.cycle.recorded, decided, strict=True):
        trigger = trigger_of(recorded, made.cycle)
        if recorded.carried_out and trigger is not None:
            awaited.append(
                Awaited(
                    decision.record.id,
                    generation,
                    trigger.metric,
                    trigger.reading,
                    trigger.waterline,
                    now,
                    sampled_at=view.sampled_at,
                    traceparent=decision.cause.traceparent,
                    kind=kind_of(recorded.kind),
                    selector=trigger.selector,
                    settle_seconds=settle_seconds_of(decision.record.subject),
                )
            )
    return awaited


def _traced(record: DecisionRecord, report: Event[UsageReported], generation: int) -> DecidedStep:
    """The decision in a span of its own. Decisions are few, so each is sampled, whether its report was or not."""
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
        cause = report.model_copy(update={"traceparent": step.traceparent})
    return DecidedStep(record.model_copy(update={"trace_id": trace_id_of(cause.traceparent)}), cause)


def _check_plausible(guarded: GuardedNode, usages: Sequence[Usage]) -> None:
    """Raises InvalidInput (`implausible`)."""
    for usage in usages:
        problem = implausible(guarded, Resources(usage.cpu_milli.max, usage.memory_bytes.max))
        if problem is not None:
            raise InvalidInput(f"usage of {guarded.node}: {problem}", code="implausible", field="node_usage")


def _position(report: Event[UsageReported]) -> LastReport:
    return LastReport(report.data.boot_epoch, report.data.sequence, report.data.sampled_at)

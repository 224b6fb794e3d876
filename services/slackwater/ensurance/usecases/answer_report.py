"""What a report of a node leads to: decisions, the node after them, its cordon and its pool. Depends on `ReportInputs`
alone, but for the ids and spans of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordBudget
from slackwater.ensurance.domain.node_state import (
    Awaited,
    Evicting,
    GuardedNode,
    LastReport,
    carried_out,
    implausible,
    limit_key,
    settle_seconds_of,
)
from slackwater.ensurance.domain.pools import EvictedPod, PoolStanding, mode_of, options_of
from slackwater.ensurance.usecases.budgeted_records import DecidedStep, budgeted
from slackwater.ensurance.usecases.cordon import Cordon, after_cycle, state_of
from slackwater.ensurance.usecases.measure_effect import Effect, measure_effects
from slackwater.ensurance.usecases.report_view import partial_view, view_of
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import eviction_id
from slackwater.events.measures import Usage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput
from slackwater.model.identifiers import new_id
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.telemetry.spans import Attributes, sampled, span, trace_id_of
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Cycle, Options
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import kind_of, record_of, release_records, remaining_milli, trigger_of
from slackwater.waterline.execution.executor import given_up
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.recorded_once import RecordedPlan
from slackwater.waterline.node_guard import GuardResult, concerned, fast_path, guard, is_released, release
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.rulebook import Rulebook

DEFAULT_GRACE_SECONDS: Final = 30.0
"""Grace of an eviction whose action names none: the default of Kubernetes."""


@record(frozen=True, slots=True)
class ReportInputs:
    """A report and what its answer depends on. `counts_are_lost`: the pool's row is in quarantine."""

    node: GuardedNode
    report: Event[UsageReported]
    rules: Rulebook
    standing: PoolStanding
    counts_are_lost: bool
    metrics: Metrics
    budget: RecordBudget
    cordon_seconds: float
    now: datetime

    def options(self, standing: PoolStanding) -> Options:
        policy = self.rules.autonomy_of(self.node.pool)
        mode = mode_of(standing, policy, self.now, counts_are_lost=self.counts_are_lost)
        return options_of(self.node, self.rules, mode)

    def standing_after(
        self,
        effects: Sequence[Effect],
        evicted: Sequence[EvictedPod] = (),
        in_vain: Sequence[datetime] = (),
    ) -> PoolStanding | None:
        """Returns the pool's state after these evictions, the measured effects of earlier ones, and those begun at the
        times `in_vain` that were not accepted. None: unchanged.
        """
        reliefs = tuple(effect.event.data.relieved for effect in effects if effect.counts_for_the_pool)
        if not evicted and not reliefs and not in_vain:
            return None
        policy = self.rules.autonomy_of(self.node.pool)
        return self.standing.without(in_vain).after(policy, self.now, evicted, reliefs)


@record(frozen=True, slots=True)
class ReportAnswer:
    """The result of one report. `before` is the node before it."""

    before: GuardedNode
    after: GuardedNode
    decided: Sequence[DecidedStep] = ()
    effects: Sequence[Effect] = ()
    remaining_milli: int = 0
    standing: PoolStanding | None = None
    evicted: Sequence[EvictedPod] = ()
    repeated: Sequence[EvictedPod] = ()
    cordon: Cordon | None = None
    """Set if the node is cordoned or uncordoned, or its cordon is renewed."""

    @property
    def is_written(self) -> bool:
        """Whether a row has to be written. Counters and the position of the last report alone are not written."""
        changed = self.after.generation != self.before.generation or self.after.awaited != self.before.awaited
        return changed or bool(self.decided) or self.after.closed != self.before.closed


def answer_report(inputs: ReportInputs) -> ReportAnswer:
    """Returns the answer to a report. Raises InvalidInput (`implausible`) for usage above the described capacity."""
    _check_plausible(inputs.node, [inputs.report.data.node_usage])
    return _without_pods(inputs) or _with_pods(inputs)


def _without_pods(inputs: ReportInputs) -> ReportAnswer | None:
    """The answer without reading any pod, for almost every report: nothing is triggered, in force or awaited. A
    report of a disconnected agent is not planned either, because both would act on one surge (0045).
    """
    node, report = inputs.node, inputs.report
    if report.data.alone:
        return ReportAnswer(node, replace(node, last_report=position_of(report)))
    if node.awaited or node.evictions:
        return None
    view, policies = partial_view(report.data, node), inputs.rules.policies
    state = fast_path(view, node.state, policies, inputs.now, inputs.metrics)
    if state is None:
        return None
    return ReportAnswer(node, replace(node, state=state, last_report=position_of(report)))


def _with_pods(inputs: ReportInputs) -> ReportAnswer:
    node, report, rules, now = inputs.node, inputs.report, inputs.rules, inputs.now
    _check_plausible(node, [pod.usage for pod in report.data.pods])
    view = view_of(report.data, node, _concerned(inputs))
    effects, measured = measure_effects(node, view, report, rules.loop.settle_seconds, now, inputs.metrics)
    measured = replace(measured, last_report=position_of(report))
    standing = inputs.standing_after(effects)
    options = inputs.options(standing or inputs.standing)
    state = state_of(node, now)
    source = DecisionContext(node.node, node.capacity_milli, state, rules, options, now, view, report.id)
    if is_released(node.state, options):
        return _released(inputs, measured, source, effects, standing)
    return _guarded(inputs, measured, view, source, effects)


def _guarded(
    inputs: ReportInputs, measured: GuardedNode, view: NodeReadings, source: DecisionContext, effects: Sequence[Effect]
) -> ReportAnswer:
    """Runs the cycle, and turns its plans into limits, evictions, awaited effects and the cordon."""
    node, report, now = inputs.node, inputs.report, inputs.now
    result = guard(view, source.state, inputs.rules.policies, now, source.options, inputs.metrics)
    cycle = result.cycle
    steps = [_decided(plan, cycle, source, report, node.generation) for plan in cycle.recorded]
    evictions = tuple(
        eviction
        for plan, step in zip(cycle.recorded, steps, strict=True)
        if plan.carried_out
        for eviction in _evictions(plan, step.record, source.options.limits, now)
    )
    awaited = _awaited(result, steps, node.generation + 1, view, now)
    unanswered = given_up(node.state.cycle.executor, result.state.cycle.executor)
    unanswered_uids = {eviction.uid for eviction in unanswered}
    limits = _limited(result, steps)
    after = carried_out(measured, result.state, limits, evictions, awaited, now, unanswered_uids)
    cordon = after_cycle(node.closed, cycle, source, inputs.cordon_seconds)
    if cordon.record is not None:
        steps.append(_traced(cordon.record, report, node.generation))
    evicted = _evicted_pods(report.data, evictions) if evictions else ()
    in_vain = [eviction.begun_at for eviction in unanswered if eviction.begun_at is not None]
    decided, after = budgeted(node, replace(after, closed=cordon.closed), steps, inputs.budget, now)
    return ReportAnswer(
        node,
        after,
        decided,
        effects,
        remaining_milli(cycle),
        standing=inputs.standing_after(effects, evicted, in_vain),
        evicted=evicted,
        repeated=inputs.standing.repeated(now, evicted),
        cordon=cordon,
    )


def _released(
    inputs: ReportInputs,
    measured: GuardedNode,
    source: DecisionContext,
    effects: Sequence[Effect],
    standing: PoolStanding | None,
) -> ReportAnswer:
    """Restores every limit, because the mode no longer allows any."""
    node = inputs.node
    plan, state = release(node.state, node.capacity_milli)
    steps = [_traced(record, inputs.report, node.generation) for record in release_records(new_id, plan, source)]
    after = carried_out(measured, state, {}, (), (), source.now)
    decided, after = budgeted(node, after, steps, inputs.budget, source.now)
    return ReportAnswer(node, after, decided, effects, standing=standing)


def _concerned(inputs: ReportInputs) -> frozenset[str] | None:
    """Uids of the pods that the plan can concern. None: any pod, because a rule may trigger."""
    glimpse = partial_view(inputs.report.data, inputs.node)
    return concerned(glimpse, inputs.node.state, inputs.rules.policies, inputs.now, inputs.metrics)


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


def position_of(report: Event[UsageReported]) -> LastReport:
    return LastReport(report.data.boot_epoch, report.data.sequence, report.data.sampled_at)

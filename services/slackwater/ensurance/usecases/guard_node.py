"""On usage.reported: answer it; if there is something to do, record it and declare the new intent in one transaction.

An urgent report arrives twice, as usage.reported and as waterline.crossed, in any order. The first is handled; a report
whose number was seen causes no action again. The number is stored in the node's row, so a new owner, or a process that
reads again after a lost commit, sees it too, and no inbox is needed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from slackwater.decisions.record_budget import RecordBudget
from slackwater.ensurance.domain.node_state import VALID_SECONDS, LastReport, outdated
from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.ports import NODES
from slackwater.ensurance.usecases.answer_report import ReportAnswer, ReportInputs, answer_report, position_of
from slackwater.ensurance.usecases.cordon import scheduling_event
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache, GuardIntents
from slackwater.ensurance.usecases.pool_autonomy import stepped_record
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import Event
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.controls import ENSURANCE
from slackwater.model.errors import InvalidInput
from slackwater.model.records import record
from slackwater.store.quarantine import OF_NO_ROW
from slackwater.telemetry.logs import get_logger
from slackwater.waterline.loop.reversals import reversal_of

log = get_logger(__name__)
UNBOUNDED: Final = RecordBudget(2**53, 0)


@record(frozen=True, slots=True)
class _Ready:
    """An answer computed before the node was locked."""

    inputs: ReportInputs
    answer: ReportAnswer

    def holds(self, inputs: ReportInputs) -> bool:
        """Whether the inputs are still the same after the node was locked."""
        own = self.inputs
        return own.node is inputs.node and own.rules is inputs.rules and own.standing == inputs.standing


class GuardNode:
    """See the module's docstring."""

    def __init__(
        self,
        cache: GuardedNodeCache,
        meter: EnsuranceMetrics,
        intents: GuardIntents,
        max_report_age_seconds: float,
        closing_seconds: float = VALID_SECONDS,
        budget: RecordBudget = UNBOUNDED,
    ) -> None:
        self._cache = cache
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
            self._cache.quarantine.note(NODES, report.data.node, error, node=report.data.node)
        else:
            self._failed.pop(report.data.node, None)

    def _fails_again(self, report: Event[UsageReported]) -> bool:
        """Whether the report before this one failed too, so that the cause is the node and not one report."""
        node, position = report.data.node, position_of(report)
        before = self._failed.get(node)
        self._failed[node] = position
        return before is not None and before != position and self._cache.node(node) is not None

    def _absent(self, report: Event[UsageReported]) -> str:
        """Why its node is not in the cache."""
        if not self._cache.quarantine.holds_node(report.data.node):
            return "unknown_node"
        self._cache.quarantine.left_out(report.data.TYPE)
        return "quarantined"

    async def _handle(self, report: Event[UsageReported]) -> None:
        """A report that needs no write is handled without a lock, so that it waits for no transaction."""
        ready: _Ready | None = None
        if self._cache.is_free(report.data.node):
            inputs = self._inputs(report)
            if inputs is None:
                return
            ready = _Ready(inputs, answer_report(inputs))
            if not ready.answer.is_written:
                self._record_contact(inputs)
                self._cache.put(ready.answer.after)
                self._record_metrics(ready.answer)
                return
        async with self._cache.lock(report.data.node):
            inputs = self._inputs(report)
            if inputs is None:
                return
            if ready is not None and ready.holds(inputs):
                inputs, answer = ready.inputs, ready.answer
            else:
                answer = answer_report(inputs)
            self._record_contact(inputs)
            if answer.standing is not None:
                answer = await self._with_pool(answer, inputs)
            elif answer.is_written:
                answer = await self._commit(answer, report, inputs.now)
            self._cache.put(answer.after)
        self._record_metrics(answer)

    def _inputs(self, report: Event[UsageReported]) -> ReportInputs | None:
        """What the answer depends on now; None for a report that is ignored, which is counted."""
        now, node = self._clock.now(), self._cache.node(report.data.node)
        if node is None:
            self._meter.ignored(self._absent(report))
            return None
        if (why := outdated(node, position_of(report), now, self._max_report_age_seconds)) is not None:
            self._meter.ignored(why)
            return None
        return ReportInputs(
            node,
            report,
            self._cache.rules,
            self._cache.standing(node.pool),
            self._cache.counts_are_lost(node.pool),
            self._cache.metrics,
            self._budget,
            self._closing_seconds,
            now,
        )

    async def _with_pool(self, answer: ReportAnswer, inputs: ReportInputs) -> ReportAnswer:
        """Commit under the lock of the pool. If another node held it, the pool's state may have changed: plan again."""
        pool = self._cache.of_pool(inputs.node.pool)
        is_first = not pool.locked()
        async with pool:
            now = self._clock.now()
            if not is_first:
                answer = answer_report(replace(inputs, standing=self._cache.standing(inputs.node.pool), now=now))
            return await self._commit(answer, inputs.report, now) if answer.is_written else answer

    def _record_contact(self, inputs: ReportInputs) -> None:
        report = inputs.report.data
        self._cache.contacts.report(
            inputs.node.node, inputs.now, disconnected=report.alone, follows=report.intent_declared_at
        )
        if report.alone:
            self._meter.ignored("alone")

    async def _commit(self, answer: ReportAnswer, report: Event[UsageReported], now: datetime) -> ReportAnswer:
        async with self._cache.transaction() as unit:
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
            if answer.cordon is not None and answer.cordon.event is not None:
                await unit.publish(scheduling_event(answer.cordon.event, now, decision))
            standing, stepped = answer.standing, None
            if standing is not None:
                stepped = stepped_record(self._cache, standing, answer.after.node, now, report.id)
                if stepped is not None:
                    await unit.publish(decision_event(stepped, report, ENSURANCE.name))
                standing = await unit.save_autonomy(standing)
            saved = await unit.save(answer.after, last=True)
        if stepped is not None:
            self._meter.decided(stepped, None)
        if standing is not None:
            self._cache.stands(standing)
            self._meter.stepped_back(len(self._cache.stepped_back(now)))
        return replace(answer, after=saved)

    def _record_metrics(self, answer: ReportAnswer) -> None:
        for effect in answer.effects:
            self._meter.effect(effect.event.data, effect.kind, effect.decision_age_seconds)
        for decided in answer.decided:
            age = decided.record.decided_at - decided.cause.data.sampled_at
            self._meter.decided(decided.record, age.total_seconds())
            self._meter.recorded(decided.form)
        self._record_reversal(answer)
        if answer.evicted:
            self._record_evictions(answer)
        recorded = bool(answer.before.state.cycle.loop.recorded), bool(answer.after.state.cycle.loop.recorded)
        if answer.decided or recorded[0] != recorded[1]:
            throttled = len(answer.after.state.limited)
            self._meter.standing(answer.after.node, throttled, answer.remaining_milli)

    def _record_reversal(self, answer: ReportAnswer) -> None:
        before, after = answer.before.state.cycle.loop.damping, answer.after.state.cycle.loop.damping
        result = "" if before is after else reversal_of(before, after, self._cache.rules.loop.damping)
        if not result:
            return
        self._meter.reversed(answer.after.pool, result)
        if result == "longest":
            log.warning("limits flap", node=answer.after.node, pool=answer.after.pool)

    def _record_evictions(self, answer: ReportAnswer) -> None:
        node = answer.after
        self._meter.evictions_began(node.pool, len(answer.evicted), len(answer.repeated))
        for pod in answer.repeated:
            log.warning("evicted again", node=node.node, pool=node.pool, workload=pod.workload)

"""Guards one disconnected machine: ensurance's planner with ensurance's last rules.

It begins from the limits in force and ends with the first newer document or lease renewal. Its decisions are published
when the bus is back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.disconnected import LimitDecisions, Machine, desired_state, fading, inherited
from slackwater.agent.domain.evictions import EvictionRequest
from slackwater.agent.domain.limits import Limits, ReadLimits, at_most
from slackwater.agent.domain.observation import Instant
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.agent.usecases.held_documents import HeldDocument
from slackwater.decisions.reasons import Mode
from slackwater.decisions.record import DecisionRecord
from slackwater.decisions.record_budget import RecordAccount, RecordBudget, recorded
from slackwater.events.codec.packed import unpack
from slackwater.events.decision_recorded import stream_bytes
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import AGENT_WRITER, MOST_RULES_BYTES, eviction_id
from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.identifiers import new_id
from slackwater.model.pods import Pod
from slackwater.model.time import Clock
from slackwater.waterline import rules_codec
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Options
from slackwater.waterline.decision_inputs import DecisionContext
from slackwater.waterline.decision_record import record_of
from slackwater.waterline.execution.limits import AFTER_GRACE_SECONDS
from slackwater.waterline.execution.plan import Underway
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.recorded_once import RecordedPlan
from slackwater.waterline.node_guard import (
    GuardResult,
    GuardState,
    confirmed,
    eviction_failed,
    guard,
    memory_refused,
    refused,
    without,
)
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.registry.metric import Metrics
from slackwater.waterline.registry.plugins import all_metrics
from slackwater.waterline.rulebook import Rulebook

GRACE_SECONDS = 30.0
DEADLINE_SECONDS = 120.0
NO_PODS: Mapping[str, datetime] = MappingProxyType({})
GONE = frozenset({"terminated", "killed", "already_gone"})


@dataclass(slots=True)
class DisconnectedGuard:
    """One stretch of disconnected mode."""

    held: HeldDocument
    machine: Machine
    converge: ConvergeToIntents
    clock: Clock
    policies: Policies
    options: Options
    metrics: Metrics
    state: GuardState
    evict: Callable[[Sequence[EvictionRequest]], object]
    """Begins evictions; called before any other step, which may wait for a slow disk."""
    decisions: LimitDecisions = field(default_factory=LimitDecisions)
    evictions: list[EvictionRequest] = field(default_factory=list)

    @property
    def is_in_episode(self) -> bool:
        """Whether a limit is in force, an eviction is under way, or a decision would be recorded only once."""
        return bool(self.state.throttles or self.state.memory or self.evictions or self.state.cycle.loop.recorded)

    def tick(self, instant: Instant, pods: Sequence[Pod], leaving: Collection[str] = ()) -> list[DecisionRecord]:
        """Decide on one sample and carry it out; returns the decisions to publish. `leaving` are the uids of pods that
        are being evicted."""
        now = self.clock.now()
        view, made = self._plan(instant, pods, leaving, now)
        source = DecisionContext(
            view.node, view.capacity_milli or 0, self.state, _book(self.policies), self.options, now, view,
            self.held.event.id, AGENT_WRITER,
        )  # fmt: skip
        recorded = [(one, record_of(new_id(), one, made.cycle, source)) for one in made.cycle.recorded]
        self._note(made, recorded)
        self.evict(self.evictions)
        if made.cycle.plan.steps or made.forgotten:
            self._carry_out(pods)
        return [record for _, record in recorded]

    def would_evict(self, instant: Instant, pods: Sequence[Pod], leaving: Collection[str] = ()) -> bool:
        """Whether `tick` would evict now. Nothing is carried out; the rules count the sample."""
        _, made = self._plan(instant, pods, leaving, self.clock.now())
        cycle = replace(self.state.cycle, analyzer=made.state.cycle.analyzer)
        self.state = replace(self.state, cycle=cycle)
        return any(plan.carried_out and plan.kind is ActionKind.EVICT for plan in made.cycle.recorded)

    def _plan(
        self, instant: Instant, pods: Sequence[Pod], leaving: Collection[str], now: datetime
    ) -> tuple[NodeReadings, GuardResult]:
        limits, memory_limits = _limits(self.converge, pods)
        weights = self.converge.weights_in_force()
        view = self.machine.view(instant, now, pods, limits, self.state, leaving, memory_limits, weights)
        return view, guard(view, self.state, self.policies, now, self.options, self.metrics)

    def ended(self, completion: EvictionCompleted) -> None:
        """An eviction has ended; one that failed is planned again."""
        own = [eviction for eviction in self.evictions if eviction.id == completion.id]
        if not own:
            return
        self.evictions = [eviction for eviction in self.evictions if eviction.id != completion.id]
        if completion.outcome in GONE:
            self.state = without(self.state, completion.pod_uid)
            return
        why = f"its eviction was {completion.outcome}"
        self.state = eviction_failed(self.state, completion.pod_uid, why, self.clock.now(), self.options.limits)

    def end(self) -> None:
        """Ensurance is back: its documents count from now on, and the limits decided here rise step by step."""
        if self.converge.own is not None:
            self.converge.own = fading(self.converge.own, self.clock.monotonic())

    def _note(self, made: GuardResult, recorded: Sequence[tuple[RecordedPlan, DecisionRecord]]) -> None:
        self.state = made.state
        for plan, record in recorded:
            if not plan.carried_out:
                continue
            self.decisions.note(plan.kind, [step.uid for step in plan.plan.of(plan.kind)], record.id)
            if plan.kind is ActionKind.EVICT:
                self._begin(plan, record)

    def _begin(self, recorded: RecordedPlan, record: DecisionRecord) -> None:
        deadline = self.clock.now() + timedelta(seconds=DEADLINE_SECONDS)
        for number, step in enumerate(recorded.plan.of(ActionKind.EVICT), 1):
            grace = GRACE_SECONDS if step.grace_seconds is None else float(step.grace_seconds)
            self.evictions.append(
                EvictionRequest(
                    eviction_id(record.id, number), step.uid, AGENT_WRITER, grace, deadline, record.id, record.reason,
                    self.held.event.id,
                )
            )  # fmt: skip

    def _carry_out(self, pods: Sequence[Pod]) -> None:
        """Write in the same turn: steps are confirmed when done, and refusals change the state at once."""
        self.converge.own = self.desired()
        failed = self.converge.settle(pods)
        now = self.clock.now()
        self.state = confirmed(self.state, now)
        for uid, in_force in failed.cpu.items():
            if self.state.limit_of(uid) is not None:
                self.state = refused(self.state, uid, in_force, now, self.options.limits)
        for uid in failed.memory.keys() & self.state.memory_by_uid().keys():
            self.state = memory_refused(self.state, uid, failed.memory[uid], now, self.options.limits)
        if failed.cpu or failed.memory:
            self.converge.own = self.desired()

    def desired(self) -> DesiredState:
        return desired_state(self.state, self.decisions, self.held.desired, self.clock.monotonic())


@dataclass(slots=True)
class DisconnectedRecords:
    """Puts the decisions under a budget of records, as ensurance does with its own. All stretches since the start share
    one account: a node that loses its connection again and again has one burst."""

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


def begin(
    held: HeldDocument,
    machine: Machine,
    converge: ConvergeToIntents,
    clock: Clock,
    pods: Sequence[Pod],
    evict: Callable[[Sequence[EvictionRequest]], object],
    leaving: Mapping[str, datetime] = NO_PODS,
    begun_at: Iterable[datetime] = (),
    *,
    evicts: bool = True,
) -> DisconnectedGuard:
    """Start from the limits in force. `leaving` are pods that are being evicted, with the end of
    their grace period; `begun_at` are the starts of this node's evictions in the last hour. Unless `evicts`, evictions
    are only previewed, as where the pool's autonomy ends with throttling: what this agent decides reaches nothing that
    would carry them out. Raises ValueError for rules that this version cannot read."""
    policies, options = rules_codec.decode_rules(unpack(held.event.data.rules, MOST_RULES_BYTES, MOST_RULES_BYTES))
    if not evicts and options.mode is Mode.EVICT:
        options = replace(options, mode=Mode.THROTTLE)
    usual, after_grace = timedelta(seconds=options.limits.underway_seconds), timedelta(seconds=AFTER_GRACE_SECONDS)
    going = [Underway(uid, max(clock.now() + usual, over + after_grace)) for uid, over in sorted(leaving.items())]
    limits, memory_limits = _limits(converge, pods)
    state = inherited(held.desired, pods, limits.known, clock.now(), going, begun_at, memory_limits)
    decisions = LimitDecisions.of(held.desired)
    return DisconnectedGuard(held, machine, converge, clock, policies, options, all_metrics(), state, evict, decisions)


def _limits(converge: ConvergeToIntents, pods: Sequence[Pod]) -> tuple[ReadLimits, Limits]:
    limits = converge.limits(pods)
    known = at_most(limits.known, MOST_CPU_MILLI)
    return replace(limits, known=known), at_most(converge.memory_limits(pods), MOST_MEMORY_BYTES)


def _book(policies: Policies) -> Rulebook:
    return Rulebook("intent of ensurance", policies)

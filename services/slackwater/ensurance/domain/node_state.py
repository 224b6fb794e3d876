"""Ensurance's stored state of one node, with its cordon as last published, and their transitions.

A cordon expires at `until`. While the node reports and its rules still trigger, it is renewed when half of its time is
over. It ends without any process running.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record_budget import RecordAccount
from slackwater.model.bounds import MOST_MEMORY_BYTES
from slackwater.model.plausibility import implausible_usage
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline import node_guard
from slackwater.waterline.analysis.scheduling import Scheduling, reopened
from slackwater.waterline.execution.limits import AFTER_GRACE_SECONDS, ActionLimits
from slackwater.waterline.loop.applied_limits import Throttled
from slackwater.waterline.loop.applied_memory import MemoryThrottled
from slackwater.waterline.node_guard import GuardState

VALID_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class CordonNotice:
    """A published cordon: its decision, rules, start and expiry."""

    decision_id: str
    reason: str
    since: datetime
    rules: tuple[str, ...]
    until: datetime


class CordonMessage(StrEnum):
    """What has to be published."""

    CLOSED = "closed"
    STILL = "still"
    OPENED = "opened"


def lapsed(notice: CordonNotice | None, now: datetime) -> bool:
    """Whether the cordon has expired: other services then treat the node as schedulable."""
    return notice is not None and now > notice.until


def as_others_see_it(scheduling: Scheduling, notice: CordonNotice | None, now: datetime) -> Scheduling:
    """The state that the next cycle starts with. An expired cordon is over, and only a new trigger cordons again."""
    return reopened(scheduling) if lapsed(notice, now) else scheduling


def cordon_message(
    scheduling: Scheduling, notice: CordonNotice | None, now: datetime, valid_seconds: float
) -> CordonMessage | None:
    """What has to be published about the state after a cycle; None: nothing has changed."""
    if not scheduling.is_disabled:
        return None if notice is None else CordonMessage.OPENED
    if notice is None or lapsed(notice, now):
        return CordonMessage.CLOSED
    due = now >= notice.until - timedelta(seconds=valid_seconds / 2)
    return CordonMessage.STILL if due or notice.rules != scheduling.because else None


def renewed(notice: CordonNotice, scheduling: Scheduling, now: datetime, valid_seconds: float) -> CordonNotice:
    """The same cordon with a new expiry and the rules that keep it now."""
    return replace(notice, rules=scheduling.because, until=now + timedelta(seconds=valid_seconds))


AWAITED_SECONDS: Final = 60.0
"""An effect that was not measured within this time is given up, because the situation has changed."""
MEMORY_SETTLE_SECONDS: Final = 5.0
"""Page cache is dropped and read again slowly, so the effect of a memory limit is measured later."""
EVICTION_AWAITED_SECONDS: Final = 300.0
"""The same for an eviction, after its pods have ended."""
FORGET_EVICTION: Final = timedelta(minutes=5)
"""An eviction without an answer leaves the intent so long after its deadline, or after its grace if that is longer."""


@record(frozen=True, slots=True)
class LastReport:
    """The newest report of a node. Older reports cause no action."""

    boot_epoch: str
    sequence: int
    sampled_at: datetime


@record(frozen=True, slots=True)
class Awaited:
    """A decision that was carried out by `generation` and whose effect is still to be measured."""

    decision_id: str
    generation: int
    metric: str
    before: float
    waterline: float
    decided_at: datetime
    actuated_at: datetime | None = None
    sampled_at: datetime | None = None
    """Time of the sample that led to the decision."""
    traceparent: str | None = None
    """The span that decided; the effect belongs to its trace."""
    kind: str = DecisionKind.THROTTLE
    selector: LabelSelector | None = None
    """The series that the rule selects; None: all."""
    is_recorded: bool = True
    """Whether the decision has a record; without one its effect is counted and not published."""
    settle_seconds: float = 0.0
    """The least time between actuation and the sample that shows the effect."""
    has_ended_any: bool = False
    """For evictions: one of them has ended its pod, so that an effect is measured when the last one is answered."""
    has_expired_any: bool = False
    """For evictions: one of them was refused, by a disruption budget for example, or held until its deadline. Relief
    then counts for the pool's guard, and its absence does not: less was released than was decided."""

    @property
    def sample_age_seconds(self) -> float:
        """Age of the sample at the decision; 0 if unknown."""
        return 0.0 if self.sampled_at is None else (self.decided_at - self.sampled_at).total_seconds()


@record(frozen=True, slots=True)
class Evicting:
    """An eviction that was declared and is not answered. `waits`: as in slackwater.events.intent_declared.Eviction."""

    id: str
    pod_uid: str
    pod_name: str
    grace_seconds: float
    deadline: datetime
    reason: str
    decision_id: str
    waits: bool = True

    @property
    def forgotten_at(self) -> datetime:
        """When an answer is no longer awaited. An eviction may start at its deadline, and then take its grace."""
        ends = timedelta(seconds=self.grace_seconds + AFTER_GRACE_SECONDS)
        return self.deadline + max(ends, FORGET_EVICTION)


def settle_seconds_of(subject: str) -> float:
    """The least time between the actuation of a decision and the sample that shows its effect."""
    return MEMORY_SETTLE_SECONDS if subject == "memory" else 0.0


def limit_key(uid: str, *, of_memory: bool) -> str:
    """The key of a pod's CPU or memory limit in `GuardedNode.decisions`: the uid alone for CPU."""
    return f"{uid}/memory" if of_memory else uid


def _limit_keys(state: GuardState) -> set[str]:
    memory = {limit_key(one.uid, of_memory=True) for one in state.memory}
    return {throttle.uid for throttle in state.throttles} | memory


def _limits_differ(state: GuardState, other: GuardState) -> bool:
    return state.throttles != other.throttles or state.memory != other.memory


@record(frozen=True, slots=True)
class GuardedNode:
    """One node. `generation` is that of its intent document (0 = never declared); `version` counts writes of the row;
    `policy_generation` is that of the policy it was last declared under (0 = before this was noted).

    `decisions` maps the limits in force (`limit_key`) to the decisions that set them. `pool`, `labels` and
    `capacity_bytes` are as the node was described, and empty in rows from before they were stored. `closed` is the
    cordon as last published; None: the node is schedulable. `described_at` is the time of its newest description.
    `shows_evictions`: the API server evicts its pods, and its reports show which of them terminate.
    """

    node: str
    capacity_milli: int
    version: int = 0
    generation: int = 0
    state: GuardState = field(default_factory=GuardState)
    decisions: tuple[tuple[str, str], ...] = ()
    awaited: tuple[Awaited, ...] = ()
    last_report: LastReport | None = None
    policy_generation: int = 0
    evictions: tuple[Evicting, ...] = ()
    pool: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity_bytes: int | None = None
    closed: CordonNotice | None = None
    records: RecordAccount = field(default_factory=RecordAccount)
    described_at: datetime | None = None
    shows_evictions: bool = False

    @property
    def is_in_episode(self) -> bool:
        """Whether a limit is in force, an eviction is under way, or a decision would be recorded only once."""
        return bool(self.state.throttles or self.state.memory or self.evictions or self.state.cycle.loop.recorded)

    def memory_limits(self) -> tuple[tuple[MemoryThrottled, str], ...]:
        """Each memory limit in force with its decision, sorted by pod uid."""
        decisions = dict(self.decisions)
        held = sorted(self.state.memory, key=lambda one: one.uid)
        return tuple((one, decisions.get(limit_key(one.uid, of_memory=True), "")) for one in held)

    def limits(self) -> tuple[tuple[Throttled, str], ...]:
        """Each CPU limit in force with its decision, sorted by pod uid."""
        decisions = dict(self.decisions)
        return tuple((t, decisions.get(t.uid, "")) for t in sorted(self.state.throttles, key=lambda t: t.uid))


def outdated(guarded: GuardedNode, report: LastReport, now: datetime, max_age_seconds: float) -> str | None:
    """Why a report must not cause action, or None. A new boot epoch starts a new sequence.

    `known` is the report that was handled last: a redelivery, or the same report from the other stream.
    """
    age = (now - report.sampled_at).total_seconds()
    if age > max_age_seconds:
        return "too_old"
    if age < -max_age_seconds:
        return "from_the_future"
    last = guarded.last_report
    if last is None:
        return None
    if (report.boot_epoch, report.sequence) == (last.boot_epoch, last.sequence):
        return "known"
    newer = (
        report.sequence > last.sequence if report.boot_epoch == last.boot_epoch else report.sampled_at > last.sampled_at
    )
    return None if newer else "replayed"


def implausible(guarded: GuardedNode, usage: Resources) -> str | None:
    """Why usage is impossible for the described capacity, or None."""
    return implausible_usage(usage, Resources(guarded.capacity_milli, guarded.capacity_bytes or MOST_MEMORY_BYTES))


def carried_out(
    guarded: GuardedNode,
    state: GuardState,
    decided: Mapping[str, str],
    evictions: Iterable[Evicting],
    awaited: Iterable[Awaited],
    now: datetime,
    withdrawn: Collection[str] = (),
) -> GuardedNode:
    """The node after a recorded plan. `decided` maps pods whose limit changed to the decision. A change of limits or
    evictions makes a new generation. Evictions that were never answered are dropped, and those of the pods `withdrawn`
    that would not wait."""
    begun = tuple(evictions)
    kept = tuple(
        eviction
        for eviction in guarded.evictions
        if now < eviction.forgotten_at and (eviction.waits or eviction.pod_uid not in withdrawn)
    )
    changed = _limits_differ(state, guarded.state) or bool(begun) or kept != guarded.evictions
    decisions = dict(guarded.decisions) | dict(decided)
    in_force = _limit_keys(state)
    return replace(
        guarded,
        generation=guarded.generation + changed,
        state=state,
        decisions=tuple(sorted((key, decision) for key, decision in decisions.items() if key in in_force)),
        awaited=(*guarded.awaited, *awaited),
        evictions=(*kept, *begun),
    )


def observed(
    guarded: GuardedNode,
    generation: int,
    observed_at: datetime,
    failures: tuple[tuple[str, int | None], ...],
    now: datetime,
    limits: ActionLimits,
    memory_failures: tuple[tuple[str, int | None], ...] = (),
    *,
    unread: Collection[str] = (),
    memory_unread: Collection[str] = (),
) -> GuardedNode:
    """The node after its agent has converged to `generation`. Failures are pods whose limit of CPU or memory could not
    be written, with the limit in force: they leave the list (or keep that limit), which makes a new generation. Those
    of `unread` could not be read back and keep theirs. An answer to an older generation changes no limit."""
    awaited = tuple(
        replace(one, actuated_at=observed_at)
        if one.actuated_at is None and one.generation <= generation and one.kind != DecisionKind.EVICT
        else one
        for one in guarded.awaited
    )
    if generation < guarded.generation:
        return replace(guarded, awaited=awaited)
    state = node_guard.confirmed(guarded.state, observed_at)
    for uid, in_force_milli in failures:
        before_milli = state.limit_of(uid)
        if before_milli is not None:
            kept_milli = before_milli if uid in unread else in_force_milli
            state = node_guard.refused(state, uid, kept_milli, now, limits)
    held = state.memory_by_uid()
    for uid, in_force_bytes in memory_failures:
        if uid in held:
            kept_bytes = held[uid].high_bytes if uid in memory_unread else in_force_bytes
            state = node_guard.memory_refused(state, uid, kept_bytes, now, limits)
    changed = _limits_differ(state, guarded.state)
    kept = _limit_keys(state)
    return replace(
        guarded,
        generation=guarded.generation + changed,
        state=state,
        awaited=awaited,
        decisions=tuple(pair for pair in guarded.decisions if pair[0] in kept),
    )


def ended(
    guarded: GuardedNode, eviction_id: str, uid: str, at: datetime, *, gone: bool, expired: bool = False
) -> GuardedNode:
    """The node after an eviction of any writer is completed. Its item leaves the intent; if the pod is gone, so does
    its limit. The effect of a decision is measured when none of its evictions is left, if one of them ended a pod."""
    own = next((eviction for eviction in guarded.evictions if eviction.id == eviction_id), None)
    left = tuple(eviction for eviction in guarded.evictions if eviction.id != eviction_id)
    state = node_guard.without(guarded.state, uid) if gone else guarded.state
    changed = left != guarded.evictions or _limits_differ(state, guarded.state)
    if not changed:
        return guarded
    awaited = guarded.awaited if own is None else _answered(guarded.awaited, own, left, at, gone=gone, expired=expired)
    return replace(
        guarded,
        generation=guarded.generation + 1,
        state=state,
        awaited=awaited,
        evictions=left,
        decisions=tuple(pair for pair in guarded.decisions if not gone or pair[0] in _limit_keys(state)),
    )


def _answered(
    awaited: Iterable[Awaited], own: Evicting, left: Iterable[Evicting], at: datetime, *, gone: bool, expired: bool
) -> tuple[Awaited, ...]:
    is_last = all(eviction.decision_id != own.decision_id for eviction in left)
    updated = []
    for decision in awaited:
        if decision.decision_id != own.decision_id:
            updated.append(decision)
        elif decision.has_ended_any or gone or not is_last:
            updated.append(
                replace(
                    decision,
                    has_ended_any=decision.has_ended_any or gone,
                    has_expired_any=decision.has_expired_any or expired,
                    actuated_at=at if is_last else decision.actuated_at,
                )
            )
    return tuple(updated)


def measurable(
    guarded: GuardedNode, sampled_at: datetime, settle_seconds: float, now: datetime
) -> tuple[tuple[Awaited, ...], GuardedNode]:
    """The decisions whose effect this sample shows, and the node without them and without those given up. A decision
    with an unanswered eviction stays, because a pod may take its grace."""
    asked, ready, waiting = {eviction.decision_id for eviction in guarded.evictions}, [], []
    for decision in guarded.awaited:
        patience = EVICTION_AWAITED_SECONDS if decision.kind == DecisionKind.EVICT else AWAITED_SECONDS
        settled = max(settle_seconds, decision.settle_seconds)
        if decision.actuated_at is not None and (sampled_at - decision.actuated_at).total_seconds() >= settled:
            ready.append(decision)
        elif (
            decision.decision_id in asked
            or (now - (decision.actuated_at or decision.decided_at)).total_seconds() < patience
        ):
            waiting.append(decision)
    if len(waiting) == len(guarded.awaited):
        return (), guarded
    return tuple(ready), replace(guarded, awaited=tuple(waiting))

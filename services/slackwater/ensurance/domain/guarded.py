"""What ensurance knows of one node, and how that changes. Everything in it survives a restart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.waterline.plan import Outcome
from slackwater.waterline.state import GuardState, Throttled, confirmed, refused

AWAITED_SECONDS = 60.0
"""An effect that could not be measured for so long belongs to another situation: it is no longer waited for."""


@dataclass(frozen=True, slots=True)
class LastReport:
    """The newest report of a node: what is older never causes action."""

    boot_epoch: str
    sequence: int
    sampled_at: datetime


@dataclass(frozen=True, slots=True)
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
    """When the sample was taken that led to the decision."""
    traceparent: str | None = None
    """The step that decided: the effect belongs to its trace."""

    @property
    def sample_age_seconds(self) -> float:
        """How old the sample was when it was decided; 0 where that is not known."""
        return 0.0 if self.sampled_at is None else (self.decided_at - self.sampled_at).total_seconds()


@dataclass(frozen=True, slots=True)
class Guarded:
    """One node. `generation` is that of its intent document (0 = never declared); `version` counts writes of the row;
    `policy_generation` is that of the policy it was last declared under (0 = before this was noted).

    `decisions` maps each throttled pod to the decision that set its limit.
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

    def limits(self) -> tuple[tuple[Throttled, str], ...]:
        """Each limit in force with its decision, in order of pod uid."""
        decisions = dict(self.decisions)
        return tuple((t, decisions.get(t.uid, "")) for t in sorted(self.state.throttles, key=lambda t: t.uid))


def outdated(guarded: Guarded, report: LastReport, now: datetime, max_age_seconds: float) -> str | None:
    """Why a report must not cause action, or None. A new boot epoch starts a new sequence.

    `known` is the very report that was last handled: it has come by its other way, or again.
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


@dataclass(frozen=True, slots=True)
class Cause:
    """Where a decision comes from: the sample, and the step of the trace that decided."""

    sampled_at: datetime | None = None
    traceparent: str | None = None


def carried_out(
    guarded: Guarded, outcome: Outcome, decision_id: str | None, now: datetime, cause: Cause = Cause()
) -> Guarded:
    """After a plan: a new generation if the limits changed, and the decision to measure."""
    plan = outcome.plan
    if not plan.carried_out and not plan.forgotten:
        return replace(guarded, state=outcome.state)
    decisions = dict(guarded.decisions) | {change.uid: decision_id or "" for change in plan.changes}
    in_force = {throttled.uid for throttled in outcome.state.throttles}
    awaited = guarded.awaited
    if decision_id is not None and plan.reading is not None and plan.reason is not Reason.RESTORE_MODE_CHANGED:
        awaited += (
            Awaited(
                decision_id,
                guarded.generation + 1,
                plan.metric,
                plan.reading,
                plan.waterline,
                now,
                sampled_at=cause.sampled_at,
                traceparent=cause.traceparent,
            ),
        )
    return replace(
        guarded,
        generation=guarded.generation + 1,
        state=outcome.state,
        decisions=tuple(sorted((uid, decision) for uid, decision in decisions.items() if uid in in_force)),
        awaited=awaited,
    )


def observed(
    guarded: Guarded, generation: int, observed_at: datetime, failures: tuple[tuple[str, int | None], ...]
) -> Guarded:
    """The node has converged to `generation`. `failures` are pods whose limit could not be written, and what is in
    force there: they leave the list (or keep that limit), which makes a new generation."""
    awaited = tuple(
        replace(one, actuated_at=observed_at) if one.actuated_at is None and one.generation <= generation else one
        for one in guarded.awaited
    )
    if generation < guarded.generation:
        return replace(guarded, awaited=awaited)
    state = guarded.state
    if state.pending_since is not None:
        state = confirmed(state, observed_at)
    for uid, in_force_milli in failures:
        if state.limit_of(uid) is not None:
            state = refused(state, uid, in_force_milli)
    changed = state.throttles != guarded.state.throttles
    kept = {throttled.uid for throttled in state.throttles}
    return replace(
        guarded,
        generation=guarded.generation + changed,
        state=state,
        awaited=awaited,
        decisions=tuple(pair for pair in guarded.decisions if pair[0] in kept),
    )


def measurable(
    guarded: Guarded, sampled_at: datetime, settle_seconds: float, now: datetime
) -> tuple[tuple[Awaited, ...], Guarded]:
    """The decisions whose effect this sample shows, and the node without them and without those given up."""
    ready, waiting = [], []
    for one in guarded.awaited:
        if one.actuated_at is not None and (sampled_at - one.actuated_at).total_seconds() >= settle_seconds:
            ready.append(one)
        elif (now - one.decided_at).total_seconds() < AWAITED_SECONDS:
            waiting.append(one)
    if len(waiting) == len(guarded.awaited):
        return (), guarded
    return tuple(ready), replace(guarded, awaited=tuple(waiting))


def is_recorded(outcome: Outcome) -> bool:
    """Whether a plan is a decision worth a record: it acts, or tells what it would do or cannot do."""
    return outcome.plan.kind in (DecisionKind.THROTTLE, DecisionKind.RESTORE)

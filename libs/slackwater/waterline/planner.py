"""The planner: one snapshot of one node in, the changes and the next state out. Pure.

Each cycle: forget pods that are gone, count the rules, hold while the last change is not confirmed and visible,
then throttle if any rule is triggered, else give back if all rules are restored, else nothing. Triggered wins.
In mode observe the same plan is made and told once, and nothing of it enters the state.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.waterline import codec
from slackwater.waterline.counting import Verdict, judge_all
from slackwater.waterline.metrics import METRICS, prod_demand_milli
from slackwater.waterline.plan import LimitChange, Outcome, Plan
from slackwater.waterline.policy import WaterlinePolicy
from slackwater.waterline.restoring import BACKOFF_LIMIT, allowance, give_back, release_all
from slackwater.waterline.snapshot import Snapshot
from slackwater.waterline.state import GuardState, Throttled
from slackwater.waterline.throttling import squeeze


def plan(snapshot: Snapshot, state: GuardState, policy: WaterlinePolicy, now: datetime) -> Outcome:
    """What to do about this snapshot. See the module's docstring."""
    if policy.mode is Mode.OBSERVE and state.throttles:
        return release(state, snapshot.capacity_milli)
    present = {pod.uid for pod in snapshot.pods}
    forgotten = tuple(sorted(t.uid for t in state.throttles if t.uid not in present))
    verdicts = judge_all(policy.rules, snapshot, state.counts)
    counted = replace(
        state,
        counts=tuple(verdict.count for verdict in verdicts),
        throttles=tuple(t for t in state.throttles if t.uid in present),
    )
    triggered = [verdict for verdict in verdicts if verdict.triggered]
    if triggered:
        outcome = _throttle(snapshot, counted, policy, triggered, now)
    elif verdicts and all(verdict.restored for verdict in verdicts):
        outcome = _restore(snapshot, replace(counted, told=(), exhausted_told=False, refused=()), policy, verdicts, now)
    else:
        missing = "; ".join(v.count.missing for v in verdicts if v.count.missing)
        outcome = _idle(counted, missing or "still counting samples")
    return replace(outcome, plan=replace(outcome.plan, forgotten=forgotten))


def release(state: GuardState, capacity_milli: int) -> Outcome:
    """Give every limit back at once because the mode no longer allows any."""
    changes = release_all(state, capacity_milli)
    return Outcome(
        Plan(DecisionKind.RESTORE, Reason.RESTORE_MODE_CHANGED, changes=changes, carried_out=True),
        replace(state, throttles=(), told=(), exhausted_told=False, pending_since=None),
    )


def replay(*, snapshot: Any, state: Any, policy: Any, now: str) -> Any:
    """The plan of `plan` as JSON, from JSON: what a decision record names to be repeated."""
    decoded = codec.snapshot_of(snapshot), codec.state_of(state), codec.policy_of(policy), codec.time_of(now)
    return codec.to_json(plan(*decoded).plan)


def replay_release(*, state: Any, capacity_milli: int) -> Any:
    """The plan of `release` as JSON, from JSON."""
    return codec.to_json(release(codec.state_of(state), capacity_milli).plan)


def _idle(state: GuardState, because: str) -> Outcome:
    return Outcome(Plan(idle_because=because), state)


def _not_settled(snapshot: Snapshot, state: GuardState, policy: WaterlinePolicy, now: datetime) -> str | None:
    """Why this snapshot may not yet show the last change, or None if it does."""
    throttle = policy.throttle
    if state.pending_since is not None and (now - state.pending_since).total_seconds() < throttle.pending_seconds:
        return "the node has not confirmed the last change"
    if state.settled_at is None:
        return None
    if (snapshot.sampled_at - state.settled_at).total_seconds() < throttle.settle_seconds:
        return "the sample is older than the last change"
    return None


def _throttle(
    snapshot: Snapshot, state: GuardState, policy: WaterlinePolicy, triggered: list[Verdict], now: datetime
) -> Outcome:
    """Release the largest gap among the triggered rules, as far as the candidates allow."""
    hold = _not_settled(snapshot, state, policy, now)
    state = _after_trigger(snapshot, state, policy, now, fresh=hold is None)
    if hold is not None:
        return _idle(state, hold)
    gap, worst = max(((_gap_of(verdict, snapshot), verdict) for verdict in triggered), key=lambda pair: pair[0])
    done = squeeze(snapshot, state, policy.throttle, math.floor(gap * (1 + policy.throttle.excess_ratio)))
    answer = Plan(
        kind=DecisionKind.THROTTLE,
        reason=Reason.THROTTLE_WATERLINE_CROSSED,
        rule=worst.rule.name,
        metric=worst.rule.metric,
        reading=worst.reading,
        waterline=worst.rule.waterline,
        gap_milli=gap,
        changes=done.changes,
        spared=done.spared,
        remaining_milli=done.remaining_milli,
        remaining_because=done.remaining_because,
        carried_out=bool(done.changes),
    )
    if policy.mode is Mode.OBSERVE:
        return _only_told(answer, state)
    if not done.changes:
        return _exhausted(answer, state)
    limits = _lowered(snapshot, state, done.changes)
    return Outcome(answer, replace(state, throttles=limits, pending_since=now, settled_at=None))


def _gap_of(verdict: Verdict, snapshot: Snapshot) -> int:
    return max(0, METRICS[verdict.rule.metric].gap_milli(snapshot, verdict.rule.waterline))


def _after_trigger(
    snapshot: Snapshot, state: GuardState, policy: WaterlinePolicy, now: datetime, *, fresh: bool
) -> GuardState:
    """Restart the cool-down, and once per raise blame it if it was answered by this trigger.

    A sample from before the last change was visible neither renews the estimate of the demand nor blames anybody.
    """
    if not fresh:
        return replace(state, last_trigger_at=now)
    backoff = state.backoff
    if (
        state.last_raise_at is not None
        and (now - state.last_raise_at).total_seconds() <= policy.throttle.relapse_seconds
    ):
        backoff = min(backoff + 1, BACKOFF_LIMIT)
    elif _calm_seconds(state, now) > policy.throttle.probe_seconds:
        backoff = 0
    return replace(
        state,
        last_trigger_at=now,
        last_raise_at=None,
        backoff=backoff,
        demand_at_trigger_milli=prod_demand_milli(snapshot),
    )


def _calm_seconds(state: GuardState, now: datetime) -> float:
    return math.inf if state.last_trigger_at is None else (now - state.last_trigger_at).total_seconds()


def _lowered(snapshot: Snapshot, state: GuardState, changes: tuple[LimitChange, ...]) -> tuple[Throttled, ...]:
    originals = {pod.uid: pod.original_limit_milli for pod in snapshot.pods}
    limits = {throttled.uid: throttled for throttled in state.throttles}
    for change in changes:
        old = limits.get(change.uid)
        original = old.original_limit_milli if old is not None else originals[change.uid]
        if change.after_milli is not None:
            limits[change.uid] = Throttled(change.uid, change.name, change.tier, change.after_milli, original)
    return tuple(limits.values())


def _only_told(answer: Plan, state: GuardState) -> Outcome:
    """Mode observe: tell it once per episode, and again when it would reach further pods."""
    told = set(state.told)
    named = {change.uid for change in answer.changes}
    if (named and named <= told) or (not named and state.exhausted_told):
        return _idle(state, "told already in this episode")
    answer = replace(answer, reason=Reason.THROTTLE_OBSERVED_ONLY, carried_out=False)
    return Outcome(answer, replace(state, told=tuple(sorted(told | named)), exhausted_told=True))


def _exhausted(answer: Plan, state: GuardState) -> Outcome:
    """Nothing can be released: reported once per episode, when there is a gap at all."""
    if state.exhausted_told or answer.gap_milli == 0:
        return _idle(state, answer.remaining_because or "prod lacks nothing that can be measured")
    return Outcome(answer, replace(state, exhausted_told=True))


def _restore(
    snapshot: Snapshot, state: GuardState, policy: WaterlinePolicy, verdicts: tuple[Verdict, ...], now: datetime
) -> Outcome:
    """Give back what may be given back now."""
    if not state.throttles:
        return _idle(state, "nothing is throttled")
    hold = _not_settled(snapshot, state, policy, now)
    if hold is not None:
        return _idle(state, hold)
    allowed = allowance(snapshot, state, verdicts, policy.throttle, now)
    if allowed.idle_because:
        return _idle(state, allowed.idle_because)
    changes, kept = give_back(snapshot, state, policy.throttle, allowed)
    if not changes:
        return _idle(state, "no limit can rise by more than the smallest change")
    first = verdicts[0]
    answer = Plan(
        kind=DecisionKind.RESTORE,
        reason=Reason.RESTORE_HEADROOM if kept else Reason.RESTORE_COMPLETE,
        rule=first.rule.name,
        metric=first.rule.metric,
        reading=first.reading,
        waterline=first.rule.waterline,
        changes=changes,
        carried_out=True,
    )
    return Outcome(answer, replace(state, throttles=kept, pending_since=now, settled_at=None, last_raise_at=now))

"""Give limits back in reverse order, stepwise, the last step to exactly what was there before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.waterline.candidates import in_order
from slackwater.waterline.counting import Verdict
from slackwater.waterline.metrics import METRICS
from slackwater.waterline.plan import LimitChange
from slackwater.waterline.policy import ThrottlePolicy
from slackwater.waterline.snapshot import Snapshot
from slackwater.waterline.state import GuardState, Throttled
from slackwater.waterline.throttling import smallest_change_milli

BACKOFF_LIMIT = 6


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much may be given back now (milli-cores), whether limits may go altogether; or why nothing may."""

    milli: int
    to_original: bool = False
    all_at_once: bool = False
    idle_because: str = ""


def quiet_until(state: GuardState, seconds: float, now: datetime) -> float:
    """Seconds still to wait since the last trigger; every raise that was answered by a trigger doubles the wait."""
    if state.last_trigger_at is None:
        return 0.0
    return seconds * (1 << state.backoff) - (now - state.last_trigger_at).total_seconds()


def allowance(
    snapshot: Snapshot, state: GuardState, verdicts: tuple[Verdict, ...], policy: ThrottlePolicy, now: datetime
) -> Allowance:
    """How much may be given back in this cycle; all rules are known to be restored."""
    if max(quiet_until(state, v.rule.cool_down_seconds, now) for v in verdicts) > 0:
        return Allowance(0, idle_because="cool-down since the last trigger is not over")
    if snapshot.usage_milli is None:
        return Allowance(0, idle_because="no reading of the node's usage")
    idle = snapshot.capacity_milli - snapshot.usage_milli
    bounds = [METRICS[v.rule.metric].headroom_milli(snapshot, v.rule.waterline) for v in verdicts]
    bound = min((b for b in bounds if b is not None), default=None)
    if snapshot.prod_usage_milli <= policy.release_ratio * state.demand_at_trigger_milli:
        return _demand_gone(snapshot.capacity_milli, idle, bound, policy)
    return _demand_high(snapshot, state, idle, bound, policy, now)


def _demand_gone(capacity: int, idle: int, bound: int | None, policy: ThrottlePolicy) -> Allowance:
    """A step of the capacity, up to the originals. When no more than a step is idle everything goes at once:
    all pods together cannot take more than what is idle."""
    step = int(policy.step_ratio * capacity)
    if bound is None:
        return Allowance(step, to_original=True, all_at_once=idle <= step)
    return Allowance(max(0, min(step, bound)), to_original=True)


def _demand_high(
    snapshot: Snapshot, state: GuardState, idle: int, bound: int | None, policy: ThrottlePolicy, now: datetime
) -> Allowance:
    """CPU that is idle goes back so that slack is not wasted, but no limit goes altogether. After a long calm small
    raises probe whether the demand has gone in the meantime, however the estimate of it was."""
    capacity, smallest = snapshot.capacity_milli, smallest_change_milli(snapshot.capacity_milli, policy)
    headroom = min(int(policy.step_ratio * capacity), idle - int(policy.headroom_margin_ratio * capacity))
    if bound is not None:
        headroom = min(headroom, bound)
    raise_milli = headroom // (1 << state.backoff)
    if raise_milli > 2 * smallest:
        return Allowance(raise_milli)
    if quiet_until(state, policy.probe_seconds, now) <= 0 and (bound is None or bound > 2 * smallest):
        probe = max(2 * smallest, int(policy.probe_ratio * capacity))
        return Allowance(probe if bound is None else min(probe, bound), to_original=True)
    return Allowance(0, idle_because="prod still wants what it wanted and no CPU is idle")


def _full_milli(throttled: Throttled, capacity_milli: int) -> int:
    """The limit that means the same as the original: no pod can use more than the node has."""
    original = throttled.original_limit_milli
    return capacity_milli if original is None else min(original, capacity_milli)


def give_back(
    snapshot: Snapshot, state: GuardState, policy: ThrottlePolicy, allowed: Allowance
) -> tuple[tuple[LimitChange, ...], tuple[Throttled, ...]]:
    """The limits that rise, those who gave way last first, and the throttles that stay in force."""
    left, changes = allowed.milli, []
    kept = {throttled.uid: throttled for throttled in state.throttles}
    smallest = smallest_change_milli(snapshot.capacity_milli, policy)
    for pod in reversed(in_order(snapshot.pods)):
        throttled = kept.get(pod.uid)
        if throttled is None:
            continue
        full = _full_milli(throttled, snapshot.capacity_milli)
        missing = max(0, full - throttled.limit_milli)
        raised = missing if allowed.all_at_once else min(missing, left)
        if not allowed.to_original:
            raised = min(raised, missing - smallest)
        gone = raised >= missing
        if not gone and raised < smallest:
            continue
        left -= raised
        after = None if gone else throttled.limit_milli + raised
        changes.append(LimitChange(pod.uid, pod.name, pod.tier, throttled.limit_milli, after, -raised))
        if after is None:
            del kept[pod.uid]
        else:
            kept[pod.uid] = replace(throttled, limit_milli=after)
    return tuple(changes), tuple(kept.values())


def release_all(state: GuardState, capacity_milli: int) -> tuple[LimitChange, ...]:
    """Every limit of ours goes at once (the mode says so)."""
    return tuple(
        LimitChange(t.uid, t.name, t.tier, t.limit_milli, None, min(0, t.limit_milli - _full_milli(t, capacity_milli)))
        for t in sorted(state.throttles, key=lambda t: t.uid)
    )

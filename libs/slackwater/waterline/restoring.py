"""Give limits back in reverse order, stepwise, the last step to exactly what was there before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.decisions.reasons import Reason
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
    """How much may be given back now (milli-cores), whether limits may go altogether, and why (or why nothing)."""

    milli: int
    to_original: bool
    all_at_once: bool
    reason: Reason | None
    idle_because: str = ""


def _nothing(because: str) -> Allowance:
    return Allowance(0, to_original=False, all_at_once=False, reason=None, idle_because=because)


def quiet_until(state: GuardState, cool_down_seconds: float, now: datetime) -> float:
    """Seconds still to wait since the last trigger; every raise that was answered by a trigger doubles the wait."""
    if state.last_trigger_at is None:
        return 0.0
    return cool_down_seconds * (1 << state.backoff) - (now - state.last_trigger_at).total_seconds()


def allowance(
    snapshot: Snapshot, state: GuardState, verdicts: tuple[Verdict, ...], policy: ThrottlePolicy, now: datetime
) -> Allowance:
    """How much may be given back in this cycle; all rules are known to be restored.

    Demand gone: a step of the capacity, up to the originals. When no more than a step is idle everything goes at
    once, because all pods together cannot take more than what is idle.
    Demand still there but CPU idle: at most that, so that slack is not wasted, never a limit altogether.
    """
    wait = max(quiet_until(state, v.rule.cool_down_seconds, now) for v in verdicts)
    if wait > 0:
        return _nothing("cool-down since the last trigger is not over")
    if snapshot.usage_milli is None:
        return _nothing("no reading of the node's usage")
    bounds = [METRICS[v.rule.metric].headroom_milli(snapshot, v.rule.waterline) for v in verdicts]
    bound = min((b for b in bounds if b is not None), default=None)
    step = int(policy.step_ratio * snapshot.capacity_milli)
    idle = snapshot.capacity_milli - snapshot.usage_milli
    if _demand_is_gone(snapshot, state, policy, now):
        return Allowance(
            step if bound is None else max(0, min(step, bound)),
            to_original=True,
            all_at_once=bound is None and idle <= step,
            reason=Reason.RESTORE_COMPLETE,
        )
    headroom = idle - int(policy.headroom_margin_ratio * snapshot.capacity_milli)
    raise_milli = min(step, headroom, *([] if bound is None else [bound])) // (1 << state.backoff)
    if raise_milli <= 2 * smallest_change_milli(snapshot.capacity_milli, policy):
        return _nothing("prod still wants what it wanted and no CPU is idle")
    return Allowance(raise_milli, to_original=False, all_at_once=False, reason=Reason.RESTORE_HEADROOM)


def _demand_is_gone(snapshot: Snapshot, state: GuardState, policy: ThrottlePolicy, now: datetime) -> bool:
    """Prod uses clearly less than it wanted when it lacked CPU, or has been calm for very long."""
    if snapshot.prod_usage_milli <= policy.release_ratio * state.demand_at_trigger_milli:
        return True
    return quiet_until(state, policy.probe_seconds, now) <= 0


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

"""The feedback state of a node's closed loop: which samples count, prod's demand, and the restore
allowance. Pure.

Backoff: a trigger after a raise doubles the next wait and halves the next raise. Holding: no
decision uses a sample that cannot show the last change. Probing: after a long calm, small raises
test whether the demand is gone, whatever its estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.facts.amounts import Number, exact
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.loop.reversals import Damping, DampingPolicy, after_fall, after_rise
from slackwater.waterline.loop.usefulness import QuotaUse, RuleEffect, UsefulnessPolicy
from slackwater.waterline.registry.built_in import PRESSURE_CAP

SMALLEST_OF_A_POD_MILLI: Final = 10


@dataclass(frozen=True, slots=True)
class LoopPolicy:
    """Ratios are 0..1 of the node's capacity unless they say otherwise.

    min_change_ratio      a change of the node that is smaller is not worth a write; of a pod, 10 milli-cores
    step_ratio            is given back per cycle
    release_ratio         prod usage at or below this share of its demand at the trigger: the demand is gone
    headroom_margin_ratio stays idle when limits rise while the demand is still high
    settle_seconds        a sample counts only if it ends this long after the last write was observed
    pending_seconds       an unconfirmed write is no longer waited for after this time
    relapse_seconds       a trigger this soon after a raise is attributed to it: the next ones come later and smaller
    probe_seconds         calm for so long allows small raises, up to the originals, whatever prod uses:
    probe_ratio           this much per cycle
    quota                 when-helpful: limits come where weights do not suffice (loop.weights_first), and those
                          without effect are undone (loop.usefulness); always: they come at once, and stay
    quota_after_seconds   a waterline that weights protect stays crossed for so long before limits are tried
    trials, least_relief, useless_backoff_seconds, useless_backoff_most_seconds: see loop.usefulness
    damping_seconds, damping_most_seconds, surges_per_hour: the waits of rises after reversals, see loop.reversals
    """

    min_change_ratio: float = 0.01
    step_ratio: float = 0.5
    release_ratio: float = 0.7
    headroom_margin_ratio: float = 0.05
    settle_seconds: float = 0.5
    pending_seconds: float = 10.0
    relapse_seconds: float = 10.0
    probe_seconds: float = 60.0
    probe_ratio: float = 0.05
    quota: QuotaUse = "when-helpful"
    quota_after_seconds: float = 30.0
    trials: int = 3
    least_relief: float = 0.25
    useless_backoff_seconds: float = 60.0
    useless_backoff_most_seconds: float = 3600.0
    damping_seconds: float = 15.0
    damping_most_seconds: float = 120.0
    surges_per_hour: int = 30

    @property
    def usefulness(self) -> UsefulnessPolicy:
        return UsefulnessPolicy(
            self.quota,
            self.trials,
            self.least_relief,
            self.useless_backoff_seconds,
            self.useless_backoff_most_seconds,
            self.quota_after_seconds,
        )

    @property
    def damping(self) -> DampingPolicy:
        return DampingPolicy(self.damping_seconds, self.damping_most_seconds, self.surges_per_hour)

    def smallest_milli(self, capacity_milli: int) -> int:
        """Returns the smallest gap or headroom of a node that is worth a write."""
        return max(1, int(self.min_change_ratio * capacity_milli))

    def smallest_of_a_pod_milli(self, capacity_milli: int) -> int:
        """Returns the smallest change of one pod. On a large node a hundredth of the CPU exceeds
        many a pod's limit, and all pods together are the capacity that can be taken.
        """
        return min(self.smallest_milli(capacity_milli), SMALLEST_OF_A_POD_MILLI)


BACKOFF_LIMIT: Final = 6
CLOCKS_APART_SECONDS: Final = 60.0
"""A node's clock may be ahead of the service's by less than this."""
SAMPLES_LATELY: Final = 4
"""Number of samples in a cool-down of three seconds. A single one may be low by chance (decision
0094 has the cost).
"""


@record(frozen=True, slots=True)
class LoopState:
    """All times are UTC and come from the `now` that the cycle was given.

    demand_at_trigger_milli  what prod wanted when a waterline was last crossed: usage / (1 - pressure)
    pending_since            something was changed then and the node has not confirmed it yet
    settled_at               when the node confirmed its last change: older samples do not show it
    demand_at_raise_milli    prod's demand when limits were last raised (None: never, or triggered since)
    backoff                  consecutive raises that were followed by a new trigger
    prod_peak_milli          the most that prod used when a waterline was last crossed, and in calm samples since
                             (None: no waterline was crossed yet)
    used_lately_milli        what the node used in the last calm samples since limits last changed, oldest first
    effects                  by rule, whether its throttles help (see loop.usefulness)
    damping                  how often limits fell after they had risen (see loop.reversals)
    recorded                 decisions recorded in this episode, so that each is recorded once (see loop.recorded_once)
    """

    demand_at_trigger_milli: int = 0
    last_trigger_at: datetime | None = None
    last_raise_at: datetime | None = None
    backoff: int = 0
    pending_since: datetime | None = None
    settled_at: datetime | None = None
    recorded: tuple[str, ...] = ()
    demand_at_raise_milli: int | None = None
    prod_peak_milli: int | None = None
    used_lately_milli: tuple[int, ...] = ()
    effects: tuple[RuleEffect, ...] = ()
    damping: Damping = field(default_factory=Damping)


@record(frozen=True, slots=True)
class Crossing:
    """The measure of a trigger: `beyond_milli` is the CPU by which the waterline was crossed, at
    the worst rule, and `cool_down_seconds` the longest cool-down of the crossed rules. `since` is
    when the first of them triggered, before it waited for CPU weights. None: now.
    """

    beyond_milli: Number
    cool_down_seconds: float
    since: datetime | None = None


@record(frozen=True, slots=True)
class Allowance:
    """How much may be restored now (milli-cores) and whether limits may be removed; or why nothing
    may. `formula`: the derivation of `milli` in words.
    """

    milli: int
    to_original: bool = False
    all_at_once: bool = False
    idle_because: str = ""
    formula: str = ""


EVERYTHING: Final = Allowance(0, to_original=True, all_at_once=True)
"""The allowance of pods that no rule covers any more."""


def confirmed(state: LoopState, observed_at: datetime) -> LoopState:
    """Returns the state after the node carried out every intent, its last write at
    `observed_at`.
    """
    if state.pending_since is None:
        return state
    return replace(state, pending_since=None, settled_at=observed_at)


def unsettled(view: NodeReadings, state: LoopState, policy: LoopPolicy, now: datetime) -> str | None:
    """Returns why this sample may not yet show the last change, or None if it does. A change
    further ahead than the pending time was recorded before the clock was set back, and is ignored.
    """
    patience = policy.pending_seconds
    if state.pending_since is not None and abs((now - state.pending_since).total_seconds()) < patience:
        return "the node has not confirmed the last change"
    if state.settled_at is None or (state.settled_at - now).total_seconds() > max(patience, CLOCKS_APART_SECONDS):
        return None
    if (view.sampled_at - state.settled_at).total_seconds() < policy.settle_seconds:
        return "the sample is older than the last change"
    return None


def prod_demand_milli(view: NodeReadings) -> int:
    """Returns prod's demand: tasks that ran for R and waited a share p of their time wanted R / (1
    - p), at most the node's capacity. A lower bound; without pressure, the usage of prod.
    """
    pressure = min(_largest(view, "prod_cpu_pressure") or 0.0, float(PRESSURE_CAP))
    wanted = round(float(view.prod_usage_milli or 0) / (1 - pressure))
    return wanted if view.capacity_milli is None else min(view.capacity_milli, wanted)


def after_trigger(
    view: NodeReadings,
    state: LoopState,
    policy: LoopPolicy,
    now: datetime,
    *,
    fresh: bool,
    crossing: Crossing | None = None,
) -> LoopState:
    """Returns the state with the cool-down restarted and, once per raise, the backoff increased if
    this trigger is its relapse.

    A sample from before the last change was visible changes neither the demand estimate nor the
    backoff.
    """
    if not fresh:
        return replace(state, last_trigger_at=now)
    demand, backoff = prod_demand_milli(view), state.backoff
    if is_relapse(state, policy, demand, crossing, now):
        backoff = min(backoff + 1, BACKOFF_LIMIT)
    elif _calm_seconds(state, now) > policy.probe_seconds:
        backoff = 0
    elif state.last_raise_at is not None:  # the last raise stood, and was answered by a new demand
        backoff = max(0, backoff - 1)
    return replace(
        state,
        last_trigger_at=now,
        last_raise_at=None,
        demand_at_raise_milli=None,
        prod_peak_milli=round(float(view.prod_usage_milli or 0)),
        used_lately_milli=(),
        backoff=backoff,
        demand_at_trigger_milli=demand,
    )


def after_calm(view: NodeReadings, state: LoopState) -> LoopState:
    """Returns the state with the usage of node and prod under the current limits added: a single
    calm second is not conclusive.
    """
    used, prod = _largest(view, "node_cpu_usage"), round(float(view.prod_usage_milli or 0))
    lately = state.used_lately_milli if used is None else (*state.used_lately_milli, math.ceil(used))[-SAMPLES_LATELY:]
    peak = None if state.prod_peak_milli is None else max(prod, state.prod_peak_milli)
    return replace(state, used_lately_milli=lately, prod_peak_milli=peak)


def is_relapse(
    state: LoopState, policy: LoopPolicy, demand_milli: int, crossing: Crossing | None, now: datetime
) -> bool:
    """Returns whether this trigger is a relapse of the last raise: it came soon after, and not
    because prod's demand grew.

    Demand grew if at the raise it was at most `release_ratio` of the current one, and the waterline
    is crossed by no more than the increase. Within the rules' own cool-down the trigger is always a
    relapse: the raise waited as long as configured, which was too short.
    """
    if state.last_raise_at is None or _seconds_after(state.last_raise_at, crossing, now) > policy.relapse_seconds:
        return False
    return not is_new_demand(state, policy, demand_milli, crossing, now)


def is_new_demand(
    state: LoopState, policy: LoopPolicy, demand_milli: int, crossing: Crossing | None, now: datetime
) -> bool:
    """Returns whether prod's demand grew since the last raise, so that this trigger is not the raise's doing."""
    then = state.demand_at_raise_milli
    if state.last_raise_at is None or then is None or crossing is None:
        return False
    if _seconds_after(state.last_raise_at, crossing, now) <= crossing.cool_down_seconds:
        return False
    return then <= policy.release_ratio * demand_milli and crossing.beyond_milli <= demand_milli - then


def _seconds_after(raised_at: datetime, crossing: Crossing | None, now: datetime) -> float:
    """Returns how long after a raise the waterline was crossed."""
    since = now if crossing is None or crossing.since is None else crossing.since
    return (since - raised_at).total_seconds()


def after_change(
    state: LoopState, policy: LoopPolicy, now: datetime, *, falls: bool, rises: bool, gone: bool, is_new: bool
) -> LoopState:
    """Returns the state with reversals counted, for limits that fall or rise in this cycle.

    gone   they rise because prod's demand is gone, or without effect
    is_new they fall because prod's demand grew
    """
    damping = state.damping
    if falls:
        damping = after_fall(damping, policy.damping, now, is_new_demand=is_new)
    if rises:
        damping = after_rise(damping, is_surge=gone)
    return state if damping is state.damping else replace(state, damping=damping)


def quiet_until(state: LoopState, seconds: float, now: datetime) -> float:
    """Returns the seconds still to wait since the last trigger; every relapse doubles the wait."""
    if state.last_trigger_at is None:
        return 0.0
    return seconds * (1 << state.backoff) - (now - state.last_trigger_at).total_seconds()


def allowance(
    view: NodeReadings,
    state: LoopState,
    policy: LoopPolicy,
    bound: Decimal | None,
    cool_down_seconds: float,
    now: datetime,
) -> Allowance:
    """Returns how much may be restored in this cycle to a pod whose rules are calm, whose longest
    cool-down is `cool_down_seconds`, and whose metrics leave `bound` milli-cores of headroom (None:
    no bound).
    """
    if quiet_until(state, cool_down_seconds, now) > 0:
        return Allowance(0, idle_because="cool-down since the last trigger is not over")
    used = _largest(view, "node_cpu_usage")
    if used is None or view.capacity_milli is None:
        return Allowance(0, idle_because="no reading of the node's usage")
    most = None if bound is None else math.floor(bound)
    is_damped = state.damping.is_waiting(policy.damping, now)
    if is_demand_gone(view, state, policy) and (not is_damped or state.damping.has_credit(policy.damping, now)):
        return _demand_gone(view.capacity_milli, int(view.capacity_milli - used), most, policy)
    if is_damped:
        return Allowance(0, idle_because=damped_because(state.damping, policy.damping))
    busiest = busiest_milli(state, used)
    return _demand_high(view.capacity_milli, state, int(view.capacity_milli - busiest), most, policy, now)


def damped_because(damping: Damping, policy: DampingPolicy) -> str:
    """Returns why limits may not rise while the damping waits."""
    until = damping.until(policy)
    return f"damped: limits fell after they had risen (level {damping.level}); none rises before {until:%H:%M:%S} UTC"


def busiest_milli(state: LoopState, used_milli: float) -> float:
    """Returns the node's highest recent usage: CPU is idle only if it was idle in all recent
    samples.
    """
    return max(used_milli, *state.used_lately_milli) if state.used_lately_milli else used_milli


def is_demand_gone(view: NodeReadings, state: LoopState, policy: LoopPolicy) -> bool:
    """Returns whether prod uses at most `release_ratio` of its demand."""
    return float(view.prod_usage_milli or 0) <= policy.release_ratio * wanted_milli(state)


def wanted_milli(state: LoopState) -> int:
    """Returns the measure of prod's demand: its highest usage since the last trigger. The demand
    estimated from pressure at the trigger may be twice that, and half of it would look like the end
    of the demand.
    """
    return state.demand_at_trigger_milli if state.prod_peak_milli is None else state.prod_peak_milli


def _demand_gone(capacity: int, idle: int, bound: int | None, policy: LoopPolicy) -> Allowance:
    """Returns a step of the capacity, up to the originals. When no more than a step is idle,
    everything is restored at once: all pods together cannot use more than what is idle.
    """
    step = int(policy.step_ratio * capacity)
    said = f"prod's demand is gone: {policy.step_ratio:g} x capacity"
    if bound is None:
        at_once = idle <= step
        more = ", and as no more is idle, everything at once" if at_once else ""
        return Allowance(step, to_original=True, all_at_once=at_once, formula=said + more)
    return Allowance(max(0, min(step, bound)), to_original=True, formula=f"{said}, headroom at most")


def _demand_high(
    capacity: int, state: LoopState, idle: int, bound: int | None, policy: LoopPolicy, now: datetime
) -> Allowance:
    """Returns idle CPU, so that slack is not wasted, but no limit is removed. After a long calm,
    small raises probe whether the demand is gone, whatever its estimate.
    """
    smallest = policy.smallest_milli(capacity)
    headroom = min(int(policy.step_ratio * capacity), idle - int(policy.headroom_margin_ratio * capacity))
    if bound is not None:
        headroom = min(headroom, bound)
    raise_milli = headroom // (1 << state.backoff)
    if raise_milli > 2 * smallest:
        margin, step = policy.headroom_margin_ratio, policy.step_ratio
        said = f"capacity - busiest - {margin:g} x capacity, at most {step:g} x capacity and headroom"
        return Allowance(raise_milli, formula=f"({said}) / 2 ^ backoff")
    if quiet_until(state, policy.probe_seconds, now) <= 0 and (bound is None or bound > 2 * smallest):
        probe = max(2 * smallest, int(policy.probe_ratio * capacity))
        milli = probe if bound is None else min(probe, bound)
        return Allowance(milli, to_original=True, formula=f"a probe after a calm: {policy.probe_ratio:g} x capacity")
    return Allowance(0, idle_because="prod still wants what it wanted and no CPU is idle")


def _calm_seconds(state: LoopState, now: datetime) -> float:
    return math.inf if state.last_trigger_at is None else (now - state.last_trigger_at).total_seconds()


def _largest(view: NodeReadings, metric: str) -> float | None:
    values: list[Number] = [one.value for one in view.readings.get(metric, ())]
    known = [value for value in map(exact, values) if value.is_finite()]
    return float(max(known)) if known else None

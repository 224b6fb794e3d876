"""The memory of a node's closed loop: when a sample may be acted on, what prod wanted, how much may go back. Pure.

Backoff: a raise that is answered by a trigger doubles the next wait and halves the next raise. Holding: nothing is
decided on a sample that cannot show the last change yet. Probing: after a long calm small raises find out whether the
demand is gone, whatever the estimate of it says.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Final

from slackwater.model.records import record
from slackwater.waterline.facts.amounts import Number, exact
from slackwater.waterline.facts.node import NodeView
from slackwater.waterline.loop.policy import LoopPolicy
from slackwater.waterline.registry.built_in import PRESSURE_CAP

BACKOFF_LIMIT: Final = 6
CLOCKS_APART_SECONDS: Final = 60.0
"""A node's clock may be ahead of ours by less."""
SAMPLES_LATELY: Final = 4
"""As many as a cool-down of three seconds has. One alone may be quiet by chance (decision 0051 has what that cost)."""


@record(frozen=True, slots=True)
class LoopState:
    """All times are UTC and come from the `now` that the cycle was given.

    demand_at_trigger_milli  what prod wanted when a waterline was last crossed: usage / (1 - pressure)
    pending_since            something was changed then and the node has not confirmed it yet
    settled_at               when the node confirmed its last change: older samples do not show it
    demand_at_raise_milli    what prod wanted when limits were last raised (None: never, or it was triggered since)
    backoff                  how many raises in a row were answered by a new trigger
    prod_peak_milli          the most that prod used when a waterline was last crossed, and in calm samples since
                             (None: state of an earlier version)
    used_lately_milli        what the node used in the last calm samples since limits last changed, oldest first
    told                     what this episode has told already, so that it is told once (see loop.telling)
    """

    demand_at_trigger_milli: int = 0
    last_trigger_at: datetime | None = None
    last_raise_at: datetime | None = None
    backoff: int = 0
    pending_since: datetime | None = None
    settled_at: datetime | None = None
    told: tuple[str, ...] = ()
    demand_at_raise_milli: int | None = None
    prod_peak_milli: int | None = None
    used_lately_milli: tuple[int, ...] = ()


@record(frozen=True, slots=True)
class Crossing:
    """What a trigger is judged by: `beyond_milli` is the CPU by which the waterline was crossed, at the worst rule, and
    `cool_down_seconds` the longest of the rules that were."""

    beyond_milli: Number
    cool_down_seconds: float


@record(frozen=True, slots=True)
class Allowance:
    """How much may be given back now (milli-cores), whether limits may go altogether; or why nothing may. `formula`:
    how `milli` came to be, in words."""

    milli: int
    to_original: bool = False
    all_at_once: bool = False
    idle_because: str = ""
    formula: str = ""


EVERYTHING: Final = Allowance(0, to_original=True, all_at_once=True)
"""For whom no rule covers any more."""


def confirmed(state: LoopState, observed_at: datetime) -> LoopState:
    """The node has carried out everything that was asked, its last write at `observed_at`."""
    if state.pending_since is None:
        return state
    return replace(state, pending_since=None, settled_at=observed_at)


def unsettled(view: NodeView, state: LoopState, policy: LoopPolicy, now: datetime) -> str | None:
    """Why this sample may not yet show the last change, or None if it does. A change that lies further ahead than one
    is waited for is from before the clock was set back: nobody would wait for that hour to pass once more."""
    patience = policy.pending_seconds
    if state.pending_since is not None and abs((now - state.pending_since).total_seconds()) < patience:
        return "the node has not confirmed the last change"
    if state.settled_at is None or (state.settled_at - now).total_seconds() > max(patience, CLOCKS_APART_SECONDS):
        return None
    if (view.sampled_at - state.settled_at).total_seconds() < policy.settle_seconds:
        return "the sample is older than the last change"
    return None


def prod_demand_milli(view: NodeView) -> int:
    """What prod wanted: tasks that ran for R and waited a share p of their time wanted R / (1 - p). A lower bound; more
    than the node has can be wanted but not had. Without pressure, what prod used."""
    pressure = min(_largest(view, "prod_cpu_pressure") or 0.0, float(PRESSURE_CAP))
    wanted = round(float(view.prod_usage_milli or 0) / (1 - pressure))
    return wanted if view.capacity_milli is None else min(view.capacity_milli, wanted)


def after_trigger(
    view: NodeView,
    state: LoopState,
    policy: LoopPolicy,
    now: datetime,
    *,
    fresh: bool,
    crossing: Crossing | None = None,
) -> LoopState:
    """Restart the cool-down, and once per raise blame it if it was answered by this trigger.

    A sample from before the last change was visible neither renews the estimate of the demand nor blames anybody.
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


def after_calm(view: NodeView, state: LoopState) -> LoopState:
    """Remember what node and prod use under the limits that are in force: one quiet second does not tell it."""
    used, prod = _largest(view, "node_cpu_usage"), round(float(view.prod_usage_milli or 0))
    lately = state.used_lately_milli if used is None else (*state.used_lately_milli, math.ceil(used))[-SAMPLES_LATELY:]
    peak = None if state.prod_peak_milli is None else max(prod, state.prod_peak_milli)
    return replace(state, used_lately_milli=lately, prod_peak_milli=peak)


def is_relapse(
    state: LoopState, policy: LoopPolicy, demand_milli: int, crossing: Crossing | None, now: datetime
) -> bool:
    """Whether the last raise is to blame for this trigger: it came soon after, and not because prod wants more since.

    More: when limits rose prod wanted `release_ratio` of what it wants now or less, and by no more than has come on top
    the waterline is crossed. Within the rules' own cool-down the raise is to blame whatever prod wants: it waited as
    long as it was told to, and that was too short.
    """
    if state.last_raise_at is None:
        return False
    since = (now - state.last_raise_at).total_seconds()
    if since > policy.relapse_seconds:
        return False
    then = state.demand_at_raise_milli
    if then is None or crossing is None or since <= crossing.cool_down_seconds:
        return True
    return then > policy.release_ratio * demand_milli or crossing.beyond_milli > demand_milli - then


def quiet_until(state: LoopState, seconds: float, now: datetime) -> float:
    """Seconds still to wait since the last trigger; every raise that was answered by a trigger doubles the wait."""
    if state.last_trigger_at is None:
        return 0.0
    return seconds * (1 << state.backoff) - (now - state.last_trigger_at).total_seconds()


def allowance(
    view: NodeView,
    state: LoopState,
    policy: LoopPolicy,
    bound: Decimal | None,
    cool_down_seconds: float,
    now: datetime,
) -> Allowance:
    """How much may be given back in this cycle to a pod whose rules are calm, whose longest cool-down is
    `cool_down_seconds`, and whose metrics leave `bound` milli-cores of headroom (None: they set no bound)."""
    if quiet_until(state, cool_down_seconds, now) > 0:
        return Allowance(0, idle_because="cool-down since the last trigger is not over")
    used = _largest(view, "node_cpu_usage")
    if used is None or view.capacity_milli is None:
        return Allowance(0, idle_because="no reading of the node's usage")
    most = None if bound is None else math.floor(bound)
    if float(view.prod_usage_milli or 0) <= policy.release_ratio * wanted_milli(state):
        return _demand_gone(view.capacity_milli, int(view.capacity_milli - used), most, policy)
    busiest = busiest_milli(state, used)
    return _demand_high(view.capacity_milli, state, int(view.capacity_milli - busiest), most, policy, now)


def busiest_milli(state: LoopState, used_milli: float) -> float:
    """The most that the node used lately: idle is what was idle all the time, not in one sample by chance."""
    return max(used_milli, *state.used_lately_milli) if state.used_lately_milli else used_milli


def wanted_milli(state: LoopState) -> int:
    """What prod's demand is measured by: the most that it really used since the last trigger. What it wanted at the
    trigger, by its pressure, may have been twice of that, and half of it would pass for the end of the demand."""
    return state.demand_at_trigger_milli if state.prod_peak_milli is None else state.prod_peak_milli


def _demand_gone(capacity: int, idle: int, bound: int | None, policy: LoopPolicy) -> Allowance:
    """A step of the capacity, up to the originals. When no more than a step is idle everything goes at once:
    all pods together cannot take more than what is idle."""
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
    """CPU that is idle goes back so that slack is not wasted, but no limit goes altogether. After a long calm small
    raises probe whether the demand has gone in the meantime, however the estimate of it was."""
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


def _largest(view: NodeView, metric: str) -> float | None:
    values: list[Number] = [one.value for one in view.readings.get(metric, ())]
    known = [value for value in map(exact, values) if value.is_finite()]
    return float(max(known)) if known else None

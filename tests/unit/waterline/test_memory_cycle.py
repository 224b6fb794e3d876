"""Cycles that throttle memory: in order, before evictions, credited, explained, restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import use, view
from waterline_rules import EXACT, THROTTLE, at, policies, rule

from slackwater.decisions.reasons import Mode
from slackwater.model.tiers import Tier
from slackwater.waterline.actuation.memory_high import MIB, PAGE_BYTES, MemoryBounds, floor_bytes
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.analysis.sample_counters import RuleState, is_still_calm, judge
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.executor import THROTTLED_FIRST
from slackwater.waterline.execution.levers import NOT_REPORTED
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_memory import MemoryBackoff, with_limit
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.node_guard import GuardResult, GuardState, fast_path, guard, release
from slackwater.waterline.policies.values import Policies, PolicyAction
from slackwater.waterline.registry.built_in import BUILT_IN

GIB = 2**30
D = Decimal
BOUNDS = MemoryBounds(min_ratio=D(0), step_ratio=D("0.5"), min_change_bytes=MIB)
LIMIT = replace(THROTTLE, memory=BOUNDS)
BOTH = PolicyAction("both", memory=BOUNDS, evicts=True, grace_seconds=5)
USED, REFAULTS, PRESSURE = "node_memory_usage", "prod_memory_refaults", "prod_memory_pressure"


def ruled(metric: str, waterline: object, action: PolicyAction = LIMIT, **fields: Any) -> Policies:
    return policies(rule(metric, waterline, action.name, **fields), actions=(action,))


def cached(uid: str, usage: int = GIB, cache: int = 3 * GIB, tier: Tier = Tier.BATCH, **fields: Any) -> PodUse:
    return use(uid, tier, memory=usage, reclaimable_bytes=cache, **fields)


def guarded(
    rules: Policies, pods: Sequence[PodUse], state: GuardState | None = None, when: float = 0, **readings: Any
) -> GuardResult:
    known = state or GuardState()
    held = known.memory_by_uid()
    present = [
        with_limit(pod, pod.reclaimable_bytes, pod.original_memory_high_bytes, held.get(pod.uid)) for pod in pods
    ]
    options = readings.pop("options", EXACT)
    return guard(view(*present, at=when, **readings), known, rules, at(when), options)


def highs(result: GuardResult) -> dict[str, int]:
    return {one.uid: one.high_bytes for one in result.state.memory}


def test_the_first_pods_give_as_far_as_the_gap() -> None:
    rules = ruled(USED, 10 * GIB)
    pods = [cached("a", cache=2 * GIB), cached("b", usage=2 * GIB), cached("c", usage=1)]
    done = guarded(rules, pods, node_memory_usage=13 * GIB)
    assert highs(done) == {"b": 5 * GIB // 2, "a": 5 * GIB // 2}
    (left,) = done.cycle.plan.remaining
    assert (left.gap, left.released, left.open) == (3 * GIB, 3 * GIB, 0)
    assert [one.because for one in done.cycle.plan.spared] == ["the gap is closed"]


def test_prod_and_unreported_pods_are_spared_with_a_reason() -> None:
    pods = [cached("p", tier=Tier.PROD), use("old", memory=4 * GIB)]
    done = guarded(ruled(USED, GIB), pods, node_memory_usage=2 * GIB)
    assert highs(done) == {}
    spared = {one.uid: one.because for one in done.cycle.plan.spared}
    assert spared == {"p": "tier prod is protected", "old": NOT_REPORTED}


def test_what_prod_reads_again_is_its_gap_within_what_batch_holds() -> None:
    rules = ruled(REFAULTS, 10 * MIB)
    done = guarded(rules, [cached("a")], prod_memory_refaults=50 * MIB)
    assert highs(done) == {"a": 4 * GIB - 500 * MIB}
    (left,) = done.cycle.plan.remaining
    assert (left.gap, left.open) == (500 * MIB, 0)
    huge = guarded(rules, [cached("a")], prod_memory_refaults=50 * GIB)
    (left,) = huge.cycle.plan.remaining
    assert left.gap == 4 * GIB - floor_bytes(cached("a"), BOUNDS)


@given(st.integers(0, 100), st.integers(0, 1000))
def test_what_is_free_is_no_lack_of_prod(refaults: int, free: int) -> None:
    done = guarded(
        ruled(REFAULTS, MIB), [cached("a")], prod_memory_refaults=refaults * MIB, node_memory_free=free * MIB
    )
    lacking = max(0, 10 * refaults - free) * MIB if refaults > 1 else 0
    assert highs(done) == ({"a": 4 * GIB - lacking} if lacking else {})


def thrash(rules: Policies, seconds: int, spare: int, demand: int, touched: int) -> Iterator[tuple[float, float]]:
    """Returns the MiB of prod and of batch, second by second. Prod touches so many MiB/s of 1,000; two pods with a
    demand push it out as far as they do not fit into `spare` beside it.
    """
    state, prod = GuardState(), 1000.0
    for second in range(seconds):
        known = {one.uid: one.high_bytes / MIB for one in state.memory}
        held = {uid: min(demand, known.get(uid, demand)) for uid in ("a", "b")}
        free = 1000 + spare - prod - sum(held.values())
        prod, free = prod + min(0.0, free), max(0.0, free)
        yield prod, sum(held.values())
        refaults = touched * (1000 - prod) / 1000
        pods = [cached(uid, usage=0, cache=int(mib * MIB)) for uid, mib in held.items()]
        readings = {"prod_memory_refaults": int(refaults * MIB), "node_memory_free": int(free * MIB)}
        state = guarded(rules, pods, state, when=second, **readings).state
        prod += min(refaults, free)


SPARE, DEMAND, TOUCHED = st.integers(200, 1000), st.integers(200, 800), st.integers(200, 500)


@settings(max_examples=25)
@given(SPARE, DEMAND, TOUCHED, st.integers(1, 5))
def test_the_loop_lowers_batch_until_prod_fits_and_no_further(
    spare: int, demand: int, touched: int, horizon: int
) -> None:
    bounds = replace(BOUNDS, min_bytes=64 * MIB, horizon_seconds=D(horizon))
    rules = ruled(REFAULTS, MIB, replace(THROTTLE, memory=bounds), cool_down_seconds=600)
    *_, (prod, batch) = thrash(rules, 60, spare, demand, touched)
    assert prod >= 1000 - 1000 / touched - 5, "what is left is below the waterline, or below the smallest change"
    assert batch >= min(2 * demand, spare) - touched * horizon - 2


@settings(max_examples=25)
@given(SPARE, DEMAND, TOUCHED)
def test_raises_cost_prod_little_and_give_batch_what_fits(spare: int, demand: int, touched: int) -> None:
    """A raise goes into what is free, or by a tenth: prod never loses more than that again."""
    bounds = replace(BOUNDS, min_bytes=64 * MIB, horizon_seconds=D(2))
    rules = ruled(REFAULTS, MIB, replace(THROTTLE, memory=bounds), cool_down_seconds=5)
    settled = list(thrash(rules, 300, spare, demand, touched))[60:]
    assert min(prod for prod, _ in settled) >= 1000 - 0.1 * spare - 1000 / touched - 10
    assert max(batch for _, batch in settled) >= min(2 * demand, spare) - 5


def test_pressure_takes_a_small_step_of_a_few_pods() -> None:
    limits = ActionLimits(blanket_throttles=1, blanket_step_ratio=D("0.2"))
    done = guarded(
        ruled(PRESSURE, 0.1),
        [cached("a"), cached("b")],
        prod_memory_pressure=0.5,
        options=replace(EXACT, limits=limits),
    )
    assert list(highs(done)) == ["a"]
    (step,) = done.cycle.plan.steps
    assert step.memory is not None
    assert step.memory.amount_bytes == pytest.approx(D("0.2") * 4 * GIB, abs=4096)


def test_eviction_is_asked_for_what_throttling_does_not_release() -> None:
    """4 GiB are held of which 1.1 GiB stay; the step allows 2 GiB of the gap, and the rest is evicted."""
    enough = guarded(ruled(USED, 10 * GIB, BOTH), [cached("a")], node_memory_usage=11 * GIB)
    assert [step.kind for step in enough.cycle.plan.steps] == [ActionKind.THROTTLE_MEMORY]
    more = guarded(ruled(USED, 10 * GIB, BOTH), [cached("a"), cached("b", cache=0)], node_memory_usage=13 * GIB)
    assert [(step.kind, step.uid) for step in more.cycle.plan.steps] == [
        (ActionKind.THROTTLE_MEMORY, "a"),
        (ActionKind.EVICT, "a"),
    ]


def test_what_a_new_limit_has_still_to_release_is_credited_to_both_and_then_no_longer() -> None:
    rules, pods = ruled(USED, 10 * GIB, BOTH), [cached("a")]
    first = guarded(rules, pods, node_memory_usage=11 * GIB)
    same = guarded(rules, pods, first.state, when=1, node_memory_usage=11 * GIB)
    assert same.cycle.plan.steps == ()
    assert same.state.memory == first.state.memory
    later = guarded(rules, pods, first.state, when=60, node_memory_usage=11 * GIB)
    assert ActionKind.THROTTLE_MEMORY in [step.kind for step in later.cycle.plan.steps]
    assert highs(later)["a"] < highs(first)["a"]


def test_an_unquantified_eviction_waits_while_memory_is_throttled() -> None:
    limits = ActionLimits(blanket_throttles=1, blanket_evictions=1)
    done = guarded(
        ruled(PRESSURE, 0.1, BOTH), [cached("a")], prod_memory_pressure=0.5, options=replace(EXACT, limits=limits)
    )
    assert [step.kind for step in done.cycle.plan.steps] == [ActionKind.THROTTLE_MEMORY]
    assert THROTTLED_FIRST in [one.because for one in done.cycle.plan.remaining]
    bare = guarded(
        ruled(PRESSURE, 0.1, BOTH),
        [cached("a", cache=0)],
        prod_memory_pressure=0.5,
        options=replace(EXACT, limits=limits),
    )
    assert [step.kind for step in bare.cycle.plan.steps] == [ActionKind.EVICT]


def test_limits_return_step_by_step_to_the_exact_original_in_reverse_order() -> None:
    rules = ruled(REFAULTS, MIB, cool_down_seconds=60)
    pods = [cached("a", original_memory_high_bytes=5 * GIB + 4096), cached("b")]
    state = guarded(rules, pods, prod_memory_refaults=300 * MIB).state
    low = {one.uid: one.high_bytes for one in state.memory}
    assert set(low) == {"a", "b"}
    assert guarded(rules, pods, state, when=30, prod_memory_refaults=0).cycle.plan.steps == ()
    first = guarded(rules, pods, state, when=61, prod_memory_refaults=0)
    assert [step.uid for step in first.cycle.plan.of(ActionKind.RESTORE_MEMORY)] == ["b", "a"]
    state, when = first.state, 61.0
    while state.memory:
        when += 11
        after = guarded(rules, pods, state, when=when, prod_memory_refaults=0)
        assert when < 600
        state = after.state
    backs = [step.memory.after_bytes for step in after.cycle.plan.steps if step.memory]
    assert set(backs) <= {None, 5 * GIB + 4096}


def test_a_relapse_doubles_the_wait() -> None:
    rules, pods = ruled(REFAULTS, MIB, cool_down_seconds=60), [cached("a")]
    state = guarded(rules, pods, prod_memory_refaults=300 * MIB).state
    state = guarded(rules, pods, state, when=61, prod_memory_refaults=0).state
    state = guarded(rules, pods, state, when=71, prod_memory_refaults=300 * MIB).state
    assert state.cycle.memory == MemoryBackoff(at(71), None, 1)
    assert guarded(rules, pods, state, when=140, prod_memory_refaults=0).cycle.plan.steps == ()
    assert guarded(rules, pods, state, when=192, prod_memory_refaults=0).cycle.plan.steps != ()


def test_a_mode_that_only_observes_and_a_rule_that_goes_release_wholly() -> None:
    rules, pods = ruled(REFAULTS, MIB), [cached("a", original_memory_high_bytes=5 * GIB)]
    state = guarded(rules, pods, prod_memory_refaults=300 * MIB).state
    plan, released = release(state, 1000)
    assert [step.memory.after_bytes for step in plan.steps if step.memory] == [5 * GIB]
    assert released.memory == ()
    gone = guarded(ruled("node_cpu_usage", 9999), pods, state, when=2)
    assert gone.state.memory == ()
    observed = guarded(rules, pods, prod_memory_refaults=300 * MIB, options=Options(Mode.OBSERVE, loop=LoopPolicy()))
    assert observed.state.memory == ()
    assert [one.kind for one in observed.cycle.recorded if not one.carried_out] == [ActionKind.THROTTLE_MEMORY]


def test_a_limit_in_force_or_a_refault_leaves_the_fast_path() -> None:
    rules, pods = ruled(REFAULTS, MIB), [cached("a")]
    calm = view(prod_memory_refaults=0)
    assert fast_path(calm, GuardState(), rules, at(0)) is not None
    assert fast_path(view(prod_memory_refaults=2 * MIB), GuardState(), rules, at(0)) is None
    state = guarded(rules, pods, prod_memory_refaults=300 * MIB).state
    assert fast_path(calm, state, rules, at(1)) is None


@given(
    st.floats() | st.integers(-1, 100 * MIB) | st.none(),
    st.builds(RuleState, st.just("nq.r"), st.integers(0, 2), st.integers(0, 3), st.booleans()),
)
def test_a_quick_look_never_differs_from_the_judgement(value: float | None, state: RuleState) -> None:
    one = rule(REFAULTS, MIB, name="r", restore_threshold=3)
    node, metric = view(prod_memory_refaults=value), BUILT_IN.get(REFAULTS)
    if is_still_calm(one, metric, node, state):
        verdict = judge(one, metric, node, state, at(0))
        assert (verdict.triggered, verdict.calm, verdict.state) == (False, True, state)


def test_a_settled_rule_is_told_calm_by_a_quick_look() -> None:
    one, metric = rule(REFAULTS, MIB, name="r", restore_threshold=3), BUILT_IN.get(REFAULTS)
    assert is_still_calm(one, metric, view(prod_memory_refaults=0.5), RuleState("nq.r", 0, 3))
    assert not is_still_calm(one, metric, view(prod_memory_refaults=2.0 * MIB), RuleState("nq.r", 0, 3))
    assert not is_still_calm(one, metric, view(), RuleState("nq.r", 0, 3))


crowds = st.lists(
    st.builds(cached, st.uuids().map(str), st.integers(0, 8 * GIB), st.integers(0, 8 * GIB)),
    max_size=6,
    unique_by=lambda pod: pod.uid,
)


@given(crowds, st.integers(1, 40 * GIB))
def test_releases_add_up_to_no_more_than_the_gap_and_floors_hold(pods: list[PodUse], gap: int) -> None:
    done = guarded(ruled(USED, GIB), pods, node_memory_usage=GIB + gap)
    released = sum(step.memory.amount_bytes for step in done.cycle.plan.steps if step.memory is not None)
    assert released < gap + PAGE_BYTES
    by_uid = {pod.uid: pod for pod in pods}
    assert all(high >= floor_bytes(by_uid[uid], BOUNDS) for uid, high in highs(done).items())
    (left,) = done.cycle.plan.remaining
    assert left.open == max(0, gap - released)
    again = guarded(ruled(USED, GIB), pods, done.state, node_memory_usage=GIB + gap)
    repeated = sum(step.memory.amount_bytes for step in again.cycle.plan.steps if step.memory is not None)
    assert released + repeated < gap + PAGE_BYTES, "what is pending is credited"

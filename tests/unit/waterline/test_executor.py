"""Exactly as far as the gap: with refusals, caps, evictions under way, modes and previews."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from waterline_crowd import crowds, use, view
from waterline_cycle import CPU, MEMORY, batch_crowds, cycle, evicted
from waterline_rules import EXACT, UNBOUND, at, policies, rule

from slackwater.decisions.reasons import Mode
from slackwater.waterline.actuation.cpu_quota import QuotaChange
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import Cycle, CycleState, Options, run_cycle
from slackwater.waterline.cycle_replay import plan_json
from slackwater.waterline.execution.executor import refused
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.execution.plan import ExecutorState, Plan, Remaining, Spared, Step, Underway
from slackwater.waterline.facts.node import MetricSeries
from slackwater.waterline.facts.pods import Container, PodUse

D = Decimal


# ---- credits


def test_an_eviction_credits_every_metric() -> None:
    big, small = use("a", cpu=3000, memory=5000), use("b", cpu=100, memory=4000)
    rules = policies(
        rule(CPU, 6500, "evict"), rule(MEMORY, 2000, "evict"), rule("node_cpu_usage_ratio", "0.6", "evict")
    )
    node = view(big, small, node_cpu_usage=9000, node_cpu_usage_ratio=0.9, node_memory_usage=6000)
    done = run_cycle(node, rules, CycleState(), at(0), options=EXACT)
    assert evicted(done) == ["a"]
    (step,) = done.plan.of(ActionKind.EVICT)
    assert dict(step.released) == {CPU: 3000, "node_cpu_usage_ratio": 3000, MEMORY: 5000}
    assert [one.open for one in done.plan.remaining] == [0, 0, 0], "more than was asked for is not less than nothing"
    (asked, *_) = done.analysis.evictions
    assert (step.name, step.metric, step.keys) == ("name-a", MEMORY, asked.candidates[0].keys)


def test_what_all_containers_of_a_pod_release_is_credited() -> None:
    two = use("a", cpu=3000, containers=(Container("x", 2000), Container("y", 1000)))
    done = cycle(policies(rule(CPU, 1000)), two, use("b", cpu=2900), **{CPU: 3900})
    (step,) = done.plan.steps
    assert (step.uid, dict(step.released), len(step.changes)) == ("a", {CPU: 2900}, 2)


def test_what_a_throttle_released_is_not_evicted_for() -> None:
    rules = policies(rule(CPU, 500), rule(CPU, 700, "evict"))
    done = cycle(rules, use("a", cpu=600), use("b", cpu=400), **{CPU: 1000})
    assert [(step.kind, step.uid) for step in done.plan.steps] == [(ActionKind.THROTTLE, "a")]
    floors = cycle(rules, use("a", cpu=20), use("b", cpu=400, priority=5999), **{CPU: 1200})
    assert {step.kind for step in floors.plan.steps} == {ActionKind.THROTTLE, ActionKind.EVICT}


def test_a_throttled_pod_that_is_evicted_is_credited_once() -> None:
    rules = policies(rule(CPU, 500), rule(CPU, 501, "evict"))
    done = cycle(rules, use("a", cpu=600), **{CPU: 2000})
    assert sum(amount for step in done.plan.steps for metric, amount in step.released if metric == CPU) == 600


def test_only_success_is_credited_and_the_next_is_tried() -> None:
    crowd = [use("a", cpu=500), use("b", cpu=400), use("c", cpu=300)]
    tried: list[str] = []

    def attempt(pod: PodUse) -> str | None:
        tried.append(pod.uid)
        return "its disruption budget is used up" if pod.uid == "a" else None

    done = cycle(policies(rule(CPU, 1000, "evict")), *crowd, attempt=attempt, **{CPU: 1450})
    assert (tried, evicted(done)) == (["a", "b", "c"], ["b", "c"])
    assert ("a", "its disruption budget is used up") in [(one.uid, one.because) for one in done.plan.spared]
    again = cycle(policies(rule(CPU, 1000, "evict")), *crowd, state=done.state, when=30, **{CPU: 1450})
    assert evicted(again) == [], "a was refused a moment ago, b and c are on their way"
    later = cycle(policies(rule(CPU, 1000, "evict")), crowd[0], state=done.state, when=61, **{CPU: 1450})
    assert evicted(later) == ["a"]


def test_evictions_under_way_are_credited_until_they_end_or_take_too_long() -> None:
    rules = policies(rule(CPU, 1000, "evict"))
    crowd = [use("a", cpu=500), use("b", cpu=400)]
    first = cycle(rules, *crowd, **{CPU: 1500})
    assert evicted(first) == ["a"]
    leaving = replace(crowd[0], is_terminating=True)
    assert evicted(cycle(rules, leaving, crowd[1], state=first.state, when=60, **{CPU: 1500})) == []
    assert evicted(cycle(rules, leaving, crowd[1], state=first.state, when=121, **{CPU: 1500})) == ["b"]
    assert evicted(cycle(rules, crowd[1], state=first.state, when=60, **{CPU: 1200})) == ["b"], "a is gone"


def test_an_eviction_that_was_refused_later_is_not_credited_any_more() -> None:
    rules = policies(rule(CPU, 1000, "evict"))
    crowd = [use("a", cpu=500), use("b", cpu=400)]
    first = cycle(rules, *crowd, **{CPU: 1500})
    back = refused(first.state.executor, "a", ActionKind.EVICT, "gone wrong", at(1), ActionLimits())
    second = cycle(rules, *crowd, state=replace(first.state, executor=back), when=2, **{CPU: 1500})
    assert evicted(second) == ["b"]


def test_a_failed_eviction_does_not_count_for_the_hour_and_a_failed_limit_changes_nothing() -> None:
    leaving = tuple(Underway(uid, at(120), at(0)) for uid in ("a", "b"))
    known = ExecutorState(leaving, begun_at=(at(0), at(0), at(-5)))
    back = refused(known, "a", ActionKind.EVICT, "gone wrong", at(1), ActionLimits())
    assert (back.underway, back.begun_at) == (leaving[1:], (at(0), at(-5))), "one of the two that began together"
    limit = refused(known, "a", ActionKind.THROTTLE, "the node could not write its limit", at(1), ActionLimits())
    assert (limit.underway, limit.begun_at) == (known.underway, known.begun_at)


def test_an_hour_is_over_after_an_hour() -> None:
    begun = replace(CycleState(), executor=ExecutorState(begun_at=(at(0),)))
    one = replace(EXACT, limits=replace(UNBOUND, evictions_per_hour=1))
    rules = policies(rule(CPU, 1000, "evict"))
    for second, gone in ((3599, []), (3600, ["a"])):
        assert evicted(cycle(rules, use("a"), state=begun, when=second, options=one, **{CPU: 1100})) == gone


def test_after_a_limit_that_cannot_be_written_the_next_pod_is_throttled() -> None:
    rules = policies(rule(CPU, 1000))
    broken = refused(
        CycleState().executor, "a", ActionKind.THROTTLE, "the node could not write its limit", at(0), ActionLimits()
    )
    done = cycle(rules, use("a"), use("b"), state=replace(CycleState(), executor=broken), **{CPU: 1100})
    assert [step.uid for step in done.plan.steps] == ["b"]
    assert "could not write" in done.plan.spared[0].because


# ---- bounds


@settings(max_examples=30)
@given(batch_crowds, st.integers(0, 3), st.integers(0, 5))
def test_caps_hold_per_cycle_and_per_hour(crowd: list[PodUse], per_cycle: int, per_hour: int) -> None:
    limits = ActionLimits(evictions_per_cycle=per_cycle, evictions_per_hour=per_hour, underway_seconds=0)
    options = Options(excess=Excess(D(0)), limits=limits)
    state, begun = CycleState(), []
    for number in range(6):
        done = cycle(
            policies(rule(CPU, 1, "evict")), *crowd, state=state, when=number * 60, options=options, **{CPU: 9999}
        )
        assert len(evicted(done)) <= per_cycle
        begun += [number * 60 for _ in evicted(done)]
        state = done.state
        (left,) = done.plan.remaining
        assert left.is_closed or left.because
    assert len(begun) <= per_hour
    hour_later = cycle(
        policies(rule(CPU, 1, "evict")), *crowd, state=state, when=3_600 + 301, options=options, **{CPU: 9999}
    )
    possible = [pod for pod in crowd if pod.cpu_usage_milli]
    assert len(evicted(hour_later)) == min(len(possible), per_cycle, per_hour)


def test_a_cap_is_the_recorded_reason() -> None:
    options = Options(excess=Excess(D(0)), limits=ActionLimits(evictions_per_cycle=1))
    done = cycle(policies(rule(CPU, 1, "evict")), use("a"), use("b"), options=options, **{CPU: 9999})
    assert done.plan.remaining[0].because == "no more than 1 evictions in one cycle"
    assert [one.because for one in done.plan.spared] == ["no more than 1 evictions in one cycle"]


def test_an_unquantified_metric_throttles_no_pod_unless_allowed_and_then_few() -> None:
    crowd = [use(name, memory=5) for name in "abcd"]
    rules = policies(rule("node_memory_pressure", "0.1", "evict"), rule(MEMORY, 7, "evict"))
    node = view(*crowd, node_memory_pressure=0.5, node_memory_usage=12)
    alone = policies(rule("node_memory_pressure", "0.1", "evict"))
    assert evicted(run_cycle(node, alone, CycleState(), at(0))) == [], "off by default"
    default = run_cycle(node, rules, CycleState(), at(0), options=EXACT)
    assert evicted(default) == ["a"], "the known metric is worked off exactly"
    unknown = {one.metric: one for one in default.plan.remaining}["node_memory_pressure"]
    assert (unknown.gap, unknown.because) == (None, "node_memory_pressure cannot be quantified")
    blanket = replace(EXACT, limits=replace(UNBOUND, blanket_evictions=2))
    first = run_cycle(node, rules, CycleState(), at(0), options=blanket)
    assert evicted(first) == ["a", "b"]
    assert evicted(run_cycle(node, rules, first.state, at(1), options=blanket)) == [], "as many are on their way"
    later = replace(node, pods=node.pods[2:], readings=node.readings | {MEMORY: (MetricSeries(2),)})
    assert evicted(run_cycle(later, rules, first.state, at(2), options=blanket)) == ["c", "d"], "they are gone"


def test_an_unknown_quantity_throttles_few_pods_by_little() -> None:
    crowd = [use(name, cpu=1000) for name in "abcd"]
    node = replace(view(*crowd, node_cpu_usage_ratio=0.9), capacity_milli=None)
    done = run_cycle(node, policies(rule("node_cpu_usage_ratio", "0.5")), CycleState(), at(0), options=EXACT)
    assert [(step.uid, step.changes[0].after_us) for step in done.plan.steps] == [("a", 80_000), ("b", 80_000)]
    nobody = replace(EXACT, limits=replace(UNBOUND, blanket_throttles=0))
    assert not run_cycle(
        node, policies(rule("node_cpu_usage_ratio", "0.5")), CycleState(), at(0), options=nobody
    ).plan.steps


def test_an_unquantified_metric_does_not_prevent_an_exact_throttle_for_another() -> None:
    node = view(*(use(name, cpu=1000) for name in "abcd"), node_cpu_usage=4500, prod_cpu_pressure=0.5)
    rules = policies(rule("prod_cpu_pressure", "0.1"), rule(CPU, 4000))
    done = run_cycle(node, rules, CycleState(), at(0), options=EXACT)
    taken = [(step.uid, sum(one.amount_milli for one in step.changes)) for step in done.plan.steps]
    assert taken == [("a", 500), ("b", 200), ("c", 200)]


def test_without_a_sample_no_pod_is_throttled() -> None:
    done = cycle(policies(rule(CPU, 1), rule(CPU, 1, "evict")), use("a"), **{CPU: None})
    assert done.plan.steps == ()
    assert {one.because for one in done.analysis.ignored} == {"no reading of node_cpu_usage"}


def test_a_pod_whose_usage_is_unknown_is_not_evicted_for_it() -> None:
    done = cycle(policies(rule(CPU, 1, "evict")), use("a", cpu=None), **{CPU: 9999})
    assert done.plan.steps == ()
    assert done.plan.spared[0].because == "it would release nothing that was measured"


# ---- giving back, modes and previews


def test_the_most_important_gets_back_first_and_only_the_headroom_is_given() -> None:
    low = use("a", priority=5000, containers=(Container("c", 100, 10_000),))
    high = use("b", priority=5999, containers=(Container("c", 100, 10_000),))
    done = cycle(policies(rule(CPU, 1000)), low, high, **{CPU: 850})
    assert [(step.uid, step.changes[0].after_us) for step in done.plan.steps] == [("b", 20_000), ("a", 15_000)]
    tight = cycle(policies(rule(CPU, 1000)), low, high, **{CPU: 930})
    assert [(step.uid, step.changes[0].after_us) for step in tight.plan.steps] == [("b", 17_000)]
    assert tight.plan.spared[-1].because == "no headroom is left"


def test_what_the_mode_does_not_allow_is_planned_and_recorded_only() -> None:
    rules = policies(rule(CPU, 1000), rule(CPU, 1000, "evict"))
    pods = use("a", cpu=60), use("b", cpu=600)
    full = cycle(rules, *pods, options=replace(EXACT, mode=Mode.EVICT), **{CPU: 2000})
    some = cycle(rules, *pods, options=replace(EXACT, mode=Mode.THROTTLE), **{CPU: 2000})
    none = cycle(rules, *pods, options=replace(EXACT, mode=Mode.OBSERVE), **{CPU: 2000})
    assert {step.kind for step in full.plan.steps} == {ActionKind.THROTTLE, ActionKind.EVICT}
    assert {step.kind for step in some.plan.steps} == {ActionKind.THROTTLE}
    assert {step.kind for step in some.dry_run.steps} == {ActionKind.EVICT}
    assert none.plan.steps == ()
    assert {step.kind for step in none.dry_run.steps} == {ActionKind.THROTTLE, ActionKind.EVICT}
    assert none.dry_run.steps == full.plan.steps
    assert none.state.executor == CycleState().executor, "what is only recorded is not pending"
    assert full.analysis.scheduling.scheduling.is_disabled
    assert not none.analysis.scheduling.scheduling.is_disabled, "observing closes no node"


def test_in_observe_mode_earlier_throttles_are_restored() -> None:
    throttled = use("a", containers=(Container("c", 100, 10_000, 20_000),))
    observed = cycle(policies(rule(CPU, 1)), throttled, options=replace(EXACT, mode=Mode.OBSERVE), **{CPU: 2000})
    assert [step.changes[0].after_us for step in observed.plan.of(ActionKind.RESTORE)] == [20_000]
    assert not observed.dry_run.of(ActionKind.RESTORE), "it is done, and not only told"


def test_a_pod_under_eviction_is_not_restored() -> None:
    throttled = use("a", containers=(Container("c", 100, 10_000),))
    rules = policies(rule(CPU, 1000))
    assert not cycle(rules, replace(throttled, is_terminating=True), **{CPU: 100}).plan.steps
    assert not cycle(rules, replace(throttled, is_active=False), **{CPU: 100}).plan.steps
    leaving = replace(CycleState(), executor=ExecutorState((Underway("a", at(60)),)))
    assert not cycle(rules, throttled, state=leaving, **{CPU: 100}).plan.steps
    assert cycle(rules, throttled, **{CPU: 100}).plan.steps


@settings(max_examples=30)
@given(crowds, st.integers(1001, 9000))
def test_all_that_a_cycle_takes_and_gives_survives_json(crowd: list[PodUse], cpu: int) -> None:
    rules = policies(rule(CPU, 1000), rule(CPU, 1200, "evict"))
    done = cycle(rules, *crowd, **{CPU: cpu})
    for value in (done.state, rules, view(*crowd)):
        kind = TypeAdapter[Any](type(value))
        assert kind.validate_json(kind.dump_json(value)) == value


@settings(max_examples=30)
@given(crowds, st.integers(1001, 9000))
def test_a_plan_survives_json(crowd: list[PodUse], cpu: int) -> None:
    done = cycle(policies(rule(CPU, 1000), rule(CPU, 1200, "evict")), *crowd, **{CPU: cpu})
    told = json.loads(json.dumps(plan_json(done.plan)))
    steps = tuple(_step(one) for one in told["steps"])
    spared = tuple(Spared(**one | {"kind": ActionKind(one["kind"])}) for one in told["spared"])
    remaining = TypeAdapter(tuple[Remaining, ...]).validate_python(told["remaining"])
    assert Plan(steps, spared, remaining, done.state.executor) == done.plan
    assert told == plan_json(done.plan)


def _step(told: dict[str, Any]) -> Step:
    changes = TypeAdapter(tuple[QuotaChange, ...]).validate_python(told["changes"])
    released = tuple((metric, D(amount)) for metric, amount in told["released"])
    read = {"kind": ActionKind(told["kind"]), "keys": tuple(told["keys"]), "released": released, "changes": changes}
    return Step(**told | read)


def test_a_preview_leaves_everything_as_it_is() -> None:
    done = cycle(policies(rule(CPU, 1000, "evict", is_preview=True)), use("a"), **{CPU: 1100})
    assert done.plan.steps == ()
    assert [step.uid for step in done.dry_run.steps] == ["a"]
    assert done.dry_run.remaining[0].is_closed


# ---- a closed loop


@settings(max_examples=30)
@given(
    st.lists(st.integers(100, 2000), min_size=1, max_size=5),
    st.integers(0, 3000),
    st.sampled_from([5.0, 10.0, 30.0]),
    st.integers(0, 20).map(lambda percent: D(percent) / 100),
)
def test_constant_load_brings_no_state_back_within_the_cool_down(
    wanted: list[int], prod: int, cool_down: float, excess: Decimal
) -> None:
    rules = policies(rule(CPU, 3000, cool_down_seconds=cool_down))
    options = Options(excess=Excess(excess), limits=UNBOUND)
    quotas: dict[str, int | None] = {f"{number}": None for number in range(len(wanted))}
    state, history = CycleState(), []
    for second in range(90):
        pods = [_limited(uid, wanted[int(uid)], quota) for uid, quota in quotas.items()]
        total = prod + sum(int(pod.cpu_usage_milli or 0) for pod in pods)
        done = cycle(rules, *pods, state=state, when=second, options=options, **{CPU: total})
        state = done.state
        for change in (change for step in done.plan.steps for change in step.changes):
            quotas[change.uid] = change.after_us
        history.append((second, dict(quotas)))
    changes = [(when, now) for (_, before), (when, now) in pairwise(history) if before != now]
    for place, (when, now) in enumerate(changes):
        for earlier, before in changes[:place]:
            assert now != before or when - earlier >= cool_down
    floors = prod + 10 * len(wanted)
    total = prod + sum(min(want, (quotas[f"{n}"] or 10**9) // 100) for n, want in enumerate(wanted))
    assert total <= max(3000, floors)


def _limited(uid: str, wanted: int, quota: int | None) -> PodUse:
    used = wanted if quota is None else min(wanted, quota // 100)
    return use(uid, cpu=used, containers=(Container("c", used, quota),))


@settings(max_examples=30)
@given(crowds, st.integers(1001, 9000))
def test_throttle_and_full_restore_is_the_identity_on_every_file(crowd: list[PodUse], cpu: int) -> None:
    rules, state, pods = policies(rule(CPU, 1000)), CycleState(), list(crowd)
    for second in range(200):
        reading = cpu if second < 3 else 0
        node = replace(view(*pods, **{CPU: reading}), capacity_milli=10_000)
        done = run_cycle(node, rules, state, at(second), options=EXACT)
        state = done.state
        pods = [_changed(pod, done) for pod in pods]
        if second >= 3 and not done.plan.steps:
            break
    assert _quotas(pods) == _quotas(crowd)
    assert state.executor == CycleState().executor


def _quotas(pods: Iterable[PodUse]) -> list[list[int | None]]:
    return [[one.quota_us for one in pod.containers] for pod in pods]


def _changed(pod: PodUse, done: Cycle) -> PodUse:
    """What the next sample sees: no pod uses more than its quota."""
    quotas = {one.container: one.after_us for step in done.plan.steps for one in step.changes if one.uid == pod.uid}
    return replace(
        pod,
        containers=tuple(
            replace(one, quota_us=quota, usage_milli=min(one.usage_milli, (quota or 10**9) // 100))
            if one.usage_milli is not None
            else one
            for one in pod.containers
            for quota in [quotas.get(one.name, one.quota_us)]
        ),
    )


def test_underway_ends_exactly_with_its_time() -> None:
    done = cycle(policies(rule(CPU, 1000, "evict")), use("a"), **{CPU: 1100})
    assert done.state.executor.underway[0].until == at(0) + timedelta(seconds=120)

"""One decision at a time: counting, order, floors, holding, telling, and repeating it from JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterline_plant import PRESSURE_RULE, START, pod, policy, snapshot

from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.model.tiers import PRIORITY_RANGES, QoSClass, Tier
from slackwater.waterline import codec
from slackwater.waterline.candidates import in_order, order_key, protection
from slackwater.waterline.plan import LimitChange, Plan
from slackwater.waterline.planner import plan, release, replay, replay_release
from slackwater.waterline.policy import Rule, ThrottlePolicy
from slackwater.waterline.snapshot import PodSample, Snapshot
from slackwater.waterline.state import GuardState, Throttled, confirmed, refused
from slackwater.waterline.throttling import floor_milli


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


PROD = pod("p", Tier.PROD, 1000)


@st.composite
def pods(draw: st.DrawFn) -> PodSample:
    tier = draw(st.sampled_from(list(Tier)))
    return pod(
        draw(st.uuids().map(str)),
        tier,
        draw(st.integers(0, 4000)),
        qos=draw(st.sampled_from(list(QoSClass))),
        priority=draw(st.sampled_from(PRIORITY_RANGES[tier])),
        request=draw(st.integers(0, 4000)),
        original=draw(st.none() | st.integers(10, 8000)),
        age=draw(st.integers(0, 3)),
    )


crowds = st.lists(pods(), max_size=12, unique_by=lambda p: p.uid)
throttle_policies = st.builds(
    ThrottlePolicy,
    excess_ratio=st.floats(0, 1),
    min_cpu_milli=st.integers(0, 500),
    min_request_ratio=st.floats(0, 1),
)


def surged(*batch: PodSample, pressure: float | None = 0.5, when: float = 0) -> Snapshot:
    return snapshot(PROD, *batch, pressure=pressure, at=when)


# ---- how far


@given(crowds, st.floats(0.11, 1.0), throttle_policies)
def test_no_plan_touches_a_protected_pod_or_goes_below_a_floor_or_beyond_the_gap(
    crowd: list[PodSample], pressure: float, throttle: ThrottlePolicy
) -> None:
    seen = snapshot(*crowd, pressure=pressure)
    made = plan(seen, GuardState(), policy(throttle=throttle), START).plan
    by_uid = {p.uid: p for p in crowd}
    assert made.released_milli <= (1 + throttle.excess_ratio) * made.gap_milli
    for change in made.changes:
        target = by_uid[change.uid]
        assert target.tier in (Tier.BATCH, Tier.FREE)
        assert target.qos is QoSClass.BE
        assert change.after_milli is not None
        assert change.after_milli >= floor_milli(target, throttle)
        assert change.after_milli < target.usage_milli
        assert change.before_milli is None or change.after_milli < change.before_milli
        assert change.released_milli >= 1
    assert {c.uid for c in made.changes} | {s.uid for s in made.spared} == (set(by_uid) if made.kind else set())


@given(crowds, st.floats(0.11, 1.0))
def test_no_change_can_be_left_out_without_reopening_the_gap(crowd: list[PodSample], pressure: float) -> None:
    made = plan(snapshot(*crowd, pressure=pressure), GuardState(), policy(), START).plan
    target = int(made.gap_milli * 1.1)
    for index, _ in enumerate(made.changes):
        others = sum(c.released_milli for i, c in enumerate(made.changes) if i != index)
        assert others < target


@given(crowds, st.randoms(use_true_random=False), st.floats(0.11, 1.0))
def test_shuffled_pods_give_the_same_plan_because_the_order_is_total(
    crowd: list[PodSample], random: Random, pressure: float
) -> None:
    shuffled = list(crowd)
    random.shuffle(shuffled)
    assert in_order(crowd) == in_order(shuffled)
    assert len({order_key(p) for p in crowd}) == len(crowd)
    plans = [plan(snapshot(*p, pressure=pressure), GuardState(), policy(), START).plan for p in (crowd, shuffled)]
    assert plans[0] == plans[1]


def test_free_goes_before_batch_then_low_priority_then_the_biggest_then_the_newest() -> None:
    ordered = [
        pod("free", Tier.FREE, 10),
        pod("low", usage=10, priority=5100),
        pod("big", usage=900),
        pod("new", usage=500, age=1),
        pod("a-old", usage=500, age=50),
        pod("b-old", usage=500, age=50),
    ]
    assert [p.uid for p in in_order(reversed(ordered))] == [p.uid for p in ordered]


def test_the_gap_is_what_prod_lacked_and_a_tenth_more() -> None:
    made = plan(surged(pod("b", usage=1000), pressure=0.2), GuardState(), policy(), START).plan
    assert made.gap_milli == 250  # 1000 x 0.2 / 0.8
    assert made.changes == (LimitChange("b", "name-b", "batch", None, 725, 275),)


@pytest.mark.parametrize(
    ("sample", "because"),
    [
        (pod("x", Tier.PROD), "tier prod is protected"),
        (pod("x", Tier.MID), "tier mid is protected"),
        (pod("x", qos=QoSClass.LSR), "QoS class LSR is protected"),
        (pod("x", qos=QoSClass.SYSTEM), "QoS class SYSTEM is protected"),
        (pod("x", usage=0), "uses nothing"),
        (pod("x", usage=40), "at its floor"),
        (pod("x", usage=60), "would release less than the smallest change"),
    ],
)
def test_a_spared_pod_has_its_reason_and_the_gap_stays_open_with_one(sample: PodSample, because: str) -> None:
    made = plan(surged(sample), GuardState(), policy(), START).plan
    assert made.changes == ()
    assert ("x", because) in [(s.uid, s.because) for s in made.spared]
    assert made.remaining_milli > 0
    assert made.remaining_because.startswith("no pod" if protection(sample) else "every pod")


def test_a_gap_that_nobody_can_close_is_told_once_per_episode() -> None:
    first = plan(surged(), GuardState(), policy(), START)
    second = plan(surged(when=1), first.state, policy(), at(1))
    assert first.plan.kind is DecisionKind.THROTTLE
    assert second.plan.kind is None
    calm = second.state
    for when in (2, 3):
        calm = plan(surged(pressure=0.0, when=when), calm, policy(), at(when)).state
    assert plan(surged(when=4), calm, policy(), at(4)).plan.kind is DecisionKind.THROTTLE


def test_a_limit_in_force_is_credited_although_the_sample_still_shows_more_use() -> None:
    state = GuardState(throttles=(Throttled("b", "name-b", "batch", 200, None),))
    made = plan(surged(pod("b", usage=900)), state, policy(), START).plan
    assert made.changes == (LimitChange("b", "name-b", "batch", 200, 50, 150),)


# ---- when


def counts(pressures: list[float | None], rule: Rule) -> list[DecisionKind | None]:
    state, kinds = GuardState(), []
    for when, pressure in enumerate(pressures):
        outcome = plan(surged(pod("b", usage=1000), pressure=pressure, when=when), state, policy(rule), at(when))
        state = confirmed(outcome.state, at(when - 1)) if outcome.plan.carried_out else outcome.state
        kinds.append(outcome.plan.kind)
    return kinds


def test_a_sample_below_starts_the_count_again_and_equal_is_not_above() -> None:
    rule = replace(PRESSURE_RULE, avoidance_threshold=2)
    assert counts([0.5, 0.05, 0.5, 0.10, 0.5], rule) == [None] * 5
    assert counts([0.5, 0.5], rule) == [None, DecisionKind.THROTTLE]


def test_a_missing_reading_counts_for_nothing_and_its_reason_is_kept() -> None:
    rule = replace(PRESSURE_RULE, avoidance_threshold=2)
    assert counts([0.5, None, 0.5], rule) == [None, None, DecisionKind.THROTTLE]
    outcome = plan(surged(pressure=None), GuardState(), policy(), START)
    assert outcome.state.counts[0].missing == outcome.plan.idle_because == "no reading of prod_cpu_pressure"


def test_restoring_goes_on_while_it_stays_below() -> None:
    """Level-triggered: one restored sample after another gives back, not one per episode."""
    limits = tuple(Throttled(uid, uid, "batch", 50, None) for uid in "abcd")
    state = GuardState(throttles=limits, demand_at_trigger_milli=2000)
    batch = [pod(uid, usage=20) for uid in "abcd"]
    steps = 0
    for when in range(20):
        calm = snapshot(pod("p", Tier.PROD, 100), *batch, pressure=0.0, at=when)
        outcome = plan(calm, state, policy(), at(when))
        state = confirmed(outcome.state, at(when)) if outcome.plan.carried_out else outcome.state
        steps += outcome.plan.carried_out
    assert state.throttles == ()
    assert steps > 4


def test_nothing_is_given_back_before_the_cool_down_is_over_nor_before_enough_samples() -> None:
    state = GuardState(
        throttles=(Throttled("b", "b", "batch", 100, None),), demand_at_trigger_milli=2000, last_trigger_at=at(0)
    )
    kinds = []
    for when in (1, 2, 3, 4):
        calm = snapshot(pod("p", Tier.PROD, 100), pod("b", usage=100), pressure=0.0, at=when)
        outcome = plan(calm, state, policy(), at(when))
        state, kinds = outcome.state, [*kinds, outcome.plan.kind]
    assert kinds == [None, None, DecisionKind.RESTORE, None]


def test_after_a_change_it_waits_for_the_confirmation_and_for_a_sample_that_shows_it() -> None:
    first = plan(surged(pod("b", usage=900), pressure=0.2), GuardState(), policy(), START)
    assert first.state.throttles[0].limit_milli == 625
    held = plan(surged(pod("b", usage=900), pressure=0.2, when=1), first.state, policy(), at(1))
    assert held.plan.idle_because == "the node has not confirmed the last change"
    seen = confirmed(held.state, at(1.2))
    stale = plan(surged(pod("b", usage=625), pressure=0.2, when=1.5), seen, policy(), at(1.6))
    assert stale.plan.idle_because == "the sample is older than the last change"
    again = plan(surged(pod("b", usage=625), pressure=0.2, when=2), stale.state, policy(), at(2))
    assert again.plan.changes[0].before_milli == 625


def test_a_confirmation_that_never_comes_is_not_waited_for_for_ever() -> None:
    first = plan(surged(pod("b", usage=900), pressure=0.2), GuardState(), policy(), START)
    late = plan(surged(pod("b", usage=900), pressure=0.2, when=11), first.state, policy(), at(11))
    assert late.plan.kind is DecisionKind.THROTTLE


def test_a_raise_that_is_answered_by_a_trigger_doubles_the_next_wait_once() -> None:
    state = GuardState(last_raise_at=at(0), throttles=(Throttled("b", "b", "batch", 100, None),))
    first = plan(surged(pod("b", usage=100), when=5), state, policy(), at(5))
    second = plan(surged(pod("b", usage=100), when=6), confirmed(first.state, at(5)), policy(), at(6))
    assert (first.state.backoff, second.state.backoff) == (1, 1)


def test_a_throttled_pod_that_has_ended_is_forgotten() -> None:
    state = GuardState(throttles=(Throttled("gone", "gone", "batch", 100, None),))
    outcome = plan(surged(pressure=0.05), state, policy(), START)
    assert outcome.plan.forgotten == ("gone",)
    assert outcome.state.throttles == ()


@given(st.none() | st.integers(51, 8000))
def test_the_last_step_leaves_no_limit_at_all(original: int | None) -> None:
    state = GuardState(throttles=(Throttled("b", "b", "batch", 50, original),), demand_at_trigger_milli=2000)
    rule = replace(PRESSURE_RULE, restore_threshold=1)
    for when in range(4):
        calm = snapshot(pod("p", Tier.PROD, 0), pod("b", usage=0, original=original), pressure=0.0, at=when)
        outcome = plan(calm, state, policy(rule), at(when))
        for change in outcome.plan.changes:
            assert change.after_milli is None or change.after_milli < min(2000, original or 2000)
        state = confirmed(outcome.state, at(when)) if outcome.plan.carried_out else outcome.state
    assert state.throttles == ()


# ---- modes


def test_observe_tells_the_same_plan_once_and_changes_nothing() -> None:
    seen = surged(pod("b", usage=900))
    acted = plan(seen, GuardState(), policy(), START)
    told = plan(seen, GuardState(), policy(mode=Mode.OBSERVE), START)
    assert told.plan.changes == acted.plan.changes
    assert (told.plan.reason, told.plan.carried_out) == (Reason.THROTTLE_OBSERVED_ONLY, False)
    assert told.state.throttles == ()
    assert plan(replace(seen, sampled_at=at(1)), told.state, policy(mode=Mode.OBSERVE), at(1)).plan.kind is None


def test_switching_to_observe_gives_everything_back_at_once() -> None:
    state = GuardState(throttles=(Throttled("b", "b", "batch", 100, None), Throttled("c", "c", "free", 50, 400)))
    outcome = plan(surged(pod("b"), pod("c")), state, policy(mode=Mode.OBSERVE), START)
    assert outcome.plan.reason is Reason.RESTORE_MODE_CHANGED
    assert [(c.uid, c.after_milli, c.released_milli) for c in outcome.plan.changes] == [
        ("b", None, -1900),
        ("c", None, -350),
    ]
    assert outcome.state.throttles == ()


# ---- again, from JSON


@given(crowds, st.none() | st.floats(0, 1), st.sampled_from([Mode.OBSERVE, Mode.THROTTLE]), throttle_policies)
def test_every_plan_is_repeated_exactly_from_its_json(
    crowd: list[PodSample], pressure: float | None, mode: Mode, throttle: ThrottlePolicy
) -> None:
    seen, state, rules = snapshot(*crowd, pressure=pressure), GuardState(), policy(mode=mode, throttle=throttle)
    for when in range(3):
        now = at(when)
        wire = json.loads(
            json.dumps(
                {
                    "snapshot": codec.to_json(seen),
                    "state": codec.to_json(state),
                    "policy": codec.to_json(rules),
                    "now": codec.to_json(now),
                }
            )
        )
        outcome = plan(seen, state, rules, now)
        assert replay(**wire) == codec.to_json(outcome.plan)
        assert codec.state_of(json.loads(json.dumps(codec.to_json(outcome.state)))) == outcome.state
        state, seen = outcome.state, replace(seen, prod_pressure=0.0, sampled_at=at(when + 20))


def test_a_release_is_repeated_from_its_json() -> None:
    state = GuardState(throttles=(Throttled("b", "b", "batch", 100, None),))
    made: Plan = release(state, 2000).plan
    assert replay_release(state=codec.to_json(state), capacity_milli=2000) == codec.to_json(made)


# ---- refused


def test_a_refused_limit_is_not_counted_and_its_pod_not_asked_again_in_this_episode() -> None:
    first = plan(surged(pod("b", usage=900), pod("c", usage=900), pressure=0.2), GuardState(), policy(), START)
    assert [t.uid for t in first.state.throttles] == ["b"]
    state = refused(first.state, "b", None)
    again = plan(surged(pod("b", usage=900), pod("c", usage=900), when=2), confirmed(state, at(1)), policy(), at(2))
    assert [change.uid for change in again.plan.changes] == ["c"]
    assert ("b", "the node could not write its limit") in [(s.uid, s.because) for s in again.plan.spared]


def test_a_refused_raise_keeps_the_limit_that_is_in_force() -> None:
    state = GuardState(throttles=(Throttled("b", "b", "batch", 500, None),))
    assert refused(state, "b", 300).throttles == (Throttled("b", "b", "batch", 300, None),)


@pytest.mark.parametrize(("backoff", "raised"), [(0, 400), (1, 200), (2, 100), (6, None)])
def test_idle_cpu_goes_back_in_smaller_parts_after_each_relapse(backoff: int, raised: int | None) -> None:
    state = GuardState(
        throttles=(Throttled("b", "b", "batch", 500, None),), demand_at_trigger_milli=1000, backoff=backoff
    )
    rule = replace(PRESSURE_RULE, restore_threshold=1)
    calm = snapshot(pod("p", Tier.PROD, 1000), pod("b", usage=500), pressure=0.0)
    waiting = replace(state, last_trigger_at=at(-4 * 2**backoff))
    made = plan(calm, waiting, policy(rule), at(0)).plan
    assert [change.after_milli for change in made.changes] == ([] if raised is None else [500 + raised])


@pytest.mark.parametrize(
    ("backoff", "waited", "is_raised"), [(0, 3, True), (0, 2, False), (2, 11, False), (2, 12, True)]
)
def test_each_relapse_doubles_the_cool_down(backoff: int, waited: float, is_raised: bool) -> None:
    state = GuardState(
        throttles=(Throttled("b", "b", "batch", 500, None),),
        demand_at_trigger_milli=2000,
        backoff=backoff,
        last_trigger_at=at(-waited),
    )
    rule = replace(PRESSURE_RULE, restore_threshold=1)
    calm = snapshot(pod("p", Tier.PROD, 100), pod("b", usage=500), pressure=0.0)
    assert bool(plan(calm, state, policy(rule), at(0)).plan.changes) is is_raised

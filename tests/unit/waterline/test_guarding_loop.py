"""The closed loop one cycle at a time: holding, backoff, probing, telling once, and the quick look at a calm node."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import crowds
from waterline_loop import CLOSED_LOOP, at, held, line, of, pod, seen, under

from slackwater.decisions.reasons import Mode
from slackwater.model.tiers import Tier
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import Throttled, limits_of
from slackwater.waterline.loop.feedback import Crossing, LoopPolicy, LoopState, after_trigger, allowance, is_relapse
from slackwater.waterline.node_guard import (
    GuardResult,
    GuardState,
    concerned,
    confirmed,
    eviction_failed,
    fast_path,
    guard,
    refused,
    release,
    under_new_rules,
)
from slackwater.waterline.registry.built_in import BUILT_IN

PROD = pod("p", Tier.PROD, 1000)
RULES = under()
HELD = "the node has not confirmed the last change"


def test_the_cut_is_what_prod_lacked_and_a_tenth_more_in_whole_milli_cores() -> None:
    made = guard(seen(PROD, pod("b", cpu=1000), pressure=0.2), GuardState(), RULES, at(0), CLOSED_LOOP)
    assert made.state.throttles == (Throttled("b", "name-b", "batch", 725, None),)  # 1000 x 0.2 / 0.8 x 1.1 = 275
    odd = guard(seen(PROD, pod("b", cpu=1000), pressure=0.3), GuardState(), RULES, at(0), CLOSED_LOOP)
    (step,) = odd.cycle.plan.of(ActionKind.THROTTLE)
    assert limits_of(step) == (None, 529)  # 471.4 are lacking: not one milli-core more than that
    assert int(odd.cycle.plan.remaining[0].open or 0) == 0


def test_after_a_change_it_waits_for_the_confirmation_and_for_a_sample_that_shows_it() -> None:
    first = guard(seen(PROD, pod("b", cpu=900), pressure=0.2), GuardState(), RULES, at(0), CLOSED_LOOP)
    ours = first.state.by_uid()["b"]
    again = seen(PROD, pod("b", cpu=900, ours=ours), pressure=0.2, when=1)
    waiting = guard(again, first.state, RULES, at(1), CLOSED_LOOP)
    assert (waiting.cycle.held_because, waiting.cycle.plan.steps) == (HELD, ())
    told = confirmed(waiting.state, at(1.2))
    stale = guard(replace(again, sampled_at=at(1.5)), told, RULES, at(1.6), CLOSED_LOOP)
    assert stale.cycle.held_because == "the sample is older than the last change"
    shows = seen(PROD, pod("b", cpu=625, ours=ours), pressure=0.2, when=2)
    assert of(guard(shows, stale.state, RULES, at(2), CLOSED_LOOP).cycle.plan, ActionKind.THROTTLE) == ["b"]


def test_a_confirmation_that_never_comes_is_not_waited_for_for_ever() -> None:
    first = guard(seen(PROD, pod("b", cpu=900), pressure=0.2), GuardState(), RULES, at(0), CLOSED_LOOP)
    later = seen(PROD, pod("b", cpu=900, ours=first.state.by_uid()["b"]), pressure=0.2, when=11)
    assert guard(later, first.state, RULES, at(9.9), CLOSED_LOOP).cycle.held_because == HELD
    late = guard(later, first.state, RULES, at(11), CLOSED_LOOP)
    (step,) = late.cycle.plan.of(ActionKind.THROTTLE)
    assert limits_of(step) == (625 + 25 - 25, 350), "a limit in force is credited although the sample shows more use"


def test_a_clock_that_was_set_back_is_not_waited_for() -> None:
    """Confirmed or not: the change lies an hour ahead, and the hour would have to pass again."""
    first = guard(seen(PROD, pod("b", cpu=900), pressure=0.2), GuardState(), RULES, at(0), CLOSED_LOOP)
    crossed = seen(PROD, pod("b", cpu=600, ours=first.state.by_uid()["b"]), pressure=0.2, when=-3600)
    for state in (first.state, confirmed(first.state, at(0.1))):
        assert of(guard(crossed, state, RULES, at(-3600), CLOSED_LOOP).cycle.plan, ActionKind.THROTTLE) == ["b"]
    ahead = confirmed(first.state, at(9))  # the node's clock is nine seconds ahead of ours
    late = guard(replace(crossed, sampled_at=at(9.4)), ahead, RULES, at(0.5), CLOSED_LOOP)
    assert late.cycle.held_because == "the sample is older than the last change"


def test_a_raise_that_is_answered_by_a_trigger_doubles_the_next_wait_once() -> None:
    state = held(100, last_raise_at=at(0))
    ours = state.by_uid()["b"]
    first = guard(seen(PROD, pod("b", cpu=100, ours=ours), when=5), state, RULES, at(5), CLOSED_LOOP)
    second = guard(
        seen(PROD, pod("b", cpu=100, ours=first.state.by_uid()["b"]), when=6),
        confirmed(first.state, at(5)),
        RULES,
        at(6),
        CLOSED_LOOP,
    )
    assert (first.state.cycle.loop.backoff, second.state.cycle.loop.backoff) == (1, 1)


@given(st.integers(0, 6), st.booleans(), st.floats(0, 200))
def test_backoff_grows_only_after_a_raise_and_falls_only_after_a_long_calm(
    backoff: int, raised: bool, calm: float
) -> None:
    now, policy = at(1000), LoopPolicy()
    before = now - timedelta(seconds=calm)
    state = LoopState(backoff=backoff, last_trigger_at=before, last_raise_at=now if raised else None)
    after = after_trigger(seen(PROD), state, policy, now, fresh=True)
    expected = min(6, backoff + 1) if raised else 0 if calm > policy.probe_seconds else backoff
    assert (after.backoff, after.last_raise_at, after.last_trigger_at) == (expected, None, now)
    stale = after_trigger(seen(PROD), state, policy, now, fresh=False)
    assert replace(stale, last_trigger_at=before) == state


@pytest.mark.parametrize(
    ("since", "then", "beyond", "is_blamed"),
    [
        (4, 300, 400, False),  # a new surge: 700 more than when limits rose, 400 above the waterline
        (3, 300, 400, True),  # within the cool-down: it was too short
        (4, 701, 200, True),  # prod wanted more than 70 % of this already
        (4, 300, 701, True),  # without what has come on top it would be above as well
        (11, 900, 900, False),  # so late that it has nothing to do with the raise
        (4, None, 400, True),  # state of an earlier version
    ],
)
def test_a_raise_that_a_new_surge_answers_is_not_to_blame(
    since: float, then: int | None, beyond: int, is_blamed: bool
) -> None:
    state = LoopState(backoff=1, last_raise_at=at(0), last_trigger_at=at(-5), demand_at_raise_milli=then)
    crossing = Crossing(beyond, cool_down_seconds=3)
    assert is_relapse(state, LoopPolicy(), 1000, crossing, at(since)) is is_blamed
    view = seen(pod("p", Tier.PROD, 1000), pressure=0.0)
    after = after_trigger(view, state, LoopPolicy(), at(since), fresh=True, crossing=crossing)
    assert (after.backoff, after.demand_at_raise_milli) == (2 if is_blamed else 0, None), (
        "a raise that stood undoes one"
    )


def test_a_raise_is_to_blame_for_a_crossing_that_waited_for_weights() -> None:
    """The limit comes 30 s after the raise, because the rule left prod to CPU weights for 20 s."""
    state = LoopState(backoff=1, last_raise_at=at(0), last_trigger_at=at(-5), demand_at_raise_milli=900)
    for since, is_blamed in ((at(8), True), (at(12), False), (None, False)):
        crossing = Crossing(900, cool_down_seconds=3, since=since)
        assert is_relapse(state, LoopPolicy(), 1000, crossing, at(30)) is is_blamed


def calm_look(state: GuardState, prod: int, batch: int, when: float) -> GuardResult:
    ours = state.by_uid()["b"]
    view = seen(pod("p", Tier.PROD, prod), pod("b", cpu=batch, ours=ours), pressure=0.0, when=when)
    return guard(view, state, under(line(restore_threshold=1)), at(when), CLOSED_LOOP)


def test_one_quiet_second_gives_nothing_back() -> None:
    """1,900 of 2,000 in three seconds, and 1,500 in the fourth: nothing but the margin was idle all the time."""
    state = held(500, prod_peak_milli=1400, last_trigger_at=at(0))
    for when, prod in ((1, 1400), (2, 1400), (3, 1400), (4, 1000)):
        made = calm_look(state, prod, 500, when)
        assert not made.cycle.plan.steps
        state = made.state
    assert state.cycle.loop.used_lately_milli == (1900, 1900, 1900, 1500)
    for when in (5, 6):
        state = calm_look(state, 1000, 500, when).state
    made = calm_look(state, 1000, 500, 7)
    assert [limits_of(step)[1] for step in made.cycle.plan.steps] == [900], "idle in each of four: 500, but for 100"
    assert made.state.cycle.loop.used_lately_milli == (), "under other limits others use it"


def test_the_end_of_a_demand_is_measured_by_what_prod_used_and_not_by_its_pressure() -> None:
    """At a pressure of 0.5 prod that uses 900 would have wanted 1,800, and its 900 of before would be half of that."""
    trigger = seen(pod("p", Tier.PROD, 900), pod("b", cpu=1100), pressure=0.5)
    after = after_trigger(trigger, LoopState(), LoopPolicy(), at(0), fresh=True)
    assert (after.demand_at_trigger_milli, after.prod_peak_milli) == (1800, 900)
    state = held(100, demand_at_trigger_milli=1800, prod_peak_milli=900, last_trigger_at=at(0))
    assert calm_look(state, 1200, 100, 3).state.cycle.loop.prod_peak_milli == 1200
    for prod, is_gone in ((900, False), (631, False), (630, True)):
        view = seen(pod("p", Tier.PROD, prod), pod("b", cpu=100, ours=state.by_uid()["b"]), pressure=0.0, when=3)
        assert allowance(view, state.cycle.loop, LoopPolicy(), None, 3.0, at(3)).to_original is is_gone, prod


@pytest.mark.parametrize(("backoff", "raised"), [(0, 400), (1, 200), (2, 100), (6, None)])
def test_idle_cpu_goes_back_in_smaller_parts_after_each_relapse(backoff: int, raised: int | None) -> None:
    state = held(500, demand_at_trigger_milli=1000, backoff=backoff, last_trigger_at=at(-4 * 2**backoff))
    calm = seen(PROD, pod("b", cpu=500, ours=state.by_uid()["b"]), pressure=0.0)
    made = guard(calm, state, under(line(restore_threshold=1)), at(0), CLOSED_LOOP)
    limits = [limits_of(step)[1] for step in made.cycle.plan.steps]
    assert limits == ([] if raised is None else [500 + raised])


@pytest.mark.parametrize(
    ("backoff", "waited", "is_raised"), [(0, 3, True), (0, 2, False), (2, 11, False), (2, 12, True)]
)
def test_each_relapse_doubles_the_cool_down(backoff: int, waited: float, is_raised: bool) -> None:
    state = held(500, demand_at_trigger_milli=2000, backoff=backoff, last_trigger_at=at(-waited))
    calm = seen(pod("p", Tier.PROD, 100), pod("b", cpu=500, ours=state.by_uid()["b"]), pressure=0.0)
    made = guard(calm, state, under(line(restore_threshold=1)), at(0), CLOSED_LOOP)
    assert bool(made.cycle.plan.steps) is is_raised


def test_after_a_long_calm_a_small_raise_probes_although_no_cpu_is_idle() -> None:
    state = held(500, demand_at_trigger_milli=1500, last_trigger_at=at(-61))
    full = seen(pod("p", Tier.PROD, 1500), pod("b", cpu=500, ours=state.by_uid()["b"]), pressure=0.0)
    made = guard(full, state, under(line(restore_threshold=1)), at(0), CLOSED_LOOP)
    assert [limits_of(step)[1] for step in made.cycle.plan.steps] == [600]
    early = held(500, demand_at_trigger_milli=1500, last_trigger_at=at(-59))
    assert not guard(full, early, under(line(restore_threshold=1)), at(0), CLOSED_LOOP).cycle.plan.steps


@given(st.none() | st.integers(51, 8000))
def test_the_last_step_leaves_no_limit_at_all(original: int | None) -> None:
    state, rules = held(50, original=original, demand_at_trigger_milli=2000), under(line(restore_threshold=1))
    last: int | None = 50
    for when in range(4):
        ours = state.by_uid().get("b")
        calm = seen(pod("p", Tier.PROD, 0), pod("b", cpu=0, ours=ours, original=original), pressure=0.0, when=when)
        made = guard(calm, state, rules, at(when), CLOSED_LOOP)
        for step in made.cycle.plan.steps:
            last = limits_of(step)[1]
            assert last == original or (last is not None and last < min(2000, original or 2000))
        state = confirmed(made.state, at(when))
    assert (state.throttles, last) == ((), original)


def test_a_missing_reading_counts_for_nothing() -> None:
    rules = under(line(avoidance_threshold=2))
    state, acted = GuardState(), []
    for when, pressure in enumerate((0.5, None, 0.5)):
        made = guard(seen(PROD, pod("b", cpu=1000), pressure=pressure, when=when), state, rules, at(when), CLOSED_LOOP)
        state, acted = made.state, [*acted, bool(made.cycle.plan.steps)]
    assert acted == [False, False, True]


# ---- recorded once


def test_a_gap_that_no_pod_can_close_is_recorded_once_per_episode() -> None:
    state, told = GuardState(), []
    for when, pressure in enumerate((0.5, 0.5, 0.0, 0.0, 0.5)):
        made = guard(seen(PROD, pressure=pressure, when=when), state, RULES, at(when), CLOSED_LOOP)
        state, told = made.state, [*told, [(one.kind, one.carried_out) for one in made.cycle.recorded]]
    assert told == [[(ActionKind.THROTTLE, False)], [], [], [], [(ActionKind.THROTTLE, False)]]


def test_an_unmeasured_rule_keeps_no_episode_from_being_recorded() -> None:
    rules = under(line(), line("disk_usage_ratio", "0.9", "evict", name="disk"))
    state, told = GuardState(), []
    for when, pressure in enumerate((0.5, 0.5, 0.0, 0.0, 0.5)):
        made = guard(seen(PROD, pressure=pressure, when=when), state, rules, at(when), CLOSED_LOOP)
        state, told = made.state, [*told, len(made.cycle.recorded)]
    assert told == [1, 0, 0, 0, 1]


def test_observe_records_the_same_plan_once_and_again_for_further_pods() -> None:
    observe = replace(CLOSED_LOOP, mode=Mode.OBSERVE)
    view = seen(PROD, pod("b", cpu=900), pressure=0.2)
    acted, told = (guard(view, GuardState(), RULES, at(0), one) for one in (CLOSED_LOOP, observe))
    assert told.cycle.dry_run.steps == acted.cycle.plan.steps
    assert (told.cycle.plan.steps, told.state.throttles) == ((), ())
    assert [(one.kind, one.carried_out) for one in told.cycle.recorded] == [(ActionKind.THROTTLE, False)]
    again = guard(view, told.state, RULES, at(1), observe)
    assert again.cycle.recorded == ()
    other = guard(seen(PROD, pod("c", cpu=900), pressure=0.2), again.state, RULES, at(2), observe)
    assert len(other.cycle.recorded) == 1


def test_a_mode_without_evictions_previews_those_that_throttling_would_leave_necessary() -> None:
    both = under(line(), line(name="last-resort", action="evict", waterline="0.1"))
    enough = guard(seen(PROD, pod("b", cpu=900), pressure=0.2), GuardState(), both, at(0), CLOSED_LOOP)
    assert [one.kind for one in enough.cycle.recorded] == [ActionKind.THROTTLE], "throttling is enough"
    short = guard(seen(PROD, pod("b", cpu=60), pod("c", cpu=60)), GuardState(), both, at(0), CLOSED_LOOP)
    assert of(short.cycle.dry_run, ActionKind.EVICT) == ["b", "c"]
    evicting = replace(CLOSED_LOOP, mode=Mode.EVICT)
    assert of(
        guard(seen(PROD, pod("b", cpu=60)), GuardState(), both, at(0), evicting).cycle.plan, ActionKind.EVICT
    ) == ["b"]


# ---- refused, released, forgotten


def test_a_refused_limit_is_not_counted_and_its_pod_not_asked_again_for_a_while() -> None:
    crowd = (PROD, pod("b", cpu=900), pod("c", cpu=900))
    first = guard(seen(*crowd, pressure=0.2), GuardState(), RULES, at(0), CLOSED_LOOP)
    assert [one.uid for one in first.state.throttles] == ["b"]
    state = refused(confirmed(first.state, at(1)), "b", None, at(1), ActionLimits())
    again = guard(seen(*crowd, when=2), state, RULES, at(2), CLOSED_LOOP)
    assert of(again.cycle.plan, ActionKind.THROTTLE) == ["c"]
    assert ("b", "the node could not write its limit") in [(one.uid, one.because) for one in again.cycle.plan.spared]


def test_a_refused_raise_keeps_the_limit_that_is_in_force() -> None:
    assert refused(held(500), "b", 300, at(0), ActionLimits()).limit_of("b") == 300


def test_a_refused_eviction_leads_to_the_next_candidate() -> None:
    rules, evicting = under(line(action="evict")), replace(CLOSED_LOOP, mode=Mode.EVICT)
    crowd = (PROD, pod("b", cpu=900), pod("c", cpu=900))
    first = guard(seen(*crowd, pressure=0.2), GuardState(), rules, at(0), evicting)
    assert of(first.cycle.plan, ActionKind.EVICT) == ["b"]
    under_way = guard(seen(*crowd, pressure=0.2, when=1), first.state, rules, at(1), evicting)
    assert under_way.cycle.plan.steps == (), "what is under way is credited"
    state = eviction_failed(under_way.state, "b", "refused: critical", at(2), ActionLimits())
    again = guard(seen(*crowd, pressure=0.2, when=2), state, rules, at(2), evicting)
    assert of(again.cycle.plan, ActionKind.EVICT) == ["c"]


def test_a_release_gives_everything_back_at_once() -> None:
    state = GuardState((Throttled("b", "b", "batch", 100, None), Throttled("c", "c", "free", 50, 400)))
    plan, after = release(state, 2000)
    assert [(step.uid, limits_of(step), step.released) for step in plan.steps] == [
        ("b", (100, None), (("cpu", 1900),)),
        ("c", (50, 400), (("cpu", 350),)),
    ]
    assert after.throttles == ()


def test_a_throttled_pod_that_has_ended_is_forgotten() -> None:
    made = guard(seen(PROD, pressure=0.05), held(100, uid="gone"), RULES, at(0), CLOSED_LOOP)
    assert (made.forgotten, made.state.throttles) == (("gone",), ())


# ---- the quick look


@given(st.lists(st.none() | st.sampled_from([0.0, 0.05, 0.1, 0.11, 0.9]), max_size=8), crowds)
@settings(max_examples=40)
def test_a_glance_is_either_the_whole_cycle_or_says_that_one_must_look(
    pressures: list[float | None], crowd: list[PodUse]
) -> None:
    rules = under(line(avoidance_threshold=2, restore_threshold=3), line("node_cpu_usage_ratio", "0.9", name="cpu"))
    state = GuardState()
    for when, pressure in enumerate(pressures):
        view = seen(*crowd, pressure=pressure, capacity=20_000, when=when)
        quick = fast_path(replace(view, pods=()), state, rules, at(when))
        made = guard(view, state, rules, at(when), CLOSED_LOOP)
        if quick is not None:
            assert (quick, made.cycle.recorded, made.cycle.plan.steps) == (made.state, (), ())
        state = made.state


@given(st.lists(st.none() | st.sampled_from([0.0, 0.05, 0.3, 0.9]), max_size=10), crowds)
@settings(max_examples=40)
def test_pods_without_a_rule_change_nothing(pressures: list[float | None], crowd: list[PodUse]) -> None:
    state, whole = GuardState(), under()
    for when, pressure in enumerate(pressures):
        ours = state.by_uid()
        pods = [PROD, *(pod(f"b{one}", cpu=400, ours=ours.get(f"b{one}")) for one in range(3)), *crowd]
        view = seen(*pods, pressure=pressure, capacity=20_000, when=when)
        made = guard(view, state, whole, at(when), CLOSED_LOOP)
        only = concerned(replace(view, pods=()), state, whole, at(when))
        if only is not None:
            few = replace(view, pods=tuple(one for one in view.pods if one.uid in only))
            assert guard(few, state, whole, at(when), CLOSED_LOOP).state == made.state
        state = confirmed(made.state, at(when))


def test_a_glance_is_not_enough_where_limits_are_in_force_or_the_metric_reads_pods() -> None:
    calm = replace(seen(PROD, pressure=0.0), pods=())
    assert fast_path(calm, GuardState(), RULES, at(0)) is not None
    assert fast_path(calm, held(100), RULES, at(0)) is None
    assert fast_path(calm, GuardState(), under(line("batch_cpu_usage", "1000")), at(0)) is None
    assert [metric.name for metric in BUILT_IN if metric.name.endswith("_threshold") and metric.needs_pods] == []


def test_new_rules_count_anew_and_keep_what_is_in_force() -> None:
    made = guard(seen(PROD, pod("b", cpu=900)), GuardState(), RULES, at(0), CLOSED_LOOP)
    fresh = under_new_rules(made.state)
    assert fresh.throttles == made.state.throttles
    assert fresh.cycle.analyzer.rules == ()
    assert fresh.cycle.loop.last_trigger_at == made.state.cycle.loop.last_trigger_at


@pytest.mark.parametrize(
    ("pressures", "is_raised"),
    [
        ((0.3, 0.3, 0.3), False),
        ((0.3, 0.0, 0.0), False),  # calm, and its cool-down of ten seconds is not over
        ((0.0, 0.0, 0.0), True),
        ((None, None, None), True),
    ],
)
def test_while_cpu_is_evicted_for_none_is_given_back(pressures: tuple[float | None, ...], is_raised: bool) -> None:
    """The rule that throttles is calm; that which evicts the same pods is not."""
    evicting = line("prod_cpu_pressure", "0.1", "evict", name="last", cool_down_seconds=10.0)
    rules = under(line("node_cpu_usage_ratio", "0.8", name="cpu"), evicting)
    b = pod("b", cpu=300, ours=Throttled("b", "name-b", "batch", 300, None), eviction_enabled=False)
    state, found = held(300, last_trigger_at=at(0)), []
    for second, pressure in enumerate(pressures, 100):
        view = seen(pod("p", Tier.PROD, 500), b, pod("a", cpu=700), pressure=pressure, when=second)
        made = guard(view, state, rules, at(second), replace(CLOSED_LOOP, mode=Mode.EVICT))
        state = made.state
        found += of(made.cycle.plan, ActionKind.RESTORE)
    assert found == (["b"] if is_raised else [])


def test_a_gap_that_is_not_worth_a_write_stays_open_for_that_reason() -> None:
    rules = under(line("node_cpu_usage_ratio", "0.8", name="cpu"))
    view = seen(pod("p", Tier.PROD, 1000), pod("b", cpu=610), pressure=0.0)
    made = guard(view, GuardState(), rules, at(0), CLOSED_LOOP)  # 11 of 2000 milli-cores; 20 are worth it
    (left,) = made.cycle.plan.remaining
    assert (made.cycle.plan.steps, left.open) == ((), 11)
    assert left.because == "what is left of the gap is not worth a write"

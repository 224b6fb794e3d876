"""Nodes under policies, scene by scene: what is held, what leaves, how long a waterline is crossed."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_scenes import CAPACITY, MINUTE, NOTHING, fleet, played, policy, rule, scene, wanted

from slackwater.decisions.reasons import Reason
from slackwater.simulation.domain.fleet_run import FleetRun
from slackwater.simulation.domain.guarded_run import GuardTerms
from slackwater.simulation.domain.scenes import Present, UsageScene, use_of
from slackwater.waterline.rulebook import Rulebook

CPU = rule(value=0.7, coolDownSeconds=30)
CALM, SURGE = scene(3000, 1000, 1000, 1000, 1000), scene(6000, 1000, 1000, 1000, 1000)


def seconds_above(run: FleetRun, value: str) -> float:
    (found,) = [one for one in run.tally.figures().waterlines if one.waterline.value == Decimal(value)]
    return found.above_seconds


def test_a_surge_is_above_the_waterline_until_the_first_look_and_then_throttled_to_it() -> None:
    run = played(fleet(policy(CPU)), [CALM, SURGE])
    figures, use = run.tally.figures(), run.nodes[0].use
    assert seconds_above(run, "0.7") == 5
    assert figures.waterlines[0].episodes == 1
    assert figures.waterlines[0].longest_episode_seconds == 5
    assert use is not None
    assert use.node_milli <= 0.7 * CAPACITY
    held = 10_000 - use.node_milli
    assert use.held_milli == held
    assert figures.throttled_core_seconds == pytest.approx(held * 295 / 1000, rel=0.05)
    assert figures.throttle_seconds == 295 * use.limited
    assert figures.acted[Reason.THROTTLE_WATERLINE_CROSSED].decisions == 1
    assert figures.batch_core_hours == pytest.approx((4 * 600 - figures.throttled_core_seconds) / 3600)


def test_limits_go_back_when_the_surge_is_over() -> None:
    run = played(fleet(policy(CPU)), [CALM, SURGE, *[scene(1000, 1000, 1000, 1000, 1000)] * 3])
    assert run.nodes[0].state.throttles == ()
    assert Reason.RESTORE_COMPLETE in run.tally.figures().acted
    use = run.nodes[0].use
    assert use is not None
    assert use.node_milli == 5000


def test_what_cannot_be_closed_stays_open_with_its_reason() -> None:
    run = played(fleet(policy(CPU)), [scene(9000, 1000)])
    figures = run.tally.figures()
    assert figures.unrelieved_seconds == 295, "from the first look on"
    ((kind, metric, because),) = figures.gaps
    assert (kind, metric) == ("throttle", "node_cpu_usage_ratio")
    assert "every pod that may be throttled is at its floor" in because
    assert seconds_above(run, "0.7") == 300


def test_a_limit_of_its_own_is_no_throttle_of_ours() -> None:
    run = played(fleet(NOTHING), [scene(1000, 4000, limit=1500)])
    figures = run.tally.figures()
    assert figures.throttled_core_seconds == figures.throttle_seconds == 0
    assert figures.batch_core_hours == 1.5 / 12


def test_an_evicted_pod_leaves_after_its_grace_and_is_back_later() -> None:
    rules = policy(rule(value=0.7, target=0.65, actionName="evict"), mode="evict", evict=True)
    terms = GuardTerms(return_ms=10 * MINUTE)
    run = played(fleet(rules, terms=terms), [scene(6000, 1000, 1000), *[scene(2000, 1000, 1000)] * 3])
    figures, use = run.tally.figures(), run.nodes[0].use
    assert figures.evictions == 2, "1.65 of 8 cores are too much: two pods of one"
    assert figures.returned == 2
    assert seconds_above(run, "0.7") == 5 + 10, "until they were seen, and their grace"
    assert figures.evicted_core_seconds == pytest.approx(2 * 600)
    assert figures.closed_seconds > 60, "closed for its cool-down"
    assert figures.acted[Reason.SCHEDULING_WATERLINE_CROSSED].decisions == 1
    assert use is not None
    assert [share.present.uid for share in use.shares] == ["b0~2", "b1~2"]


def test_an_evicted_pod_stays_away_without_a_return_time() -> None:
    rules = policy(rule(value=0.7, target=0.65, actionName="evict"), mode="evict", evict=True)
    run = played(fleet(rules, terms=GuardTerms(return_ms=None)), [scene(6000, 2000), *[scene(2000, 2000)] * 20])
    figures = run.tally.figures()
    assert (figures.evictions, figures.returned) == (1, 0)
    assert figures.evicted_core_seconds == 2 * (21 * 300 - 15)


def test_a_cordoned_node_takes_no_pod_back() -> None:
    rules = policy(rule(value=0.7, target=0.65, actionName="evict"), mode="evict", evict=True)
    run = played(fleet(rules, terms=GuardTerms(return_ms=MINUTE)), [scene(8000, 1000)] * 3)
    figures = run.tally.figures()
    assert (figures.evictions, figures.returned) == (1, 0), "above its waterline all the time: never open again"
    assert figures.closed_seconds == 3 * 300 - 5


def test_a_pool_that_evicts_too_much_steps_back_and_others_see_it() -> None:
    rules = policy(rule(value=0.7, target=0.6, actionName="evict"), mode="evict", evict=True)
    run = played(fleet(rules, nodes=30, terms=GuardTerms(return_ms=MINUTE)), [scene(6000, 1000, 1000)] * 2)
    figures = run.tally.figures()
    assert figures.step_backs == 1
    assert Reason.EVICT_OBSERVED_ONLY in figures.acted


def test_work_that_was_kept_back_is_done_later() -> None:
    scenes = [SURGE, *[scene(0, 1000, 1000, 1000, 1000)] * 3]
    lost, made_up = (
        played(fleet(policy(CPU), terms=GuardTerms(carried_percent=percent)), scenes).tally.figures()
        for percent in (0, 100)
    )
    assert lost.batch_core_hours < made_up.batch_core_hours
    assert made_up.batch_core_hours == pytest.approx(4 * 20 / 60, abs=1e-3), "but for what is less than a milli-core"


def test_a_node_that_is_not_there_counts_nothing_and_forgets_its_limits() -> None:
    run = played(fleet(policy(CPU), nodes=2), [[SURGE, SURGE], [None, SURGE], [CALM, SURGE]])
    assert run.tally.figures().node_hours == pytest.approx(5 / 12)
    assert run.nodes[0].state.throttles == ()
    assert run.nodes[1].state.throttles != ()


def test_batch_takes_what_it_may_and_prod_gets_the_rest() -> None:
    found = use_of(scene(8000, 3000), [Present(wanted(0, 3000), "b0", None, 3000)])
    assert (found.batch_milli, found.prod_milli, found.lacked_milli, found.node_milli) == (3000, 7000, 1000, 10_000)
    assert found.pressure == pytest.approx(1 / 8)
    held = use_of(scene(8000, 3000), [Present(wanted(0, 3000), "b0", 1900, 3000)])
    assert (held.batch_milli, held.prod_milli, held.held_milli, held.pressure) == (1900, 8000, 1100, 0)


def test_prod_that_lacks_is_helped_by_the_rule_on_its_pressure() -> None:
    run = played(fleet(policy(rule("prod_cpu_pressure", 0.1))), [scene(8000, 3000)])
    assert 5 <= seconds_above(run, "0.1") <= 30
    assert 5 < run.tally.figures().prod_lacked_core_seconds < 60, "a little more for each time that the loop probes"


AMOUNTS = st.integers(0, 12_000)
SCENES = st.builds(lambda prod, batch: scene(prod, *batch), AMOUNTS, st.lists(AMOUNTS, min_size=3, max_size=3))
VALUES = st.sampled_from((0.5, 0.6, 0.7, 0.9))
THROTTLING = st.builds(
    lambda value, cool, above: policy(rule(value=value, coolDownSeconds=cool, avoidanceThreshold=above)),
    VALUES,
    st.sampled_from((0, 3, 45, 400)),
    st.integers(1, 3),
)
EVICTING = st.builds(
    lambda value, cool, grace, low: policy(
        rule(value=value, target=value - 0.05, coolDownSeconds=cool, actionName="evict"),
        rule("node_memory_usage_ratio", 0.3, actionName="evict"),
        rule("prod_cpu_pressure", low, coolDownSeconds=20),
        mode="evict",
        evict=True,
        grace=grace,
    ),
    VALUES,
    st.sampled_from((0, 45)),
    st.sampled_from((0, 7, 130)),
    st.sampled_from((0.05, 0.2)),
)
TERMS = st.builds(
    lambda back, carried: (back, carried), st.sampled_from((None, 30_000, 7 * MINUTE)), st.sampled_from((0, 40, 100))
)


def outcome(run: FleetRun) -> tuple[object, ...]:
    used = [
        [(one.present.uid, one.present.limit_milli, one.used_milli, one.held_milli) for one in node.use.shares]
        for node in run.nodes
        if node.use is not None
    ]
    return run.tally.figures(), [node.state for node in run.nodes], used


@settings(deadline=None, max_examples=20)
@given(
    rules=st.one_of(THROTTLING, EVICTING),
    scenes=st.lists(st.tuples(SCENES, SCENES), min_size=1, max_size=4),
    more=TERMS,
)
def test_skipping_looks_that_would_find_the_same_changes_nothing(
    rules: Rulebook, scenes: list[tuple[UsageScene, UsageScene]], more: tuple[int | None, int]
) -> None:
    patient, hasty = (
        played(fleet(rules, nodes=2, terms=GuardTerms(10_000, *more, patient=patient)), scenes)
        for patient in (True, False)
    )
    assert outcome(patient) == outcome(hasty)


def test_looks_go_on_when_work_that_was_made_up_for_ends() -> None:
    """Found by the property above: what is used falls after a look that did nothing."""
    rules, scenes = policy(rule(value=0.5, coolDownSeconds=0)), [scene(0, 5685, 59, 264), scene(500, 854, 1411, 11_725)]
    patient, hasty = (
        played(fleet(rules, terms=GuardTerms(10_000, None, 40, patient=patient)), scenes) for patient in (True, False)
    )
    assert outcome(patient) == outcome(hasty)


@settings(deadline=None, max_examples=12)
@given(rules=st.one_of(THROTTLING, EVICTING), scenes=st.lists(SCENES, min_size=1, max_size=4))
def test_runs_on_the_same_input_are_equal(rules: Rulebook, scenes: list[UsageScene]) -> None:
    assert outcome(played(fleet(rules), scenes)) == outcome(played(fleet(rules), scenes))


@settings(deadline=None, max_examples=12)
@given(scenes=st.lists(SCENES, min_size=1, max_size=4))
def test_without_rules_nothing_is_done(scenes: list[UsageScene]) -> None:
    run = played(fleet(NOTHING, policy(CPU)), scenes)
    figures = run.tally.figures()
    assert figures.acted == {}
    assert figures.throttle_seconds == figures.throttled_core_seconds == figures.evictions == 0


@settings(deadline=None, max_examples=12)
@given(scenes=st.lists(SCENES, min_size=1, max_size=4), value=VALUES)
def test_observing_changes_nothing_and_previews(scenes: list[UsageScene], value: float) -> None:
    watching = policy(
        rule(value=value), rule("node_memory_usage_ratio", 0.3, actionName="evict"), mode="observe", evict=True
    )
    run, left_alone = played(fleet(watching), scenes), played(fleet(NOTHING, watching), scenes)
    told, plain = run.tally.figures(), left_alone.tally.figures()
    assert set(told.acted) <= {Reason.THROTTLE_OBSERVED_ONLY, Reason.EVICT_OBSERVED_ONLY}
    assert told.waterlines == plain.waterlines
    assert told.batch_core_hours == plain.batch_core_hours
    assert run.nodes[0].use == left_alone.nodes[0].use


@settings(deadline=None, max_examples=15)
@given(one=SCENES, strict=st.integers(30, 90), lax=st.integers(30, 90), length=st.integers(1, 4))
def test_a_stricter_waterline_never_gives_more_time_above_one(
    one: UsageScene, strict: int, lax: int, length: int
) -> None:
    """Of policies that keep limits: one that cannot reach its waterline is undone otherwise, as it brings no relief."""
    strict, lax = sorted((strict, lax))
    first, second = (policy(rule(value=value / 100, coolDownSeconds=20), quota="always") for value in (strict, lax))
    stricter, laxer = played(fleet(first, second), [one] * length), played(fleet(second, first), [one] * length)
    for mine, theirs in zip(stricter.tally.figures().waterlines, laxer.tally.figures().waterlines, strict=True):
        assert mine.above_seconds <= theirs.above_seconds


@settings(deadline=None, max_examples=15)
@given(rules=st.one_of(THROTTLING, EVICTING), scenes=st.lists(SCENES, min_size=1, max_size=4))
def test_what_was_wanted_is_done_or_held_back_or_lost_or_had_no_room(rules: Rulebook, scenes: list[UsageScene]) -> None:
    figures = played(fleet(rules), scenes).tally.figures()
    wanted_seconds = sum(pod.most_milli for each in scenes for pod in each.pods) * 300 / 1000
    found = figures.batch_core_hours * 3600 + figures.throttled_core_seconds + figures.evicted_core_seconds
    assert found <= wanted_seconds + 1e-6
    if all(sum(pod.most_milli for pod in each.pods) <= each.room_milli for each in scenes):
        assert found == pytest.approx(wanted_seconds)

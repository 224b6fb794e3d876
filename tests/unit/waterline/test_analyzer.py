"""Counting, cool-downs, cordons, gaps and candidates: one cycle of analysis after the other."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waterline_crowd import crowds, use, view
from waterline_rules import CLOSE, EVICT, THROTTLE, at, everybody, policies, rule

from slackwater.model.tiers import QoSClass, Tier
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.analysis.analyzer import Analysis, AnalyzerState, Excess, analyse
from slackwater.waterline.analysis.demands import PROTECTED_TIERS, protection
from slackwater.waterline.facts.node import MetricSeries
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.policies.podqos import PodQosSpec
from slackwater.waterline.policies.values import Policies, PolicyAction
from slackwater.waterline.registry.built_in import BUILT_IN

D = Decimal
samples = st.lists(st.none() | st.sampled_from([400, 500, 600]), max_size=30)


def replayed(given_policies: Policies, readings: list[Any], every: float = 10, *pods: PodUse) -> list[Analysis]:
    state, seen = AnalyzerState(), []
    for number, reading in enumerate(readings):
        node = view(*pods, at=number * every, node_cpu_usage=reading, node_cpu_usage_ratio=None)
        seen.append(analyse(node, given_policies, BUILT_IN, state, at(number * every)))
        state = seen[-1].state
    return seen


@given(samples, st.integers(1, 4), st.integers(1, 4))
def test_triggering_and_calm_take_consecutive_samples(readings: list[int | None], avoid: int, restore: int) -> None:
    one = rule("node_cpu_usage", 500, avoidance_threshold=avoid, restore_threshold=restore)
    seen = [each.verdicts[0] for each in replayed(policies(one), readings)]
    measured: list[int] = []
    for reading, verdict in zip(readings, seen, strict=True):
        if reading is None:
            assert not any((verdict.triggered, verdict.calm, verdict.restored))
            continue
        measured.append(reading)
        assert verdict.triggered == (len(measured) >= avoid and all(r > 500 for r in measured[-avoid:]))
        assert verdict.calm == (len(measured) >= restore and all(r <= 500 for r in measured[-restore:]))


@given(samples, st.integers(1, 3))
def test_a_restore_is_recorded_once_per_episode(readings: list[int | None], restore: int) -> None:
    one = rule("node_cpu_usage", 500, restore_threshold=restore)
    seen = [each.verdicts[0] for each in replayed(policies(one), readings)]
    assert all(verdict.calm for verdict in seen if verdict.restored)
    events = [word for one in seen for word in (["up"] if one.triggered else ["down"] if one.restored else [])]
    assert all(events[place - 1] == "up" for place, word in enumerate(events) if word == "down" and place > 0)
    assert not events or events[0] == "up"


@given(samples, st.sampled_from([0.0, 15.0, 300.0]))
def test_a_node_is_closed_exactly_while_triggered_or_cooling_down(readings: list[int | None], cool_down: float) -> None:
    action = replace(CLOSE, cool_down_seconds=cool_down)
    seen = replayed(policies(rule("node_cpu_usage", 500, "close"), actions=(action,)), readings)
    last_trigger, above, closed = None, False, False
    for number, one in enumerate(seen):
        if readings[number] is not None:
            above = (readings[number] or 0) > 500
        if one.verdicts[0].triggered:
            last_trigger = number * 10
        over = last_trigger is None or number * 10 - last_trigger > cool_down
        measured_above = above and readings[number] is not None
        expected = last_trigger is not None and (not over or measured_above)
        assert one.scheduling.scheduling.is_disabled == expected
        assert (one.scheduling.event is not None) == (expected != closed)
        closed = expected


def test_a_closed_node_opens_when_its_policy_is_gone() -> None:
    closed = replayed(policies(rule("node_cpu_usage", 500, "close")), [600])[0]
    assert closed.scheduling.event == "disabled"
    opened = analyse(view(), Policies(), BUILT_IN, closed.state, at(1))
    assert opened.scheduling.event == "enabled"
    assert not opened.state.scheduling.is_disabled


def test_an_action_may_leave_scheduling_alone() -> None:
    quiet = replace(EVICT, disables_scheduling=False)
    seen = replayed(policies(rule("node_cpu_usage", 500, "evict"), actions=(quiet,)), [600])
    assert not seen[0].scheduling.scheduling.is_disabled


# ---- candidates


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"is_own": True}, "agent itself"),
        ({"is_static": True}, "static"),
        ({"is_system": True}, "system"),
        ({"qos": QoSClass.SYSTEM}, "system"),
        ({"is_terminating": True}, "on its way out"),
        ({"is_active": False}, "ended"),
        ({"tier": Tier.PROD}, "tier prod"),
        ({"tier": Tier.MID}, "tier mid"),
        ({"qos": QoSClass.LSE}, "LSE"),
        ({"qos": QoSClass.LSR}, "LSR"),
    ],
)
def test_some_pods_are_never_candidates(fields: dict[str, Any], why: str) -> None:
    pod = use("a", **fields)
    assert why in (protection(pod) or "")
    rules = policies(rule("node_cpu_usage", 1, "evict"), rule("node_cpu_usage", 1))
    seen = replayed(rules, [600], 10, pod)[0]
    assert not any(demand.candidates for demand in (*seen.throttles, *seen.evictions))


def scope(name: str, *values: str) -> PodQosSpec:
    return PodQosSpec.model_validate(
        {
            "scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": "In", "values": list(values)}]},
            "allowedActions": ["evict"],
        }
    )


def test_a_pod_with_exclusive_cpus_is_throttled_only_if_named() -> None:
    pod = use("a", qos=QoSClass.LSR)
    one = rule("node_cpu_usage", 1, "evict")
    by_name = replayed(policies(one, pods=(scope("QOSClass", "LSR"),)), [600], 10, pod)[0]
    by_priority = replayed(policies(one, pods=(scope("Priority", "0-9999"),)), [600], 10, pod)[0]
    assert [each.pod.uid for each in by_name.evictions[0].candidates] == ["a"]
    assert not by_priority.evictions[0].candidates


def test_the_actions_of_several_podqos_add_up_and_without_one_nothing_happens() -> None:
    pod = use("a")
    both = policies(rule("node_cpu_usage", 1), pods=(everybody("evict"), everybody("throttle")))
    assert replayed(both, [600], 10, pod)[0].exposed.by_uid["a"].actions == {"evict", "throttle"}
    none = policies(rule("node_cpu_usage", 1), pods=(scope("Namespace", "elsewhere"),))
    seen = replayed(none, [600], 10, pod)[0]
    assert seen.exposed.by_uid["a"].protected_because == "no PodQOS names it"
    assert not seen.throttles[0].candidates


@settings(max_examples=40)
@given(crowds)
def test_protected_pods_are_in_no_demand(crowd: list[PodUse]) -> None:
    seen = replayed(policies(rule("node_cpu_usage", 1), rule("node_cpu_usage", 1, "evict")), [600], 10, *crowd)[0]
    for demand in (*seen.throttles, *seen.evictions):
        for one in demand.candidates:
            assert one.pod.tier not in PROTECTED_TIERS
            assert one.pod.qos not in (QoSClass.LSE, QoSClass.LSR, QoSClass.SYSTEM)


# ---- how much


@given(st.integers(0, 2000), st.integers(1, 2000), st.integers(0, 100))
def test_a_gap_is_what_is_above_and_a_little_more_and_never_negative(used: int, line: int, excess: int) -> None:
    beyond = Excess(D(excess) / 100, D(excess) / 100)
    node = view(use("a", containers=(Container("c", 1, 5000),)), node_cpu_usage=used)
    seen = analyse(node, policies(rule("node_cpu_usage", line)), BUILT_IN, AnalyzerState(), at(0), beyond)
    if used > line:
        assert seen.throttles[0].gap == (1 + beyond.gap_ratio) * (used - line)
        assert not seen.restorable
    else:
        assert not seen.throttles
        assert seen.restorable[0].headroom == (1 + beyond.headroom_ratio) * (line - used)


def test_there_is_no_negative_need() -> None:
    """Prod was measured above what the node has: nothing more can be lacking."""
    node = replace(view(use("a"), prod_cpu_pressure=0.5), prod_usage_milli=12_000)
    (demand,) = analyse(node, policies(rule("prod_cpu_pressure", "0.1")), BUILT_IN, AnalyzerState(), at(0)).throttles
    assert demand.gap == 0


def test_the_strictest_waterline_counts_but_a_pod_is_asked_only_for_its_own_rule() -> None:
    lax, strict = replace(THROTTLE, name="lax"), replace(THROTTLE, name="strict")
    pods = (
        PodQosSpec(label_selector=LabelSelector(match_labels={"a": "1"}), allowed_actions=("lax",)),
        everybody("strict"),
    )
    pods = (pods[0], PodQosSpec(label_selector=LabelSelector(match_labels={"b": "1"}), allowed_actions=("strict",)))
    rules = rule("node_cpu_usage", 500, "lax"), rule("node_cpu_usage", 300, "strict")
    seen = replayed(
        policies(*rules, actions=(lax, strict), pods=pods),
        [600],
        10,
        use("x", labels={"a": "1"}),
        use("y", labels={"b": "1"}),
        use("z", labels={"a": "1", "b": "1"}),
    )[0]
    (demand,) = seen.throttles
    assert (demand.waterline, demand.gap) == (300, 330)
    assert {one.pod.uid: one.gap for one in demand.candidates} == {"x": 110, "y": 330, "z": 330}


def test_of_several_actions_the_most_careful_limits_hold() -> None:
    hard = PolicyAction("hard", ThrottleBounds(min_ratio=D("0.1"), step_ratio=D(1)), evicts=True, grace_seconds=60)
    soft = PolicyAction("soft", ThrottleBounds(min_ratio=D("0.05"), step_ratio=D("0.1")), evicts=True, grace_seconds=5)
    rules = rule("node_cpu_usage", 500, "hard"), rule("node_cpu_usage", 300, "soft")
    seen = replayed(policies(*rules, actions=(hard, soft)), [600], 10, use("a"))[0]
    (candidate,) = seen.throttles[0].candidates
    assert candidate.throttle == ThrottleBounds(min_ratio=D("0.1"), step_ratio=D("0.1"))
    assert seen.evictions[0].candidates[0].grace_seconds == 5


def test_the_selected_series_are_evaluated_and_the_largest_counts() -> None:
    disks = tuple(MetricSeries(D(ratio), {"disk": name}) for name, ratio in (("a", "0.1"), ("b", "0.9"), ("c", "0.95")))
    node = replace(view(), readings={"disk_usage_ratio": disks})
    picked = LabelSelector.model_validate({"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["c"]}]})
    nothing = LabelSelector(match_labels={"disk": "gone"})
    rules = (
        rule("disk_usage_ratio", "0.5", "close", selector=picked),
        rule("disk_usage_ratio", "0.5", "close", name="none", selector=nothing),
    )
    seen = analyse(node, policies(*rules), BUILT_IN, AnalyzerState(), at(0))
    assert [one.reading for one in seen.verdicts] == [D("0.9"), None]
    assert [one.because for one in seen.ignored] == ["no reading of disk_usage_ratio"]


@pytest.mark.parametrize("reading", [float("nan"), float("inf"), D("-Infinity")])
def test_what_is_no_finite_number_is_not_measured(reading: Any) -> None:
    (seen,) = replayed(policies(rule("node_cpu_usage", 500)), [reading], 10, use("a"))
    assert (seen.verdicts[0].reading, seen.throttles) == (None, ())
    assert [one.because for one in seen.ignored] == ["no reading of node_cpu_usage"]


def test_what_is_promised_in_vain_is_all_to_go_and_its_reading_travels() -> None:
    node = replace(view(use("a", extended_cpu_request_milli=700)), extended_cpu_allocatable_milli=0)
    one = rule("batch_cpu_requested_ratio", "1.2", "evict", target="1")
    (demand,) = analyse(node, policies(one), BUILT_IN, AnalyzerState(), at(0), Excess(D(0))).evictions
    assert demand.gap == 700
    assert json.loads(json.dumps(float(demand.reading), allow_nan=False)) == 1000


def test_waterlines_are_compared_as_they_are_written() -> None:
    seen = replayed(policies(rule("node_cpu_usage", "4.5")), [4.6, 4.5, 5])
    assert [one.verdicts[0].triggered for one in seen] == [True, False, True]


# ---- what cannot take part, and what is given back


def test_an_unknown_metric_is_recorded_and_does_nothing() -> None:
    rules = (
        rule("moon_phase", 1),
        rule("node_cpu_usage", 1, "gone"),
        rule("node_memory_usage", 1, "throttle"),
        rule("disk_usage_ratio", 1, "evict"),
    )
    seen = replayed(policies(*rules), [600], 10, use("a"))[0]
    assert not seen.throttles
    assert not seen.evictions
    assert not seen.scheduling.scheduling.is_disabled
    told = {one.because for one in seen.ignored}
    assert {
        "moon_phase is not a metric",
        "action gone is not defined",
        "no reading of disk_usage_ratio",
        "action throttle can do nothing about node_memory_usage",
    } <= told


THROTTLED = use("a", containers=(Container("c", 100, 10_000),))


def test_limits_come_back_in_every_calm_cycle_after_the_cool_down_since_the_last_real_trigger() -> None:
    one = rule("node_cpu_usage", 500, cool_down_seconds=20)
    seen = replayed(policies(one), [600, 600, 400, 400, 400, None, 400], 10, THROTTLED)
    assert [bool(each.restorable) for each in seen] == [False, False, False, True, True, True, True]


def test_a_metric_that_was_crossed_and_is_no_longer_measured_gives_nothing_back() -> None:
    seen = replayed(policies(rule("node_cpu_usage", 500)), [600, None, None, 400], 10, THROTTLED)
    assert [bool(each.restorable) for each in seen] == [False, False, False, True]


def test_a_cool_down_counts_from_what_triggered_and_not_from_a_single_sample_above() -> None:
    one = rule("node_cpu_usage", 500, avoidance_threshold=2, cool_down_seconds=30)
    seen = replayed(policies(one), [600, 600, 400, 600, 400], 10, THROTTLED)
    assert [bool(each.restorable) for each in seen] == [False, False, False, False, True]


def test_what_was_never_above_holds_nothing_back_when_it_is_no_longer_measured() -> None:
    seen = replayed(policies(rule("node_cpu_usage", 500, restore_threshold=3)), [400, None], 10, THROTTLED)
    assert [bool(each.restorable) for each in seen] == [False, True]


def test_a_cool_down_needs_no_samples() -> None:
    """Calm, and then not measured: what was triggered five seconds ago still waits for its twenty."""
    one = rule("node_cpu_usage", 500, cool_down_seconds=20)
    seen = replayed(policies(one), [600, 400, None, None, None, None], 5, THROTTLED)
    assert [bool(each.restorable) for each in seen] == [False, False, False, False, True, True]


def test_what_evicts_for_cpu_and_is_no_longer_measured_since_gives_no_cpu_back() -> None:
    rules = policies(rule("node_cpu_usage_ratio", "0.8"), rule("node_cpu_usage", 500, "evict"))
    state, found = AnalyzerState(), []
    for second, reading in enumerate([600, None, 400]):
        node = view(THROTTLED, at=second, node_cpu_usage=reading, node_cpu_usage_ratio=0.1)
        seen = analyse(node, rules, BUILT_IN, state, at(second))
        state, found = seen.state, [*found, bool(seen.restorable)]
    assert found == [False, False, True]


def test_what_evicts_for_memory_keeps_no_cpu() -> None:
    rules = policies(rule("node_cpu_usage", 500), rule("node_memory_usage", 10, "evict"))
    node = view(THROTTLED, node_cpu_usage=100, node_memory_usage=20)
    seen = analyse(node, rules, BUILT_IN, AnalyzerState(), at(0))
    assert [len(seen.evictions), len(seen.restorable)] == [1, 1]


def test_triggered_wins_over_calm_for_the_same_metric() -> None:
    rules = rule("node_cpu_usage", 300, "evict"), rule("node_cpu_usage", 900, "throttle")
    assert not replayed(policies(*rules), [600], 10, THROTTLED)[0].restorable


def test_a_pod_under_no_rule_any_more_is_restored_fully() -> None:
    (one,) = analyse(view(THROTTLED), Policies(), BUILT_IN, AnalyzerState(), at(0)).restorable
    assert (one.headroom, one.bounds.step_ratio, one.bounds.unlimited_at_milli) == (None, 1, 10_000)


def test_previews_are_apart() -> None:
    one = rule("node_cpu_usage", 300, is_preview=True)
    seen = replayed(policies(one), [600], 10, use("a"))[0]
    assert not seen.throttles
    assert [demand.gap for demand in seen.previews] == [330]
    assert not seen.scheduling.scheduling.is_disabled

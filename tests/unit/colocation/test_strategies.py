"""Strategies: every field has a default and a range, layers override each other, and a bad one changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.colocation.domain.document import DEFAULTS, FIELDS, problems_of, strategy_of
from slackwater.colocation.domain.layers import NodeWords, PoolStrategy, Selector, percent_of_ratio, resolve
from slackwater.colocation.domain.strategy import MarginMode, MidMode, Policy, Strategy
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources

ON = {"enable": True}
OWN = "slackwater.io/colocation-strategy"


def test_what_nobody_wrote_is_the_default_of_the_formulas_but_for_being_off() -> None:
    assert strategy_of(ON) == Strategy()
    assert strategy_of({}) == Strategy(enabled=False)


def test_every_default_is_allowed_and_every_field_is_explained() -> None:
    assert problems_of(DEFAULTS) == []
    assert all(field.about and field.allowed for field in FIELDS.values())


def test_every_field_that_offers_are_made_of_reaches_them() -> None:
    told = strategy_of(
        {
            "enable": True,
            "cpuReclaimThresholdPercent": 70,
            "memoryReclaimThresholdPercent": 120,
            "cpuCalculatePolicy": "request",
            "memoryCalculatePolicy": "maxUsageRequest",
            "degradeTimeMinutes": 2,
            "degradeFromSeconds": 30,
            "updateTimeThresholdSeconds": 60,
            "resourceDiffThreshold": 0.2,
            "midReclaimMode": "static",
            "midReclaimRatioPercent": 90,
            "midCPUThresholdPercent": 10,
            "midMemoryThresholdPercent": 20,
            "midUnallocatedPercent": 30,
            "midStaticCPUReservedPercent": 40,
            "midStaticMemoryReservedPercent": 50,
            "batchCPUThresholdPercent": 60,
            "batchMemoryThresholdPercent": 0,
            "safetyMarginMode": "cap",
            "coldStartHoldsRequest": False,
            "riseWindows": 3,
            "bindSettleSeconds": 0,
            "predictionMaxAgeSeconds": 61,
            "reservedCPUMilli": 100,
            "reservedMemoryBytes": 200,
        }
    )
    assert told == Strategy(
        70, 120, Resources(100, 200), False, 0.2, 3, 30.0, 120.0, 61.0, True, Policy.REQUEST, Policy.MAX_USAGE_REQUEST,
        MarginMode.CAP, 60, 0, MidMode.STATIC, 90, 10, 20, 30, 40, 50, 60.0, 0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("enable", 1),
        ("cpuReclaimThresholdPercent", -1),
        ("cpuReclaimThresholdPercent", 60.5),
        ("cpuReclaimThresholdPercent", True),
        ("cpuCalculatePolicy", "usages"),
        ("degradeTimeMinutes", 0),
        ("metricReportIntervalSeconds", 0),
        ("metricAggregatePolicy", ["5 minutes"]),
        ("metricMemoryCollectPolicy", ""),
        ("resourceDiffThreshold", 0),
        ("resourceDiffThreshold", 1.1),
        ("midCPUThresholdPercent", 101),
        ("midUnallocatedPercent", -1),
        ("batchCPUThresholdPercent", -1),
        ("midReclaimMode", None),
        ("degradeFromSeconds", 900),
        ("extensions", "x"),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_fields_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: ") as caught:
        strategy_of({field: value})
    assert caught.value.field == field


def test_a_name_that_is_nearly_right_is_refused_with_the_right_one() -> None:
    with pytest.raises(InvalidInput, match=r"there are cpuReclaimThresholdPercent$"):
        strategy_of({"CPUReclaimThresholdPercent": 60})


def test_who_only_shortens_the_last_age_has_decay_begin_before_it() -> None:
    strategy = strategy_of({"degradeTimeMinutes": 2})
    assert (strategy.decay_from_seconds, strategy.decay_to_seconds) == (60.0, 120.0)


def test_labels_win_over_annotations_over_the_first_pool_over_the_cluster() -> None:
    cluster = {"enable": True, "cpuReclaimThresholdPercent": 10, "memoryReclaimThresholdPercent": 10, "riseWindows": 5}
    faster = {"cpuReclaimThresholdPercent": 20}
    pools = [
        PoolStrategy("nobody", None, {"riseWindows": 9}),
        PoolStrategy("other", Selector({"disk": "hdd"}), {"riseWindows": 8}),
        PoolStrategy("fast", Selector({"disk": "ssd"}), {"batchCPUThresholdPercent": 7, **faster}),
        PoolStrategy("all", Selector(), {"riseWindows": 7}),
    ]
    node = NodeWords(
        {"disk": "ssd", "slackwater.io/cpu-reclaim-ratio": "0.4"},
        {OWN: json.dumps({"cpuReclaimThresholdPercent": 30, "memoryReclaimThresholdPercent": 30})},
    )
    found = resolve(cluster, pools, node)
    strategy = found.strategy
    assert (strategy.cpu_reclaim_threshold_percent, strategy.memory_reclaim_threshold_percent) == (40, 30)
    assert (strategy.batch_cpu_threshold_percent, strategy.rise_windows, found.reason) == (7, 5, "")
    assert found.sources == ("cluster", "pool fast", f"annotation {OWN}", "label slackwater.io/cpu-reclaim-ratio")


def test_our_own_labels_and_annotations_win_over_the_aliases() -> None:
    labels = {"node.koordinator.sh/cpu-reclaim-ratio": "0.1", "slackwater.io/cpu-reclaim-ratio": "0.2"}
    assert resolve(ON, (), NodeWords(labels)).strategy.cpu_reclaim_threshold_percent == 20
    notes = {"node.koordinator.sh/colocation-strategy": '{"riseWindows": 4}', OWN: '{"riseWindows": 3}'}
    assert resolve(ON, (), NodeWords({}, notes)).strategy.rise_windows == 3


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        (("zone", "In", ("a", "b")), True),
        (("zone", "In", ("c",)), False),
        (("zone", "NotIn", ("c",)), True),
        (("none", "NotIn", ("c",)), True),
        (("zone", "Exists", ()), True),
        (("none", "Exists", ()), False),
        (("none", "DoesNotExist", ()), True),
        (("zone", "Near", ("a",)), False),
    ],
)
def test_expressions_select_as_in_the_field(expression: tuple[str, str, tuple[str, ...]], matches: bool) -> None:
    assert Selector(expressions=(expression,)).matches({"zone": "a"}) is matches


def test_off_for_the_cluster_is_off_for_every_node() -> None:
    node = NodeWords({}, {OWN: '{"enable": true}'})
    assert not resolve({}, (), node).strategy.enabled
    assert not resolve({"enable": False}, (), node).strategy.enabled
    assert not resolve(ON, (), NodeWords({}, {OWN: '{"enable": false}'})).strategy.enabled


@pytest.mark.parametrize(
    "node",
    [
        NodeWords({}, {OWN: "{"}),
        NodeWords({}, {OWN: "[]"}),
        NodeWords({}, {OWN: '{"degradeTimeMinutes": -3}'}),
        NodeWords({"slackwater.io/mid-static-cpu-reserved-ratio": "1.5"}),
        NodeWords({"slackwater.io/cpu-reclaim-ratio": "much"}),
    ],
)
def test_a_bad_layer_keeps_the_last_good_strategy_and_says_why(node: NodeWords) -> None:
    before = resolve({**ON, "riseWindows": 4}, (), NodeWords())
    after = resolve({**ON, "riseWindows": 5}, (), node, before)
    assert (after.strategy, after.spec) == (before.strategy, before.spec)
    assert after.reason.startswith(("annotation", "label"))
    fresh = resolve({**ON, "riseWindows": 5}, (), node)
    assert fresh.strategy == strategy_of({**ON, "riseWindows": 5})
    assert fresh.reason == after.reason


def test_a_bad_cluster_keeps_the_last_good_one_and_before_there_is_one_nothing_is_offered() -> None:
    bad = {**ON, "cpuReclaimThresholdPercent": -1}
    good = resolve(ON, (), NodeWords())
    assert resolve(bad, (), NodeWords(), good).strategy == good.strategy
    never = resolve(bad, (), NodeWords())
    assert not never.strategy.enabled
    assert "cluster: cpuReclaimThresholdPercent: -1" in never.reason


def test_a_null_overrides_nothing() -> None:
    assert resolve({**ON, "riseWindows": None}, (), NodeWords()).strategy == Strategy()


@given(st.integers(0, 150))
def test_a_ratio_is_the_percent_that_was_written(percent: int) -> None:
    assert percent_of_ratio(f"{percent / 100:.2f}") == percent


names = st.sampled_from(sorted(FIELDS))
values = st.integers(-5, 200) | st.booleans()


@given(st.dictionaries(names, st.none() | values | st.sampled_from(["usage", ""])), st.dictionaries(names, values))
def test_whatever_is_written_a_node_has_an_allowed_strategy(cluster: dict[str, Any], own: dict[str, Any]) -> None:
    found = resolve(cluster, (), NodeWords({}, {OWN: json.dumps(own)}))
    assert problems_of(found.spec) == []
    assert strategy_of(found.spec) == found.strategy
    if not found.reason:
        assert own.items() <= found.spec.items() | {("enable", own.get("enable"))}

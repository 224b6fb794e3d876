"""Strategies: every field has a default and a range, layers override each other, and a bad one changes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.offers.document import DEFAULTS, FIELDS, problems_of, strategy_of
from slackwater.offers.node import NodeState
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.snapshots import due_at_of
from slackwater.offers.strategy import CountingPolicy, MarginMode, MidMode, Strategy
from slackwater.offers.strategy_layers import (
    NodeOverrides,
    PoolStrategy,
    Selector,
    last_good_overrides,
    percent_of_ratio,
    resolve,
)
from slackwater.offers.what_if import offers_under

ON = {"enable": True}
OWN = "slackwater.io/colocation-strategy"


def test_unset_fields_are_the_defaults_of_the_formulas_but_for_being_off() -> None:
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
        70, 120, Resources(100, 200), False, 0.2, 3, 30.0, 120.0, 61.0, True, CountingPolicy.REQUEST,
        CountingPolicy.MAX_USAGE_REQUEST,
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
        ("cpuReclaimThresholdPercent", 1001),
        ("degradeTimeMinutes", 10**400),
        ("degradeFromSeconds", 10**30),
        ("bindSettleSeconds", 10**400),
        ("riseWindows", 10**9),
        ("reservedMemoryBytes", 2**63),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_fields_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: ") as caught:
        strategy_of({field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("name", [name for name, one in FIELDS.items() if one.schema.get("type") == "integer"])
def test_the_largest_numbers_that_are_allowed_can_be_decided_by(name: str) -> None:
    """A number that is taken and cannot be computed with would stop the decisions about every node that follows it."""
    most = FIELDS[name].schema["maximum"]
    used = most - (name == "degradeFromSeconds")  # which must be below the other age
    whole = {"enable": True, "midReclaimMode": "static", "degradeTimeMinutes": 525_600, name: used}
    followed, bytes_of_all = strategy_of(whole), 2**53
    pod = PodInput("a", "prod", "LS", Resources(1, 1), None, bound_seconds_ago=1)
    node = NodeSnapshot(Resources(10**6, bytes_of_all), Resources(), (pod,), Resources())
    due_at = due_at_of(NodeState("n", window_end=2**32), followed, datetime(2200, 1, 1, tzinfo=UTC))
    alone, (together,) = decide_node(node, followed, Gates(), 60), offers_under([node], [followed])
    assert (alone.batch.value, alone.mid.value) == (together.batch, together.mid)
    assert due_at < 2**63
    with pytest.raises(InvalidInput, match=f"^{name}: {most + 1} is not allowed; a whole number.* to {most}$"):
        strategy_of({name: most + 1})


def test_a_name_that_is_nearly_right_is_refused_with_the_right_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean cpuReclaimThresholdPercent"):
        strategy_of({"CPUReclaimThresholdPercent": 60})


def test_shortening_only_the_last_age_starts_decay_before_it() -> None:
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
    node = NodeOverrides(
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
    assert resolve(ON, (), NodeOverrides(labels)).strategy.cpu_reclaim_threshold_percent == 20
    notes = {"node.koordinator.sh/colocation-strategy": '{"riseWindows": 4}', OWN: '{"riseWindows": 3}'}
    assert resolve(ON, (), NodeOverrides({}, notes)).strategy.rise_windows == 3


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
    node = NodeOverrides({}, {OWN: '{"enable": true}'})
    assert not resolve({}, (), node).strategy.enabled
    assert not resolve({"enable": False}, (), node).strategy.enabled
    assert not resolve(ON, (), NodeOverrides({}, {OWN: '{"enable": false}'})).strategy.enabled


@pytest.mark.parametrize(
    "node",
    [
        NodeOverrides({}, {OWN: "{"}),
        NodeOverrides({}, {OWN: "[]"}),
        NodeOverrides({}, {OWN: '{"degradeTimeMinutes": -3}'}),
        NodeOverrides({"slackwater.io/mid-static-cpu-reserved-ratio": "1.5"}),
        NodeOverrides({"slackwater.io/cpu-reclaim-ratio": "much"}),
    ],
)
def test_a_bad_layer_keeps_the_last_good_strategy_and_says_why(node: NodeOverrides) -> None:
    good = NodeOverrides(
        dict.fromkeys(node.labels, "0.45"), dict.fromkeys(node.annotations, '{"bindSettleSeconds": 45}')
    )
    before = resolve({**ON, "riseWindows": 4}, (), good)
    last_good = last_good_overrides(node, good, None)
    after = resolve({**ON, "riseWindows": 4}, (), node, last_good)
    assert (after.strategy, after.spec, after.sources) == (before.strategy, before.spec, before.sources)
    assert after.reason.startswith(("annotation", "label"))
    others = resolve({**ON, "riseWindows": 5}, (), node, last_good)
    assert others.spec == {**before.spec, "riseWindows": 5}, "what others say goes on to count"
    fresh = resolve({**ON, "riseWindows": 5}, (), node)
    assert fresh.strategy == strategy_of({**ON, "riseWindows": 5})
    assert fresh.reason == after.reason
    assert fresh.levels == ("cluster",)


def test_what_was_good_last_is_kept_word_by_word_while_bad_follows_bad() -> None:
    ratio, other = "slackwater.io/cpu-reclaim-ratio", "slackwater.io/memory-reclaim-ratio"
    first = NodeOverrides({ratio: "0.4", other: "0.5", "disk": "ssd"}, {OWN: "{}", "note": "x"})
    second = NodeOverrides({ratio: "0.3", other: "half"}, {OWN: "{}"})
    third = NodeOverrides({ratio: "a third", other: "half"}, {OWN: "{"})
    assert last_good_overrides(first, NodeOverrides(), None) is None
    kept = last_good_overrides(second, first, None)
    assert resolve(ON, (), second, kept).spec == {
        **ON, "cpuReclaimThresholdPercent": 30, "memoryReclaimThresholdPercent": 50,
    }  # fmt: skip
    kept = last_good_overrides(third, second, kept)
    assert resolve(ON, (), third, kept).spec == {
        **ON, "cpuReclaimThresholdPercent": 30, "memoryReclaimThresholdPercent": 50,
    }  # fmt: skip
    assert last_good_overrides(first, third, kept) is None
    assert last_good_overrides(third, NodeOverrides({ratio: "?"}), None) == NodeOverrides()


def test_a_node_is_never_on_where_the_cluster_is_off_however_its_words_were_kept() -> None:
    kept = NodeOverrides({}, {OWN: '{"enable": true}'})
    assert not resolve({"enable": False}, (), NodeOverrides({}, {OWN: "{"}), kept).strategy.enabled


def test_of_a_cluster_that_cannot_be_used_nothing_is_offered() -> None:
    bad = {**ON, "cpuReclaimThresholdPercent": -1}
    never = resolve(bad, (), NodeOverrides())
    assert not never.strategy.enabled
    assert "cluster: cpuReclaimThresholdPercent: -1" in never.reason


def test_a_null_overrides_nothing() -> None:
    assert resolve({**ON, "riseWindows": None}, (), NodeOverrides()).strategy == Strategy()


@given(st.integers(0, 150))
def test_a_ratio_is_the_percent_that_was_written(percent: int) -> None:
    assert percent_of_ratio(f"{percent / 100:.2f}") == percent


names = st.sampled_from(sorted(FIELDS))
values = st.integers(-5, 200) | st.booleans()


@given(st.dictionaries(names, st.none() | values | st.sampled_from(["usage", ""])), st.dictionaries(names, values))
def test_whatever_is_written_a_node_has_an_allowed_strategy(cluster: dict[str, Any], own: dict[str, Any]) -> None:
    found = resolve(cluster, (), NodeOverrides({}, {OWN: json.dumps(own)}))
    assert problems_of(found.spec) == []
    assert strategy_of(found.spec) == found.strategy
    if not found.reason:
        assert own.items() <= found.spec.items() | {("enable", own.get("enable"))}


def test_a_base_stands_below_the_cluster_and_may_have_fractions() -> None:
    base = {"enable": True, "degradeFromSeconds": 0.5, "degradeTimeMinutes": 0.05, "riseWindows": 7}
    found = resolve({"riseWindows": 3}, (), NodeOverrides(), base=base)
    assert (found.strategy.enabled, found.strategy.rise_windows) == (True, 3)
    assert (found.strategy.decay_from_seconds, found.strategy.decay_to_seconds) == (0.5, 3.0)
    assert not resolve({"enable": False}, (), NodeOverrides(), base=base).strategy.enabled
    with pytest.raises(InvalidInput, match=r"degradeFromSeconds: 5 .* \(3 s\)"):
        strategy_of({"degradeFromSeconds": 5}, base)


ratios = st.sampled_from(["0.1", "0.55", "1", "", "x", "-1"])
texts = st.sampled_from(['{"riseWindows": 4}', '{"bindSettleSeconds": 9}', "{", '{"riseWindows": 0}', "{}"])
words = st.builds(
    NodeOverrides,
    st.dictionaries(st.sampled_from(["slackwater.io/cpu-reclaim-ratio", "disk"]), ratios),
    st.dictionaries(st.just(OWN), texts),
)


@given(st.lists(words, min_size=1, max_size=6))
def test_each_word_of_a_node_counts_as_it_was_good_last(history: list[NodeOverrides]) -> None:
    """Against the plain rule: look back for the newest good text, without a gap in which there was none."""
    kept, before = None, NodeOverrides()
    for now in history:
        kept, before = last_good_overrides(now, before, kept), now
    found = resolve(ON, (), history[-1], kept)

    def newest(texts_of: Any, key: str) -> str | None:
        for each in reversed(history):
            text = texts_of(each).get(key)
            probe = NodeOverrides({key: text}) if texts_of is labels_of else NodeOverrides({}, {key: text})
            if text is None or not resolve(ON, (), probe).reason:
                return str(text) if text is not None else None
        return None

    good = NodeOverrides(
        {key: text for key in history[-1].labels if (text := newest(labels_of, key)) is not None},
        {key: text for key in history[-1].annotations if (text := newest(annotations_of, key)) is not None},
    )
    assert found.spec == resolve(ON, (), good).spec


def labels_of(node: NodeOverrides) -> Any:
    return node.labels


def annotations_of(node: NodeOverrides) -> Any:
    return node.annotations

"""NodeQOS, PodQOS and AvoidanceAction: exact values, and errors that name the field."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waterline_crowd import use

from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import QoSClass
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.podqos import PodQos, ScopeExpression, ScopeSelector
from slackwater.waterline.policies.quantity import in_unit_of, percentage, quantity
from slackwater.waterline.policies.rules import NodeQosRules
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Dimension, Metric

D = Decimal
RULE = {"name": "cpu", "metricRule": {"name": "node_cpu_usage_ratio", "value": 0.85}, "actionName": "throttle"}


def node_qos(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "default"}, "spec": {"rules": list(rules)} | spec}


def metric_rule(name: str, value: Any, **fields: Any) -> dict[str, Any]:
    return RULE | {"metricRule": {"name": name, "value": value} | fields}


def test_a_rule_is_what_was_written() -> None:
    written = RULE | {"avoidanceThreshold": 2, "restoreThreshold": 3, "coolDownSeconds": 60, "strategy": "Preview"}
    document = NodeQosRules.parse(node_qos(written, selector={"matchLabels": {"pool": "x"}}))
    policy = document.policy()
    (rule,) = policy.rules
    assert (rule.key, rule.metric, rule.action, rule.is_preview) == ("default.cpu", *_metric_and_action(), True)
    assert (rule.waterline, rule.target) == (D("0.85"), D("0.85"))
    assert (rule.avoidance_threshold, rule.restore_threshold, rule.cool_down_seconds) == (2, 3, 60)
    assert policy.selector is not None
    assert policy.selector.matches({"pool": "x"})
    assert not policy.selector.matches({"pool": "y"})
    assert NodeQosRules.parse(document.document()) == document


def _metric_and_action() -> tuple[str, str]:
    return "node_cpu_usage_ratio", "throttle"


@pytest.mark.parametrize(
    ("rule", "waterline", "target"),
    [
        (metric_rule("node_cpu_usage", "4500m"), 4500, 4500),
        (metric_rule("node_cpu_usage", 4.5), 4500, 4500),
        (metric_rule("node_cpu_usage", "4.0005"), D("4000.5"), D("4000.5")),
        (metric_rule("node_memory_usage", "1.5Gi", target="1Gi"), D("1.5") * 2**30, 2**30),
        (metric_rule("node_cpu_usage_ratio", "85%"), D("0.85"), D("0.85")),
        (metric_rule("batch_memory_threshold", 0.7), D("0.7"), D("0.68")),
        (metric_rule("batch_cpu_shortfall", 0.7, target=0.6), D("0.7"), D("0.6")),
    ],
)
def test_quantities_are_exact_in_the_unit_of_the_metric(rule: dict[str, Any], waterline: Any, target: Any) -> None:
    (made,) = NodeQosRules.parse(node_qos(rule)).policy().rules
    assert (made.waterline, made.target) == (waterline, target)


@pytest.mark.parametrize(
    ("document", "field", "says"),
    [
        (node_qos(metric_rule("moon_phase", 1)), "spec.rules.0.metricRule", "allowed: batch_cpu"),
        (node_qos(metric_rule("node_cpu_usage", "lots")), "spec.rules.0.metricRule", "cores like 4.5"),
        (node_qos(metric_rule("node_cpu_usage", True)), "spec.rules.0.metricRule.value", "a number or a text"),
        (node_qos(metric_rule("node_cpu_usage", 0)), "spec.rules.0.metricRule", "above 0"),
        (node_qos(metric_rule("node_cpu_usage_ratio", 85)), "spec.rules.0.metricRule", "allowed: a ratio up to 1"),
        (node_qos(metric_rule("node_memory_usage", "1Gi", target="2Gi")), "spec.rules.0.metricRule", "not be above"),
        (node_qos(metric_rule("node_cpu_usage_ratio", 0.8, target=-0.1)), "spec.rules.0.metricRule", "not be below 0"),
        (node_qos(metric_rule("node_memory_usage", "512m")), "spec.rules.0.metricRule", "less than one byte"),
        (node_qos(metric_rule("node_memory_usage", 0.9)), "spec.rules.0.metricRule", "less than one byte"),
        (node_qos(metric_rule("node_memory_usage", "2Gi", target="4500m")), "spec.rules.0.metricRule", "bytes like"),
        (
            node_qos(metric_rule("network_usage", "4500m")),
            "spec.rules.0.metricRule",
            "'m', which is not a unit of this quantity",
        ),
        (node_qos(metric_rule("node_cpu_usage", "4Gi")), "spec.rules.0.metricRule", "cores like 4.5 or 4500m"),
        (node_qos(metric_rule("batch_cpu_shortfall", 0.7)), "spec.rules.0.metricRule", "needs a target"),
        (node_qos(metric_rule("batch_cpu_shortfall", 0.3, target=0.2)), "spec.rules.0.metricRule", "at least 0.4"),
        (node_qos(metric_rule("batch_memory_threshold", 0.7, target=0.7)), "spec.rules.0.metricRule", "below"),
        (node_qos(metric_rule("node_cpu_usage", "1Ki1")), "spec.rules.0.metricRule", "not a quantity"),
        (node_qos(metric_rule("node_cpu_usage", "1e400")), "spec.rules.0.metricRule", "out of range"),
        (node_qos(metric_rule("node_cpu_usage", "1e999999999")), "spec.rules.0.metricRule", "not a quantity"),
        (node_qos(metric_rule("node_memory_usage", "1e3Mi")), "spec.rules.0.metricRule", "not a quantity"),
        (node_qos(metric_rule("node_cpu_usage_ratio", "1e-400%")), "spec.rules.0.metricRule", "out of range"),
        (node_qos(metric_rule("node_memory_usage", "1.000000000000000000001Gi")), "spec.rules.0.metricRule", "digits"),
        (node_qos(RULE | {"avoidanceThreshold": 0}), "spec.rules.0.avoidanceThreshold", "greater than or equal to 1"),
        (node_qos(RULE, RULE), "spec.rules", "unique"),
        (node_qos(RULE | {"strategy": "Maybe"}), "spec.rules.0.strategy", "Preview"),
        (node_qos({**RULE, "colour": "red"}), "spec.rules.0.colour", "unknown field"),
        (node_qos({"name": "a", "metricRule": RULE["metricRule"]}), "spec.rules.0.actionName", "required"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        NodeQosRules.parse(document)
    assert caught.value.field == field
    assert says in caught.value.message


def test_a_metric_of_ones_own_may_carry_a_waterline() -> None:
    metrics = BUILT_IN.with_metrics(Metric("queue_length", Dimension.NUMBER))
    document = NodeQosRules.parse(node_qos(metric_rule("queue_length", "5k")), metrics)
    assert document.policy(metrics).rules[0].waterline == 5000
    with pytest.raises(InvalidInput, match="queue_length is not registered"):
        document.policy()


def test_what_is_stored_is_read_with_the_metrics_that_are_installed_and_without_those_that_are_gone() -> None:
    metrics = BUILT_IN.with_metrics(Metric("queue_length", Dimension.NUMBER))
    written = node_qos(metric_rule("queue_length", "5k"), RULE | {"name": "other"})
    assert len(NodeQosRules.parse_stored(written, metrics).policy(metrics).rules) == 2
    gone = NodeQosRules.parse_stored(written, BUILT_IN)
    assert [rule.metric_rule.name for rule in gone.spec.rules] == ["queue_length", "node_cpu_usage_ratio"]
    with pytest.raises(InvalidInput, match="unique"):
        NodeQosRules.parse_stored(node_qos(RULE, RULE))


@given(st.decimals(allow_nan=False, allow_infinity=False), st.sampled_from(["", "m", "Gi", "E", "%"]))
def test_whatever_is_written_is_kept_exactly_and_travels_as_a_float_or_is_refused(number: Decimal, unit: str) -> None:
    try:
        found = percentage(f"{number}%") if unit == "%" else quantity(f"{number}{unit}")
    except ValueError:
        return
    assert (float(found) != 0) == (number != 0)
    assert abs(float(found)) < float("inf")


def test_an_action_is_what_was_written() -> None:
    spec = {"throttle": {"minRatio": 0.1, "stepRatio": "0.25", "minCpu": "0.2"}, "coolDownSeconds": 60}
    action = AvoidanceAction.parse({"metadata": {"name": "throttle"}, "spec": spec}).action()
    assert action.throttle == ThrottleBounds(D("0.1"), D("0.25"), D(0), 200)
    assert (action.evicts, action.disables_scheduling, action.cool_down_seconds) == (False, True, 60)
    eviction = {"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False}
    evict = AvoidanceAction.parse({"metadata": {"name": "evict"}, "spec": eviction}).action()
    assert (evict.throttle, evict.evicts, evict.grace_seconds, evict.disables_scheduling) == (None, True, 5, False)
    closing = AvoidanceAction.parse({"metadata": {"name": "close"}, "spec": {}}).action()
    assert (closing.throttle, closing.evicts, closing.cool_down_seconds) == (None, False, 300)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"coolDownSeconds": 0}, "spec.coolDownSeconds"),
        ({"throttle": {"stepRatio": 0}}, "spec.throttle.stepRatio"),
        ({"throttle": {"minRatio": 1.5}}, "spec.throttle.minRatio"),
        ({"throttle": {"minCpu": "5m"}}, "spec.throttle.minCpu"),
        ({"throttle": {"minCpu": "10.5m"}}, "spec.throttle.minCpu"),
        ({"eviction": {"terminationGracePeriodSeconds": -1}}, "spec.eviction.terminationGracePeriodSeconds"),
        ({"description": "x" * 1025}, "spec.description"),
    ],
)
def test_a_wrong_action_is_refused(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        AvoidanceAction.parse({"metadata": {"name": "a"}, "spec": spec})
    assert caught.value.field == field


# ---- selectors


def scope(name: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"scopeName": name, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({}, False),
        ({"scopeSelector": {}}, True),
        ({"labelSelector": {}}, True),
        ({"labelSelector": {"matchLabels": {"app": "a"}}}, True),
        ({"labelSelector": {"matchLabels": {"app": "b"}}}, False),
        ({"labelSelector": {"matchLabels": {"app": "a"}}, "scopeSelector": scope("QOSClass", "In", "LS")}, False),
        ({"scopeSelector": scope("QOSClass", "In", "BestEffort")}, True),
        ({"scopeSelector": scope("Priority", "In", "-100", "5000-5999")}, True),
        ({"scopeSelector": scope("Priority", "NotIn", "5500", "1")}, False),
        ({"scopeSelector": scope("Namespace", "NotIn", "default")}, False),
        ({"labelSelector": {"matchExpressions": [{"key": "gone", "operator": "DoesNotExist"}]}}, True),
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}}, False),
    ],
)
def test_a_podqos_matches_the_pods_that_it_selects(spec: dict[str, Any], matches: bool) -> None:
    document = PodQos.parse({"metadata": {"name": "p"}, "spec": spec})
    assert document.spec.matches(use("a", labels={"app": "a"})) == matches


@pytest.mark.parametrize(
    "selector",
    [
        scope("Priority", "In", "5-1"),
        scope("Priority", "In", "high"),
        scope("QOSClass", "In", "Best"),
        scope("QOSClass", "Is", "BE"),
        scope("QOSClass", "In"),
        scope("Phase", "In", "x"),
    ],
)
def test_a_selector_that_means_nothing_is_refused(selector: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ScopeSelector.parse(selector)


@given(st.integers(-9999, 9999), st.integers(0, 500), st.none() | st.integers(-9999, 9999))
def test_a_range_includes_both_ends_and_a_missing_priority_is_in_none(
    low: int, width: int, priority: int | None
) -> None:
    inside = ScopeSelector.parse(scope("Priority", "In", f"{low}-{low + width}"))
    outside = ScopeSelector.parse(scope("Priority", "NotIn", f"{low}-{low + width}", "123456"))
    expected = priority is not None and low <= priority <= low + width
    assert inside.matches(use("a", priority=priority)) == expected
    assert outside.matches(use("a", priority=priority)) != expected


def test_label_conditions_need_what_their_operator_needs() -> None:
    for operator, values in (("In", []), ("Exists", ["x"])):
        with pytest.raises(InvalidInput, match=r"takes (at least one|none)"):
            LabelSelector.parse({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]})


def test_kubernetes_classes_are_understood() -> None:
    assert ScopeSelector.parse(scope("QOSClass", "In", "Guaranteed")).named_classes == {QoSClass.LSR, QoSClass.LSE}
    assert ScopeSelector.parse(scope("QOSClass", "NotIn", "LSR")).named_classes == frozenset()


# ---- many expressions


SCOPES = st.tuples(
    st.sampled_from(["Namespace", "QOSClass", "Priority"]), st.sampled_from(["In", "NotIn"]), st.integers(0, 9)
)


@given(st.lists(SCOPES, max_size=40), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_a_selector_of_many_expressions_holds_what_each_of_them_says(
    written: list[tuple[str, str, int]], pods: list[tuple[int, int]]
) -> None:
    classes = [str(one) for one in QoSClass]
    values = {"Namespace": "n{}".format, "Priority": "{}-9".format, "QOSClass": lambda n: classes[n % len(classes)]}
    terms = [{"scopeName": name, "operator": op, "values": [values[name](n)]} for name, op, n in written]
    selector = ScopeSelector.parse({"matchExpressions": terms})
    for namespace, priority in pods:
        pod = replace(use("p"), namespace=f"n{namespace}", priority=priority)
        scope = pod.qos, pod.priority, pod.namespace
        assert selector.matches(pod) == all(one.matches(scope) for one in selector.match_expressions)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40), st.sets(st.integers(0, 30)))
def test_a_label_selector_of_many_expressions_holds_what_each_of_them_says(
    written: list[tuple[int, int]], labels: set[int]
) -> None:
    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    terms = [
        {"key": f"k{key}", "operator": operators[op]} | ({"values": ["v"]} if op < 2 else {}) for key, op in written
    ]
    selector, given_labels = LabelSelector.parse({"matchExpressions": terms}), {f"k{key}": "v" for key in labels}
    assert selector.matches(given_labels) == selector.selector.matches(given_labels)


def test_the_outcome_for_pods_of_one_scope_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = [{"scopeName": "Namespace", "operator": "NotIn", "values": [f"n{n}"]} for n in range(2000)]
    selector, evaluated = ScopeSelector.parse({"matchExpressions": terms}), list[object]()
    holds = ScopeExpression._is_in
    monkeypatch.setattr(ScopeExpression, "_is_in", lambda one, scope: evaluated.append(one) or holds(one, scope))
    assert all(selector.matches(use(f"p{number}")) for number in range(100))
    assert len(evaluated) == 2000


# ---- quantities


@given(st.decimals(0, 10**12, places=3, allow_nan=False))
def test_nothing_is_rounded(number: Decimal) -> None:
    assert quantity(str(number)) == number
    assert quantity(f"{number}m") * 1000 == number
    assert quantity(f"{number}Ki") == number * 1024
    assert in_unit_of(Dimension.CPU, f"{number}m") == number
    assert percentage(f"{number}%") * 100 == number


def test_a_stored_rule_is_read_as_it_was_allowed_then() -> None:
    for written in (metric_rule("node_memory_usage", "512m"), metric_rule("node_cpu_usage", 4, target=-1)):
        assert (
            NodeQosRules.parse_stored(node_qos(written)).spec.rules[0].metric_rule.value
            == written["metricRule"]["value"]
        )


@pytest.mark.parametrize("text", ["", "m", "NaN", "inf", "1 2", "0x10", "5KB", "5 m", "1_0", "\u0665"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not"):
        quantity(text)


@pytest.mark.parametrize("text", ["10", "10%%", "-5%", "%", "NaN%", "1_0%"])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a percentage"):
        percentage(text)

"""The NodeQOS document: round trip, and errors that name the field."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from slackwater.decisions.reasons import Mode
from slackwater.model.errors import InvalidInput
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.grants import Autonomy
from slackwater.waterline.policies.podqos import PodQos
from slackwater.waterline.rulebook import BEST_EFFORT, Documents, rulebook_of


def document(**spec: Any) -> dict[str, Any]:
    rule = {"name": "prod-cpu", "metricRule": {"name": "prod_cpu_pressure", "value": 0.10}}
    return {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "NodeQOS",
        "metadata": {"name": "default"},
        "spec": {"rules": [rule]} | spec,
    }


def test_what_is_left_out_has_its_default() -> None:
    rules = rulebook_of(NodeQos.parse(document()).with_generation(3))
    (rule,), (action,) = rules.policies.nodes[0].rules, rules.policies.actions
    assert (rule.key, rule.metric, rule.waterline, rule.action) == (
        "default.prod-cpu", "prod_cpu_pressure", Decimal("0.1"), action.name,
    )  # fmt: skip
    assert (rule.avoidance_threshold, rule.restore_threshold, rule.cool_down_seconds) == (1, 2, 3.0)
    assert (action.throttle, action.evicts, action.disables_scheduling) == (ThrottleBounds(), False, False)
    assert (rules.loop, rules.excess) == (LoopPolicy(), Excess())
    assert (rules.cluster.mode, rules.cluster.generation, rules.revision) == (Mode.THROTTLE, 3, 3)
    assert rules.policies.pods == (BEST_EFFORT,)


def test_a_document_of_the_older_form_is_read_and_means_the_same() -> None:
    """As the planner with two metrics stored it, all fields written out, a waterline of 0 allowed."""
    older = document(
        mode="throttle",
        weights="by-tier",
        throttle={"excessRatio": 0.2, "minCpuMilli": 100, "minRequestRatio": 0.5, "probeSeconds": 30.0},
    )
    older["spec"]["rules"] = [
        {
            "name": "prod-cpu",
            "metricRule": {"name": "prod_cpu_pressure", "value": 0.0},
            "avoidanceThreshold": 2,
            "restoreThreshold": 4,
            "coolDownSeconds": 5.0,
        }
    ]
    rules = rulebook_of(NodeQos.parse_stored(older))
    (rule,), (action,) = rules.policies.nodes[0].rules, rules.policies.actions
    assert (rule.waterline, rule.avoidance_threshold, rule.restore_threshold, rule.cool_down_seconds) == (0, 2, 4, 5.0)
    assert action.throttle == ThrottleBounds(request_ratio=Decimal("0.5"), min_milli=100)
    assert (rules.excess.gap_ratio, rules.loop.probe_seconds) == (Decimal("0.2"), 30.0)


def test_a_stored_rule_whose_metric_is_gone_rests_and_the_others_hold() -> None:
    known = document()["spec"]["rules"][0]
    gone = {"name": "swap", "metricRule": {"name": "swap_usage", "value": "1Gi"}}
    rules = rulebook_of(NodeQos.parse_stored(document(rules=[gone, known])))
    assert [rule.name for rule in rules.policies.nodes[0].rules] == ["prod-cpu"]


def test_documents_of_operators_take_the_place_of_what_is_always_there() -> None:
    others = Documents(
        pods=(PodQos.parse({"metadata": {"name": "default"}, "spec": {"allowedActions": ["evict"]}}),),
        actions=(
            AvoidanceAction.parse({"metadata": {"name": "throttle"}, "spec": {"throttle": {"minCpu": "0.2"}}}),
            AvoidanceAction.parse({"metadata": {"name": "evict"}, "spec": {"eviction": {}}}),
        ),
        autonomies=(Autonomy.parse({"metadata": {"name": "gold"}, "spec": {"mode": "evict"}}),),
        generations=4,
    )
    rules = rulebook_of(NodeQos.parse(document()).with_generation(3), others)
    assert {one.name: one.throttle and one.throttle.min_milli for one in rules.policies.actions} == {
        "throttle": 200,
        "evict": None,
    }
    assert [one.allowed_actions for one in rules.policies.pods] == [("evict",)]
    assert (rules.autonomy_of("gold").mode, rules.autonomy_of("silver").mode) == (Mode.EVICT, Mode.THROTTLE)
    assert (rules.revision, rules.source) == (7, "nodeqos/default@3 and 4 more")


def test_a_document_comes_back_as_it_was_written() -> None:
    parsed = NodeQos.parse(document(mode="observe", weights="by-request", throttle={"stepRatio": 0.25}))
    assert NodeQos.parse(parsed.document()) == parsed
    assert parsed.spec.throttle.loop().step_ratio == 0.25


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mode": "everything"}, "spec.mode"),
        ({"weights": "by-luck"}, "spec.weights"),
        (
            {"rules": [{"name": "a", "metricRule": {"name": "moon_phase", "value": 0.1}}]},
            "spec.rules.0.metricRule",
        ),
        (
            {"rules": [{"name": "a", "metricRule": {"name": "prod_cpu_pressure", "value": 10}}]},
            "spec.rules.0.metricRule",
        ),
        ({"rules": [document()["spec"]["rules"][0] | {"avoidanceThreshold": 0}]}, "spec.rules.0.avoidanceThreshold"),
        ({"rules": document()["spec"]["rules"] * 2}, "spec.rules"),
        ({"throttle": {"stepRatio": 0}}, "spec.throttle.stepRatio"),
        ({"throttle": {"stepratio": 0.5}}, "spec.throttle.stepratio"),
    ],
)
def test_a_wrong_field_is_named_with_the_value(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        NodeQos.parse(document(**spec))
    assert caught.value.field == field
    assert field in caught.value.message

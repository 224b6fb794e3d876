"""The NodeQOS document: round trip, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.decisions.reasons import Mode
from slackwater.model.errors import InvalidInput
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policy import Rule, ThrottlePolicy


def document(**spec: Any) -> dict[str, Any]:
    rule = {"name": "prod-cpu", "metricRule": {"name": "prod_cpu_pressure", "value": 0.10}}
    return {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "NodeQOS",
        "metadata": {"name": "default"},
        "spec": {"rules": [rule]} | spec,
    }


def test_what_is_left_out_has_the_planners_defaults() -> None:
    policy = NodeQos.parse(document()).with_generation(3).policy()
    assert policy.rules == (Rule("prod-cpu", "prod_cpu_pressure", 0.10),)
    assert policy.throttle == ThrottlePolicy()
    assert (policy.mode, policy.generation) == (Mode.THROTTLE, 3)


def test_a_document_comes_back_as_it_was_written() -> None:
    parsed = NodeQos.parse(document(mode="observe", weights="by-request", throttle={"stepRatio": 0.25}))
    assert NodeQos.parse(parsed.document()) == parsed
    assert parsed.policy().throttle.step_ratio == 0.25


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mode": "evict"}, "spec.mode"),
        ({"weights": "by-luck"}, "spec.weights"),
        (
            {"rules": [{"name": "a", "metricRule": {"name": "moon_phase", "value": 0.1}}]},
            "spec.rules.0.metricRule.name",
        ),
        (
            {"rules": [{"name": "a", "metricRule": {"name": "prod_cpu_pressure", "value": 10}}]},
            "spec.rules.0.metricRule.value",
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

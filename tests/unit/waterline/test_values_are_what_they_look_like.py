"""Documents: a number is no text, `true` is no number, and a refusal names the field as it was written."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy
from slackwater.model.errors import InvalidInput
from slackwater.prediction.usecases.predict_policy import PredictPolicy
from slackwater.resources.metadata import Part
from slackwater.waterline.nodeqos import NodeQos
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.grants import Autonomy
from slackwater.waterline.policies.rules import NodeQosRules

RULE = {"name": "cpu", "metricRule": {"name": "node_cpu_usage_ratio", "value": 0.85}, "actionName": "throttle"}
NO_NUMBER, NO_TEXT = "must be a number; got ", "must be a number, without quotes; got "
NO_TRUTH = "must be true or false"


def rules(**fields: Any) -> dict[str, Any]:
    return {"rules": [RULE | fields]}


def parsed(kind: type[Part], spec: dict[str, Any]) -> Any:
    return kind.parse({"metadata": {"name": "x"}, "spec": spec})


@pytest.mark.parametrize(
    ("kind", "spec", "field", "says"),
    [
        (NodeQosRules, rules(avoidanceThreshold=True), "rules.0.avoidanceThreshold", f"{NO_NUMBER}True"),
        (NodeQosRules, rules(avoidanceThreshold="3"), "rules.0.avoidanceThreshold", f"{NO_TEXT}'3'"),
        (NodeQosRules, rules(avoidance_threshold=True), "rules.0.avoidance_threshold", NO_NUMBER),
        (NodeQosRules, rules(coolDownSeconds="5"), "rules.0.coolDownSeconds", NO_TEXT),
        (NodeQos, rules(restoreThreshold=True), "rules.0.restoreThreshold", NO_NUMBER),
        (NodeQos, rules() | {"throttle": {"minCpuMilli": "50"}}, "throttle.minCpuMilli", NO_TEXT),
        (AvoidanceAction, {"disableScheduling": "no"}, "disableScheduling", f"{NO_TRUTH}, without quotes; got 'no'"),
        (AvoidanceAction, {"disableScheduling": 0}, "disableScheduling", f"{NO_TRUTH}; got 0"),
        (AvoidanceAction, {"throttle": {"minRatio": True}}, "throttle.minRatio", NO_NUMBER),
        (AvoidanceAction, {"eviction": {"terminationGracePeriodSeconds": True}}, "eviction.termination", NO_NUMBER),
        (Autonomy, {"mode": "evict", "evictionsPerHour": True}, "evictionsPerHour", NO_NUMBER),
        (Autonomy, {"mode": "evict", "holdSeconds": "60"}, "holdSeconds", NO_TEXT),
        (PredictPolicy, {"violationRate": "0.1"}, "violationRate", NO_TEXT),
        (PredictPolicy, {"violationRate": True}, "violationRate", NO_NUMBER),
        (PredictPolicy, {"violationRate": {"cpu": "0.1"}}, "violationRate.cpu", NO_TEXT),
        (PredictPolicy, {"protectLSR": "yes"}, "protectLSR", NO_TRUTH),
        (PredictPolicy, {"cadence": {"reportingIntervalSeconds": "20"}}, "cadence.reporting", NO_TEXT),
        (ColocationStrategy, {"precedence": True}, "precedence", NO_NUMBER),
    ],
)
def test_what_would_have_to_be_guessed_is_refused(
    kind: type[Part], spec: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"^spec\.{field}") as refused:
        parsed(kind, spec)
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (NodeQosRules, rules(avoidanceThreshold=3.0, coolDownSeconds=5)),
        (AvoidanceAction, {"throttle": {"minRatio": "0.1", "minCpu": "50m"}, "eviction": None}),
        (AvoidanceAction, {"disableScheduling": False, "throttle": {"minCpu": 0.05}}),
        (PredictPolicy, {"violationRate": {"cpu": 0.1}, "protectLSR": None}),
    ],
)
def test_what_needs_no_guess_is_taken_and_what_was_stored_is_read_again(kind: type[Part], spec: dict[str, Any]) -> None:
    document = parsed(kind, spec)
    assert kind.parse(document.document()) == document


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"violationRate": 2}, "spec.violationRate"),
        ({"violationRate": {"cpu": 2}}, "spec.violationRate.cpu"),
        ({"violationRate": {"disk": 0.1}}, "spec.violationRate.disk"),
        ({"violationRate": [1]}, "spec.violationRate"),
    ],
)
def test_a_refusal_names_no_form_that_was_not_written(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parsed(PredictPolicy, spec)
    assert refused.value.field == field

"""Namespaces with a ResourceQuota or LimitRange: what limits, and what profiles do there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.profiles.test_profiles import pod, profile

from slackwater.profiles.limits import effect_of_limits, is_limiting, limited_namespaces, with_known_class
from slackwater.profiles.mutation import mutate_all
from slackwater.profiles.policy import mutation_objects

LENT = "slackwater.io/batch-cpu"


@pytest.mark.parametrize(
    ("kind", "spec", "limits"),
    [
        ("ResourceQuota", {"hard": {"requests.cpu": "4"}}, True),
        ("ResourceQuota", {"hard": {"memory": "4Gi", "pods": "3"}}, True),
        ("ResourceQuota", {"hard": {"limits.memory": "4Gi"}}, True),
        ("ResourceQuota", {"hard": {"pods": "3", "services": "1"}}, False),
        ("ResourceQuota", {"hard": {"pods": "3"}, "scopes": ["BestEffort"]}, True),
        ("ResourceQuota", {"hard": {"requests.slackwater.io/batch-cpu": "9"}}, True),
        ("ResourceQuota", {"hard": {"requests.kubernetes.io/mid-memory": "9"}}, True),
        ("ResourceQuota", {"hard": {"requests.example.com/gpu": "9"}}, False),
        ("ResourceQuota", {}, False),
        ("LimitRange", {"limits": [{"type": "Container", "default": {"memory": "512Mi"}}]}, True),
        ("LimitRange", {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}, True),
        ("LimitRange", {"limits": [{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}}]}, False),
        ("LimitRange", {"limits": [{"type": "Container", "max": {"example.com/gpu": "1"}}]}, False),
        ("LimitRange", {"limits": [{"type": "Container", "max": {LENT: "500"}}]}, True),
        ("LimitRange", {"limits": [{"type": "Container", "min": {LENT: "2"}, "default": {LENT: "9"}}]}, True),
        ("LimitRange", {"limits": [{"type": "Container", "maxLimitRequestRatio": {LENT: "2"}}]}, False),
        ("LimitRange", {"limits": [{"type": "Container", "min": {LENT: "2"}}]}, False),
        ("LimitRange", {"limits": [{"type": "Container", "default": {LENT: "9"}}]}, False),
        ("LimitRange", {"limits": [{"type": "Pod", "max": {LENT: "500"}}]}, False),
    ],
)
def test_what_limits_cpu_or_memory_of_pods(kind: str, spec: dict[str, Any], limits: bool) -> None:
    assert is_limiting(kind, spec) is limits
    assert bool(limited_namespaces([(kind, "team/a", spec)])) is limits


def test_by_default_pods_of_limited_namespaces_stay_and_a_profile_may_keep_only_their_resources() -> None:
    before = pod({"requests": {"cpu": "1"}})
    assert mutate_all(before, [profile(tier="batch")], "team", {}, limited=["team"]) is before
    keeps = profile(tier="batch", limitedNamespaces="keep-resources")
    made = mutate_all(before, [keeps], "team", {}, limited=["team"])
    assert made["metadata"]["labels"] == {"slackwater.io/tier": "batch"}
    assert made["spec"] == before["spec"]
    for other in (keeps, profile(tier="batch")):
        assert mutate_all(before, [other], "other", {}, limited=["team"])["spec"] != before["spec"]
    applies = profile(tier="batch", limitedNamespaces="apply")
    assert mutate_all(before, [applies], "team", {}, limited=["team"])["spec"] != before["spec"]


def test_the_policy_names_limited_namespaces_once() -> None:
    spec = mutation_objects([profile("a", tier="batch"), profile("b", tier="mid")], limited=["it's", "b"])[0]["spec"]
    assert spec["variables"] == [{"name": "limited", "expression": "request.namespace in ['b', 'it\\'s']"}]
    assert all("!variables.limited" in one["jsonPatch"]["expression"] for one in spec["mutations"])


def test_the_effect_names_the_namespaces_that_a_profile_selects() -> None:
    limited = {"team": "ResourceQuota compute", "other": "LimitRange sizes", "kube-system": "ResourceQuota x"}
    namespaces = {"team": {"blue": "yes"}, "other": {}}
    assert effect_of_limits(profile(), limited, namespaces) == (
        "pods are left as they are in limited namespaces: other (LimitRange sizes), team (ResourceQuota compute)"
    )
    blue = profile(namespaceSelector={"matchLabels": {"blue": "yes"}}, limitedNamespaces="apply")
    assert effect_of_limits(blue, limited, namespaces).startswith("the API server may refuse pods")
    assert "other" not in effect_of_limits(blue, limited, namespaces)
    assert effect_of_limits(blue, {}, namespaces) == ""


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ({}, "PriorityClass low is missing"),
        ({"low": (5600, "Never")}, "PriorityClass low has value 5600 and Never"),
        ({"low": (5500, "PreemptLowerPriority")}, "PriorityClass low has value 5500 and PreemptLowerPriority"),
        ({"low": (5500, "Never")}, ""),
    ],
)
def test_a_priority_that_the_cluster_does_not_have_is_left_out(classes: dict[str, tuple[int, str]], said: str) -> None:
    low = profile(tier="batch", priorityClass={"name": "low", "value": 5500, "preemptionPolicy": "Never"})
    fitting, why = with_known_class(low, classes)
    assert why == (f"priorities stay: {said}" if said else "")
    assert (fitting.spec.priority_class is None) is bool(said)
    assert fitting.spec.tier == "batch"

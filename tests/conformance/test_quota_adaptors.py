"""What the adaptors of quotas say of cases worked by hand, and that a wrong answer of the vectors is noticed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from files import ADAPTORS, cases_of, chosen_files, judge
from test_planted_errors import changed, planted

QUOTAS = ADAPTORS["koord-quota-sched-vectors/1"]
FILE = next((file for file in chosen_files() if file.name == "koord_quota_sched.json"), None)
AREAS = frozenset(
    {
        *("quota.webhook.defaulting", "quota.webhook.guarantee", "quota.webhook.sequence", "quota.webhook.self"),
        *("quota.pod_to_quota", "quota.can_preempt", "quota.preempt_eligible", "quota.select_victims"),
        *("quota.admission", "quota.admission_retries"),
    }
)
NOT_ASKED = frozenset({"error", "message", "status", "violating"})
"""Texts of the peer, and disruption budgets, of which the cases have none."""


def word(area: str, given: Any, want: Any, **more: Any) -> str:
    """`pass`, `FAIL`, `not covered`, or the rows by which the case differs."""
    verdict = judge(QUOTAS[area], {"area": area, "given": given, "expect": want, **more})
    return ", ".join(verdict.anchors) or verdict.word


def quota(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "max": {"cpu": 10}, "min": {"cpu": 5}, **fields}


ORG, TEAM = quota("org", is_parent=True), quota("team", parent="org")
ADDED = [{"op": "add", "quota": each, "expect": {"allow": True}} for each in (ORG, TEAM)]
POD = {"namespace": "space", "name": "pod", "quota_label": "team"}


def refused(operation: str, error: str, **fields: Any) -> dict[str, Any]:
    return {"op": operation, "expect": {"allow": False, "error": error}, **fields}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([refused("delete", "has 1 child quotas", quota=ORG)], "pass"),
        ([refused("delete", "has 1 child quotas", quota=TEAM)], "FAIL"),
        ([refused("delete", "not found quota", quota=quota("gone"))], "pass"),
        ([refused("delete", "can not delete quotaGroup", quota=quota("koordinator-default-quota"))], "pass"),
        ([{"op": "pod_create", "pod": POD}, refused("delete", "has 1 child pods", quota=TEAM)], "pass"),
        ([refused("pod_admit", "can not be linked", pod={**POD, "quota_label": "org"})], "pass"),
        ([{"op": "pod_admit", "pod": POD, "expect": {"allow": True}}], "pass"),
        ([{"op": "pod_admit", "pod": POD, "expect": {"allow": False}}], "FAIL"),
        (
            [
                {"op": "gate", "gate": "SupportParentQuotaSubmitPod", "enabled": True},
                {"op": "pod_admit", "pod": {**POD, "quota_label": "org"}, "expect": {"allow": True}},
            ],
            "quota-parents-take-no-claims",
        ),
        ([refused("update", "sub tree id changed", quota={**TEAM, "tree_id": "t"})], "pass"),
        ([refused("update", "tree id changed", quota=TEAM)], "FAIL"),
        ([refused("add", "AddQuota quota already exist", quota=TEAM)], "quota-put-again"),
        ([refused("update", "quota not exist", quota=quota("new", min={}))], "quota-put-again"),
        ([refused("add", "namespace is already bound", quota=quota("b", namespaces=["team"]))], "quota-by-claim"),
        (
            [
                {"op": "load", "quota": quota("big", parent="org", min={"cpu": 6})},
                {"op": "update", "quota": quota("big", parent="org", min={"cpu": 6}), "expect": {"allow": True}},
            ],
            "quota-checks-every-change",
        ),
        ([{"op": "add", "quota": quota("c", parent="org"), "expect": {"allow": True}}], "FAIL"),
        ([{"op": "pod_update_admit", "pod": POD, "expect": {"allow": False}}], "not covered"),
        ([{"op": "surprise"}], "not covered"),
    ],
)
def test_steps(steps: list[dict[str, Any]], expected: str) -> None:
    assert word("quota.webhook.sequence", {}, None, steps=[*copy.deepcopy(ADDED), *steps]) == expected


@pytest.mark.parametrize(
    ("fields", "allowed", "expected"),
    [
        ({"max_strict_check": ["cpu"], "used": {"cpu": 11}}, False, "quota-max-below-used"),
        ({"max_strict_check": ["cpu"], "used": {"cpu": 11}, "min": {"cpu": 11}}, False, "pass"),
        ({"weight_raw": '{"cpu": "1m"}'}, True, "pass"),
        ({"weight_raw": "{cpu"}, False, "pass"),
        ({"weight_raw": '{"cpu": "-1"}'}, False, "pass"),
        ({"weight_raw": '{"cpu": "1m"}'}, False, "FAIL"),
    ],
)
def test_one_quota_alone(fields: dict[str, Any], allowed: bool, expected: str) -> None:
    assert word("quota.webhook.self", {"quota": quota("q", **fields)}, {"allow": allowed}) == expected


def test_a_weight_that_names_some_resources_is_the_max_of_the_others() -> None:
    given = {"name": "q", "max": {"cpu": 5, "memory": 7}, "weight": {"cpu": 0}}
    want = {"parent": "koordinator-root-quota", "weight": {"cpu": 0, "memory": 7}, "tree_id": ""}
    assert word("quota.webhook.defaulting", {"quotas_in_order": [given]}, {"results": [want]}) == "pass"


def eligible(*ending: dict[str, Any], status: str = "Unschedulable") -> dict[str, Any]:
    fields = {"nominated": True, "nominated_node_status": status, "terminating_pods_on_node": list(ending)}
    return {"priority": 10, "quota": "q", "preemption_policy": None, **fields}


@pytest.mark.parametrize(
    ("given", "want", "expected"),
    [
        (eligible({"priority": 5, "quota": "q"}), False, "pass"),
        (eligible({"priority": 5, "quota": "other"}), True, "pass"),
        (eligible({"priority": 15, "quota": "q"}), True, "quota-waits-for-endings"),
        (eligible(), False, "FAIL"),
    ],
)
def test_a_preemptor_waits_for_what_is_ending(given: Any, want: bool, expected: str) -> None:
    assert word("quota.preempt_eligible", given, {"eligible": want}) == expected


def node(limit: int, *priorities: int, used: int = 0, **fields: Any) -> dict[str, Any]:
    preemptor = {"priority": 10, "request": {"cpu": 2}, "quota": "q"}
    pods = [{"priority": priority, "request": {"cpu": 1}, "quota": "q", **fields} for priority in priorities]
    return {"preemptor": preemptor, "pods_on_node": pods, "quota_used": {"cpu": used}, "quota_limit": {"cpu": limit}}


@pytest.mark.parametrize(
    ("given", "victims", "expected"),
    [
        (node(3, 5, 4), 1, "pass"),
        (node(2, 5, 4), 2, "pass"),
        (node(4, 5, 4), 0, "pass"),
        (node(4, 5, 4, used=3), 1, "pass"),
        (node(2, 5, 4, non_preemptible=True), 0, "pass"),
        (node(1, 5), 1, "quota-preempts-to-fit"),
        (node(1, 15), 1, "FAIL"),
    ],
)
def test_victims(given: Any, victims: int, expected: str) -> None:
    assert word("quota.select_victims", given, {"victims": victims, "violating": 0}) == expected


@pytest.mark.parametrize(
    ("operation", "want", "expected"),
    [
        ("CREATE", {"allow": False, "child_request_after": {"cpu": 3}}, "pass"),
        ("CREATE", {"allow": True, "child_request_after": {"cpu": 5}}, "FAIL"),
        ("UPDATE", {"allow": True, "child_request_after": {"cpu": 5}}, "quota-claims-do-not-change"),
        ("DELETE", {"allow": True, "child_request_after": {"cpu": 3}}, "pass"),
    ],
)
def test_admission(operation: str, want: Any, expected: str) -> None:
    given = {"max": {"cpu": 4}, "child_request": {"cpu": 3}, "request": {"cpu": 2}, "operation": operation}
    assert word("quota.admission", given, want) == expected


@pytest.mark.skipif(FILE is None, reason="no koord_quota_sched.json: set VECTORS to a folder that has it")
def test_a_planted_error_is_noticed() -> None:
    assert FILE is not None
    noticed, areas = 0, set()
    for area, case in cases_of(json.loads(FILE.read_text())):
        if area not in AREAS or judge(QUOTAS[area], case).word == "FAIL":
            continue
        answered = "steps" if "steps" in case else "expect"
        for path, value in changed(case[answered]):
            named = [part for part in path if isinstance(part, str)]
            if not named or NOT_ASKED & set(named) or (answered == "steps" and "allow" not in named):
                continue
            before, spoilt = judge(QUOTAS[area], case), {**case, answered: planted(case[answered], path, value)}
            if before.word == "pass":
                assert judge(QUOTAS[area], spoilt).word != "pass", (case["id"], path, value)
                noticed += 1
                areas.add(area)
    assert noticed > 20
    assert areas >= AREAS - {"quota.pod_to_quota", "quota.admission_retries"}


@pytest.mark.skipif(FILE is None, reason="no koord_quota_sched.json: set VECTORS to a folder that has it")
def test_none_of_these_areas_is_left_to_an_issue() -> None:
    assert FILE is not None
    for area, case in cases_of(json.loads(FILE.read_text())):
        if area in AREAS:
            verdict = judge(QUOTAS[area], case)
            assert verdict.word in ("pass", "differ") or "not built yet" not in verdict.why, case["id"]

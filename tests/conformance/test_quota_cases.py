"""What the adaptors of a peer's quota manager and profiles decide: by hand, and on spoilt answers of public cases."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from files import ADAPTORS, cases_of, chosen_files, judge
from verdicts import Case

from slackwater.fairshare.tree import Amounts

SCHEMA = "koord-quota-sched-vectors/1"
NO_FIGURE = {"guaranteed", "allocated", "np_request", "self_np_request"}
FILE = next((file for file in chosen_files() if file.name == "koord_quota_sched.json"), None)
CASES = [] if FILE is None else list(cases_of(json.loads(FILE.read_text())))


def word(suite: str, case: Case) -> str:
    verdict = judge(ADAPTORS[SCHEMA][suite], case)
    return ", ".join(verdict.anchors) or verdict.word


def quota(name: str, parent: str = "koordinator-root-quota", **more: Any) -> Mapping[str, Any]:
    given = {"max": {"cpu": 100}, "min": {}, "is_parent": False, "lend": True, **more}
    return {"op": "quota", "name": name, "parent": parent, "weight": given["max"], **given}


def pod(of: str, request: Amounts, **more: Any) -> Mapping[str, Any]:
    return {"op": "pod_add", "quota": of, "pod": "p", "request": request, **more}


def asked(of: str | None, **fields: Any) -> Mapping[str, Any]:
    return {"op": "expect", "quota": of, "fields": fields}


TOTAL = {"op": "total_delta", "res": {"cpu": 100}}
DEFAULT, SYSTEM = "koordinator-default-quota", "koordinator-system-quota"
ENDING = pod("a", {"cpu": 5}, node="n", deleted_seconds_ago=1, grace_seconds=30)


@pytest.mark.parametrize(
    ("steps", "gates", "expected"),
    [
        ([TOTAL, quota("a"), pod("a", {"cpu": 5}), asked("a", request={"cpu": 5}, used={})], [], "pass"),
        ([TOTAL, quota("a"), pod("a", {"cpu": 5}), asked("a", request={"cpu": 6})], [], "FAIL"),
        ([TOTAL, quota("a"), pod("a", {"cpu": 5, "x": 1}), asked("a", request={"cpu": 5})], [],
         "quota-unnamed-resources"),
        ([TOTAL, quota("a"), pod("a", {"cpu": 5, "x": 1}), asked("a", request={"cpu": 6})], [], "FAIL"),
        (
            [quota("a"), pod("a", {"cpu": 5}), {"op": "pod_reserve", "quota": "a", "pod": "p"},
             pod("a", {"cpu": 6}), asked("a", used={"cpu": 6}, self_request={"cpu": 6}, pods=1)],
            [],
            "pass",
        ),
        ([quota("a"), ENDING, asked("a", used={"cpu": 5})], ["ElasticQuotaIgnoreTerminatingPod"], "pass"),
        (
            [quota("a"), ENDING, asked("a", used={})],
            ["ElasticQuotaImmediateIgnoreTerminatingPod"],
            "quota-used-until-the-end",
        ),
        ([quota("a"), ENDING, asked("a", used={})], [], "FAIL"),
        ([TOTAL, pod(DEFAULT, {"cpu": 5}, node="n"), asked(None, total_except_system_default={"cpu": 95})], [],
         "quota-default-in-the-tree"),
        ([TOTAL, pod(DEFAULT, {"cpu": 5}, node="n"), asked(None, total_except_system_default={"cpu": 94})], [], "FAIL"),
        ([quota(SYSTEM), asked(SYSTEM, max={"cpu": 100})], [], "quota-default-in-the-tree"),
        ([quota(SYSTEM), asked(SYSTEM, max={"cpu": 99})], [], "FAIL"),
        ([quota("a"), {"op": "refresh", "quota": "b", "expect": None}], [], "pass"),
        ([quota("a"), {"op": "refresh", "quota": "a", "expect": None}], [], "FAIL"),
        ([quota("a"), {"op": "there is none"}], [], "FAIL"),
    ],
)  # fmt: skip
def test_steps_on_the_manager(steps: Sequence[Mapping[str, Any]], gates: Sequence[str], expected: str) -> None:
    given = {"scale_min": False, "gates": gates}
    assert word("quota.manager", {"given": given, "steps": steps}) == expected


@pytest.mark.parametrize(
    ("ratio", "milli_value", "want", "expected"),
    [
        (0.9, 101, 90, "pass"),
        (0.9, 101, 91, "FAIL"),
        (0.333, 1000, 333, "quota-whole-percent"),
        (1.5, 1000, 1000, "pass"),
    ],
)
def test_a_ratio_of_a_profile(ratio: float, milli_value: int, want: int, expected: str) -> None:
    given = {"milli_value": milli_value, "ratio": ratio}
    assert word("quota.profile_multiply", {"given": given, "expect": {"milli_value": want}}) == expected


def test_a_profile_of_nodes_that_are_all_ready_and_of_one_resource() -> None:
    node = {"zone": "a", "ready": True, "allocatable": {"cpu": 100, "memory": 10}}
    want = {"min": {"cpu": 100}, "total": {"cpu": 100, "memory": 10}, "unschedulable": {}}
    given = {"nodes": [node], "profile": {"name": "p", "zone": "a", "resource_keys": ["cpu"]}}
    assert word("quota.profile", {"given": given, "expect": want}) == "quota-generated-root"
    assert word("quota.profile", {"given": given, "expect": {**want, "min": {"cpu": 90}}}) == "FAIL"


def test_totals_of_trees_that_are_whole_nodes() -> None:
    tree = {"tree": "t", "op": "root_quota", "total_resource": {"cpu": 10, "memory": 1}}
    rest = {"op": "expect", "tree": "", "total": {"cpu": 10, "memory": 1}}
    given = {"nodes": [{"cpu": 10, "memory": 1}] * 2}
    assert word("quota.multi_tree", {"given": given, "steps": [tree, rest]}) == "pass"
    assert word("quota.multi_tree", {"given": given, "steps": [rest]}) == "FAIL"


def spoilt(case: Mapping[str, Any]) -> Iterator[tuple[str, Case]]:
    """The last figure of each name, made wrong one at a time."""
    last = {
        (name, number)
        for number, step in enumerate(case["steps"])
        for name in (step.get("fields", {}) if step["op"] == "expect" else {"expect": 0} if step.get("expect") else {})
    }
    for name, number in dict(sorted(last)).items():
        steps = copy.deepcopy(case["steps"][: number + 1])
        fields = steps[number] if name == "expect" else steps[number]["fields"]
        if name not in NO_FIGURE and isinstance(fields[name], dict):
            fields[name] = {key: 3 * amount + 7 for key, amount in (fields[name] or {"cpu": 0}).items()}
            yield f"{name} of step {number}", {**case, "steps": steps}


@pytest.mark.skipif(FILE is None, reason="no koord_quota_sched.json: set VECTORS to a folder that has it")
def test_a_planted_error_of_the_manager_is_noticed() -> None:
    noticed = 0
    for suite, case in CASES:
        for place, wrong in spoilt(case) if suite == "quota.manager" else ():
            assert word(suite, wrong) == "FAIL", (case["id"], place)
            noticed += 1
    assert noticed > 50


@pytest.mark.skipif(FILE is None, reason="no koord_quota_sched.json: set VECTORS to a folder that has it")
def test_of_the_manager_the_trees_and_the_profiles_nothing_is_left_out() -> None:
    mine = [(suite, case) for suite, case in CASES if suite in ("quota.manager", "quota.multi_tree", "quota.profile")]
    assert [case["id"] for suite, case in mine if word(suite, case) in ("FAIL", "not covered")] == []
    assert mine

"""The adaptors themselves, on cases worked by hand: what passes, what differs and why; a wrong answer fails."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from files import ADAPTORS, cases_of, judge, judge_file, schema_of
from run import main
from verdicts import Verdict, wanted

KOORD, CRANE = "koord-colocation-vectors/1", "crane"
GI = 2**30
LINEAR = {"type": "linear", "max": 10.0, "bucketSize": 1.0, "epsilon": 1e-15}


def verdict(suite: str, given: Any, want: Any, schema: str = KOORD) -> Verdict:
    return judge(ADAPTORS[schema][suite], {"in": given, "want": want})


def amounts(cpu: int, mem: int = GI) -> dict[str, dict[str, int]]:
    """Quantiles of a model; p98 of CPU and p95 of memory are there to be ignored."""
    return {"p95": {"cpu": cpu, "mem": 7}, "p98": {"cpu": 7, "mem": mem}}


def node(*pods: dict[str, Any], **tiers: dict[str, Any]) -> dict[str, Any]:
    """A node of 10 cores and 10 GiB; each pod asks for 4 cores and 4 GiB and is old, if it does not say otherwise."""
    asked = {"tier": "prod", "ageSeconds": 7200, "req": {"cpu": 4000, "mem": 4 * GI}}
    return {
        "coldStartSeconds": 3600,
        "safetyMarginPercent": 10,
        "nodeAllocatable": {"cpu": 10_000, "mem": 10 * GI},
        "pods": [{**asked, **pod} for pod in pods],
        "podPredictions": {pod["name"]: amounts(1000) for pod in pods},
        "tierPredictions": tiers,
    }


MARGIN = 11 * GI // 10


@pytest.mark.parametrize(
    ("suite", "given", "want"),
    [
        ("pod_peak", node({"name": "a"}), {"cpu": 1100, "mem": MARGIN}),
        (
            "pod_peak",
            node({"name": "a"}),
            {"peak": {"cpu": 1100}, "reclaimable": {"cpu": 2900, "mem": 4 * GI - MARGIN}},
        ),
        ("pod_peak", node({"name": "a", "ageSeconds": 60}), {"cpu": 4000, "mem": 4 * GI}),
        ("pod_peak", node({"name": "a", "tier": "batch"}), {}),
        ("pod_reclaimable", node({"name": "a", "tier": ""}), {"cpu": 2900, "mem": 4 * GI - MARGIN}),
        ("pod_reclaimable", node({"name": "a", "tier": "mid"}), {"cpu": 0, "mem": 0}),
        (
            "priority_reclaimable",
            node({"name": "a"}, sys=amounts(500, 0), prod=amounts(1000), none=amounts(100, 0), batch=amounts(9000)),
            {"cpu": 4000 - 1760, "mem": 4 * GI - MARGIN},
        ),
        (
            "prod_reclaimable_min",
            node({"name": "a"}, sys=amounts(0, 0), prod=amounts(2000, 0)),
            {"pod": {"cpu": 2900, "mem": 4 * GI - MARGIN}, "reclaimable": {"cpu": 1800, "mem": 4 * GI - MARGIN}},
        ),
    ],
)
def test_predictors_agree_and_a_wrong_amount_fails(suite: str, given: Any, want: Any) -> None:
    assert verdict(suite, given, want) == Verdict("pass")
    planted = re.sub(r"(?<=: )(\d+)", r"1\g<1>", json.dumps(want or {"cpu": 0}))
    assert verdict(suite, given, json.loads(planted)).word == "FAIL"


@pytest.mark.parametrize(
    ("suite", "given", "want", "anchor"),
    [
        (
            "pod_reclaimable",
            node({"name": "a", "qos": "LSE"}),
            {"cpu": 2900, "mem": 4 * GI - MARGIN},
            "lse-reclaimable",
        ),
        (
            "pod_peak",
            node({"name": "a", "ageSeconds": 60, "deleting": True}),
            {"cpu": 4000, "mem": 4 * GI},
            "terminating-pods",
        ),
        (
            "priority_reclaimable",
            node({"name": "a"}, sys=amounts(500, 0), prod=amounts(1000)),
            {"peak": {"cpu": 1650, "mem": MARGIN}},
            "tier-peak-without-system",
        ),
        ("priority_reclaimable", node({"name": "a"}, prod=amounts(1000)), {"error": True}, "unknown-lends-nothing"),
        ("pod_reclaimable", {**node({"name": "a"}), "podPredictions": {}}, {"error": True}, "unknown-lends-nothing"),
        (
            "pod_reclaimable",
            {**node({"name": "a"}), "safetyMarginPercent": 15},
            {"cpu": 2851, "mem": 4 * GI - 115 * GI // 100},
            "exact-percent",
        ),
    ],
)
def test_what_differs_names_its_reason_and_another_answer_fails(suite: str, given: Any, want: Any, anchor: str) -> None:
    assert verdict(suite, given, want) == Verdict("differ", f"docs/differences.md: {anchor}")
    assert verdict(suite, given, {"cpu": 123, "mem": 456}).word == "FAIL"


def test_an_error_that_nothing_explains_fails() -> None:
    assert verdict("pod_reclaimable", node({"name": "a"}), {"error": True}).word == "FAIL"


@pytest.mark.parametrize(
    ("suite", "given", "want"),
    [
        ("histogram", {"options": LINEAR, "ops": []}, {"percentiles": [[-0.1, 0.0], [0.5, 0.0], [1.1, 0.0]]}),
        (
            "histogram",
            {
                "options": {**LINEAR, "epsilon": 1.0},
                "ops": [["add", 1, 2.5], ["isEmpty", False], ["sub", 1, 1], ["sub", 1, 1], ["isEmpty", True]],
            },
            "inline",
        ),
        ("histogram", {"options": LINEAR, "ops": []}, {"checkpoint": {"totalWeight": 0, "bucketWeights": {}}}),
        (
            "histogram",
            {"options": LINEAR, "ops": [["add", 1, 1], ["add", 2, 2], ["add", 3, 4]]},
            {"checkpoint": {"totalWeight": 7, "bucketWeights": {"1": 2500, "2": 5000, "3": 10000}}, "isEmpty": False},
        ),
        ("histogram", {"options": {**LINEAR, "bucketSize": 0.0}, "ops": []}, {"error": True}),
        (
            "decaying_histogram",
            {"options": LINEAR, "halfLifeSeconds": 3600, "samples": [[2, 1, 1234567890]]},
            {"checkpoint": {"referenceTimestamp": "2009-02-14T00:00:00Z", "bucketWeights": {"2": 10000}}},
        ),
        (
            "decaying_histogram",
            {"options": LINEAR, "halfLifeSeconds": 9223372036, "samples": [[2, 1, 1234567890], [3, 1, 1234600000]]},
            {"percentiles": [[0.1, 3], [1.0, 4]]},
        ),
        ("histogram_options", {**LINEAR, "max": -1.0}, {"error": True}),
    ],
)
def test_histograms_agree(suite: str, given: Any, want: Any) -> None:
    assert verdict(suite, given, want) == Verdict("pass")


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ({"options": LINEAR, "ops": [["add", 1, 1], ["isEmpty", True]]}, "inline"),
        ({"options": LINEAR, "ops": [["add", 1, 1]]}, {"percentiles": [[0.5, 3]]}),
        ({"options": LINEAR, "ops": [["add", 1, 1]]}, {"checkpoint": {"bucketWeights": {"1": 9999}}}),
        ({"options": LINEAR, "ops": [["add", 1, 1]]}, {"error": True}),
        ({"options": LINEAR, "load": {"totalWeight": 1.0, "bucketWeights": {"99": 1}}}, {"totalWeight": 1.0}),
        ({"options": LINEAR, "a": [[1, 1]], "b": [[2, 1]]}, {"equalsSamples": [[1, 1], [3, 1]]}),
        ({"options": "noOptions", "ops": []}, {"isEmpty": True}),
    ],
)
def test_a_wrong_histogram_fails(given: Any, want: Any) -> None:
    assert verdict("histogram", given, want).word == "FAIL"


def test_a_question_that_is_not_understood_is_not_covered() -> None:
    asked = verdict("histogram", {"options": LINEAR, "ops": []}, {"mode": 1})
    assert asked == Verdict("not covered", "answers named mode")


def test_models_of_a_node_with_pods_are_the_peers_but_for_absent_tiers() -> None:
    given = {"pods": ["a", "b"], "trainings": 1, "clockAdvanceSeconds": 1860}
    assert verdict("predict_server", given, {"modelsAfterTraining": 9, "modelsAfterGC": 0}).word == "differ"
    assert verdict("predict_server", given, {"modelsAfterTraining": 8, "modelsAfterGC": 0}).word == "FAIL"


def test_defaults_are_compared_where_we_have_them() -> None:
    want = {"cpuHistogramDecayHalfLife": 43200, "memoryHistogramDecayHalfLife": 86400, "safetyMarginPercent": 10}
    assert verdict("config_defaults", None, {**want, "modelExpirationDuration": 1800}) == Verdict("pass")
    assert verdict("config_defaults", None, {**want, "coldStartDuration": 86400}).word == "differ"
    assert verdict("config_defaults", None, {**want, "cpuHistogramDecayHalfLife": 1, "coldStart": 1}).word == "FAIL"


@pytest.mark.parametrize(
    ("config", "out", "word"),
    [
        (
            {"percentile": "0.5", "marginFraction": "0.2", "targetUtilization": "0.5"},
            {"estimate": 3.1 * 1.2 / 0.5},
            "pass",
        ),
        ({"percentile": "0.5"}, {"estimate": 3.2}, "FAIL"),
        ({"percentile": "0.5", "halfLife": "1s"}, {"estimate": 3.1}, "differ"),
        ({"marginFraction": "x"}, {"error": True}, "pass"),
        ({"marginFraction": "x"}, {"estimate": 4.1}, "FAIL"),
        ({"percentile": "1.5"}, {"estimate": 4.1}, "differ"),
        ({}, {"error": True}, "FAIL"),
    ],
)
def test_percentiles_of_the_other_peer(config: dict[str, str], out: Any, word: str) -> None:
    given = {"config": config, "samples": [1, 2, 3, 4], "sample_step_s": 60}
    assert verdict("percentile", given, out, CRANE).word == word


def test_what_is_correct_stands_in_for_the_peers_quirk_and_prose_is_no_answer() -> None:
    case = {"in": {}, "out": {"estimate": 4.1, "num_buckets": 1001}, "correct": {"estimate": 1.1, "why": "it decays"}}
    assert wanted(case) == {"estimate": 1.1, "num_buckets": 1001}
    assert wanted({"out": True, "correct": False}) is False
    assert wanted({"expect": 1}) == 1


@pytest.mark.parametrize(
    "document",
    [
        {"suites": [{"id": "s", "cases": [{}, {}]}]},
        {"groups": [{"kind": "s", "cases": [{}, {}]}], "topologies": {}},
        {"cases": [{"area": "s"}, {"kind": "s"}], "areas": {"s": "…"}},
        {"vectors": [{"group": "s"}, {"kind": "s"}], "groups": {"s": "…"}},
    ],
)
def test_every_nesting_is_counted(document: dict[str, Any]) -> None:
    assert [suite for suite, _ in cases_of(document)] == ["s", "s"]


def test_a_schema_is_named_or_known_by_its_source() -> None:
    assert schema_of({"schema": KOORD}) == KOORD
    assert schema_of({"source": {"repo": "github.com/gocrane/crane"}}) == CRANE
    assert schema_of({}) == "unknown"


def test_the_command_prints_the_totals_last_and_a_line_per_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "planted.json"
    right = {"id": "right", "in": {"options": LINEAR, "ops": []}, "want": {"isEmpty": True}}
    wrong = {"id": "wrong", "in": {"options": LINEAR, "ops": []}, "want": {"isEmpty": False}}
    suites = [
        {"id": "histogram", "cases": [right, wrong]},
        {"id": "checkpoint_file", "cases": [{"id": "file", "in": {}, "want": {}}]},
        {"id": "not_yet", "cases": [{"id": "later"}]},
    ]
    file.write_text(json.dumps({"schema": KOORD, "suites": suites}))
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 1 failed, 1 differ"
    assert [line.split(":")[0] for line in lines if line.startswith("FAIL")] == ["FAIL    planted.json wrong"]
    assert "not covered in all: 1 cases" in lines
    suites[0]["cases"] = [right]
    file.write_text(json.dumps({"schema": KOORD, "suites": suites}))
    assert main([str(file)]) == 0


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"suites": {}}'])
def test_a_file_without_vectors_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (tmp_path / "none.json").write_text(text)
    assert main([str(tmp_path)]) == 2
    assert "none.json" in capsys.readouterr().err
    assert main([str(tmp_path / "absent.json")]) == 2


def test_a_case_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps({"schema": KOORD, "suites": [{"id": "pod_peak", "cases": [{"in": None, "want": 1}]}]}))
    assert [one.verdict.word for one in judge_file(file)] == ["FAIL"]

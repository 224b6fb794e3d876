"""No case of the vectors fails; those that differ say why; those that are not covered are counted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from files import ADAPTORS, Judged, by_suite, chosen_files, judge_file
from verdicts import DIFFERENCES, compare, differ, written_differences

FILES = chosen_files()
if not FILES:
    pytest.skip("no vectors: set VECTORS to a file or folder", allow_module_level=True)


Verdicts = Mapping[Path, Sequence[Judged]]


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    return {file: list(judge_file(file)) for file in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_case_fails(path: Path, verdicts: Verdicts) -> None:
    failures = [f"{one.id}: {one.verdict.why}" for one in verdicts[path] if one.verdict.word == "FAIL"]
    assert not failures, "\n".join(failures)


CLAIMED = {
    "koord_colocation.json": (
        "batch_calculate batch_degrade batch_prepare batch_nrt_update pod_numa_split divide dangling_numa_split"
        " zone_add safety_margin node_anno_reservation kubelet_reservation min_resource_list mid_calculate"
        " mid_degrade mid_prepare mid_need_sync noderesource_calculate sync_gate resource_diff"
        " strategy_merge strategy_node_override strategy_validation colocation_disabled"
        " prod_reclaimable_min pod_reclaimable predict_server"
        " histogram_options histogram decaying_histogram derived_histogram"
    ),
    "crane.json": (
        "percentile parse_duration parse_float_default sort_cpu sort_mem sort_general compare watermark_heap gaps"
        " gaps_v2022 throttle_container restore_container evict_run throttle_run throttle_run_v2022 sort_cpu_v2022"
        " dsp_signal dsp_truncate dsp_autocorrelation dsp_is_peak dsp_fill_missing dsp_outliers dsp_fft_estimator"
        " dsp_best_estimator dsp_find_period dsp_choose_period prediction_error"
        " rule_counters rule_counters_v2022 analyze_sequence podqos_match validate_metric_rule validate_rules"
        " cgroup_systemd cpu_times"
    ),
    "koordlet_qos.json": (
        "filter_used evict_be_satisfaction evict_cpu_used evict_allocatable evict_sort evict_config_check"
        " evict_mem_used evict_mem_select evict_policy_allowed evict_pod_request evict_task_check evict_sub evict_kill"
        " batch_pod batch_container cg2_shares_to_weight cg2_weight_to_shares cg2_cpu_max cg2_usage"
    ),
    "koord_quota_sched.json": (
        "colocation.probability colocation.qos_priority_matrix colocation.validate priority.band"
        " quota.manager quota.profile_multiply"
    ),
}


@pytest.mark.parametrize("name", CLAIMED)
def test_the_suites_of_this_version_pass_at_least_where_they_are_claimed(name: str, verdicts: Verdicts) -> None:
    path = next((file for file in FILES if file.name == name), None)
    if path is None:
        pytest.skip(f"no {name}: set VECTORS to a folder that has it")
    counts = by_suite(verdicts[path])
    for suite in CLAIMED[name].split():
        assert counts[name, suite]["pass"] > 0, suite


def test_of_prediction_only_series_that_the_vectors_do_not_hold_are_left_out(verdicts: Verdicts) -> None:
    left_out = [
        (one.suite, one.verdict.why)
        for file in FILES
        for one in verdicts[file]
        if one.verdict.word == "not covered" and one.suite.startswith(("dsp_", "prediction_error"))
    ]
    assert all("series" in why for _, why in left_out), left_out


def test_of_ensurance_nothing_is_left_out(verdicts: Verdicts) -> None:
    left_out = [
        one.suite
        for file in FILES
        for one in verdicts[file]
        if one.verdict.word == "not covered" and "issue 6" in one.verdict.why
    ]
    assert not left_out


def test_every_difference_has_its_row_with_a_reason() -> None:
    rows = re.findall(r"^\| `[a-z0-9-]+` \|.*$", DIFFERENCES.read_text(), re.MULTILINE)
    assert len(rows) == len(written_differences()) > 0
    assert all(len([cell for cell in row.strip("|").split("|") if cell.strip()]) == 3 for row in rows)
    assert [row for row in rows if not re.search(r"\*[^*]+\*", row)] == [], "the reason is in italics"
    assert differ("there-is-no-such-row").word == "FAIL"


def test_a_wrong_answer_would_fail() -> None:
    assert compare({"cpu": 1}, {"cpu": 2}).word == "FAIL"
    assert compare([1.0], [1.0 + 1e-6], relative=1e-9).word == "FAIL"
    assert compare(1, True).word == "FAIL"
    assert ADAPTORS

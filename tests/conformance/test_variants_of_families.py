"""Cases of the public families in forms that the public files do not have: each is read, and decided."""

from __future__ import annotations

from typing import Any

import pytest
from files import ADAPTORS, judge

CRANE, QOS, MOVES = "crane", "koordlet-qos-vectors/1", "koord-descheduler-vectors/1"
QUOTAS, COLOCATION = "koord-quota-sched-vectors/1", "koord-colocation-vectors/1"
STATE = {
    "cpu_total_usage": 9000,
    "cpu_total_utilization": 75,
    "memory_total_usage": 6e9,
    "memory_total_utilization": 80,
    "cpu_core_numbers": 12,
    "memory_total": 16e9,
}
ALL_MISSING = dict.fromkeys(list(STATE)[:4], "MISSING")
AMOUNTS = {"a": (2.0, 2e9), "b": (1.5, 1e9), "c": (1.0, 4e9), "d": (0.5, 5e8)}


def pods(**flags: str) -> list[dict[str, Any]]:
    """Of the first crane cases; a flag is set for the pods that it names."""
    return [
        {"name": name, "qos": "BestEffort", "cpu": cpu, "mem": memory}
        | {flag: True for flag, names in flags.items() if name in names}
        for name, (cpu, memory) in AMOUNTS.items()
    ]


def eviction(**given: Any) -> dict[str, Any]:
    return {"pods": pods(), "state": STATE, "excess": 0, "evict": {"cpu_total_usage": ["6000"]}} | given


def throttled(**given: Any) -> dict[str, Any]:
    container = {"name": "c", "usage": 3.0, "quota": -1, "period": 100_000}
    pod = {"name": "a", "qos": "BestEffort", "cpu": 3.0, "step": 10, "min": 10, "containers": [container]}
    return {"pods": [pod], "state": STATE, "excess": 0} | given


def percentile(**config: str) -> dict[str, Any]:
    return {"config": config, "samples": [0.05, 0.15, None, 0.25, 0.35], "sample_step_s": 60}


LOW, HIGH = {"cpu": 30, "memory": 40}, {"cpu": 60, "memory": 80}
ALLOC = {"cpu_m": 4000, "memory": 1000}
BOUNDS = {"low": {"cpu_m": 1200, "memory": 400}, "high": {"cpu_m": 2400, "memory": 800}}
TWO_OVER = {"consecutive_abnormalities": 1, "consecutive_normalities": 2}
LIMITS_ONLY = {"req": None, "lim": [500, 1 << 30]}
GAPS = {"mode": "evict", "evict": {"cpu_total_usage": ["6000"]}}
PASS, NO_BLANKET = "", "no-blanket"


@pytest.mark.parametrize(
    ("schema", "suite", "given", "out", "anchor"),
    [
        (CRANE, "gaps", GAPS, {"gaps": ALL_MISSING}, NO_BLANKET),
        (CRANE, "gaps", GAPS | {"state": STATE}, {"gaps": {"cpu_total_usage": 3000}}, PASS),
        (CRANE, "evict_run", eviction(state={}), {"evict_calls": list("abcd"), "gaps_after": ALL_MISSING}, NO_BLANKET),
        (CRANE, "evict_run", eviction(pods=pods(evictFails="a")), {"evict_calls": ["a", "b"]}, "credit-on-success"),
        (CRANE, "evict_run", eviction(pods=pods(evictFails="a")), {"evict_calls": list("abcd")}, PASS),
        (CRANE, "evict_run", eviction(pods=pods(notInLister="a")), {"evict_calls": ["b"]}, "credit-on-success"),
        (CRANE, "evict_run", eviction(evict={"memory_total_utilization": ["50"]}), {"evict_calls": ["c", "a"]}, PASS),
        (CRANE, "throttle_run", throttled(down={"memory_total_usage": ["1"]}), {"quota_writes": []}, PASS),
        (
            CRANE,
            "throttle_run",
            throttled(down={"cpu_total_utilization": ["50"]}),
            {"quota_writes": []},
            "cpu-utilization-throttles",
        ),
        (
            CRANE,
            "throttle_run",
            throttled(state={}, down={"cpu_total_usage": ["50"]}),
            {"quota_writes": [["a/c", 270_000]], "gaps_after": {"cpu_total_usage": "MISSING"}},
            NO_BLANKET,
        ),
        (CRANE, "percentile", percentile(targetUtil="0.5", margin="0.1"), {"estimate": 0.4 * 1.1 / 0.5}, PASS),
        (CRANE, "percentile", percentile(initMode="history", aggregated="true"), {"estimate": 0.4}, PASS),
        (CRANE, "dsp_is_peak", {"x": [], "i": 3}, {"peak": False}, PASS),
        (CRANE, "dsp_truncate", {"n": 2880}, {"first_index": 0, "len": 2880, "multiple": 2}, PASS),
        (CRANE, "dsp_autocorrelation", {"samples": []}, {"r": []}, PASS),
        (CRANE, "dsp_fft_estimator", {"samples": []}, {"error": "no samples"}, PASS),
        (CRANE, "prediction_error", {"actual": [1.0]}, {"error": True}, PASS),
        (
            MOVES,
            "cycle_limits",
            {"max_evict_total": 1, "seq": [["ns", "n1"], ["ns", "n2"]]},
            {"allow": [True, False], "total": 1},
            PASS,
        ),
        (MOVES, "thresholds", {"low": LOW, "high": HIGH, "alloc": ALLOC}, BOUNDS, PASS),
        (
            MOVES,
            "anomaly_rounds",
            {"condition": {"consecutive_abnormalities": 2}, "rounds_of_over_high_nodes": [["n"], ["n"], [], ["n"]]},
            {"abnormal_in_last_round": []},
            PASS,
        ),
        (
            MOVES,
            "anomaly_rounds",
            {"condition": TWO_OVER | {"consecutive_abnormalities": 2}, "steps": [*["over"] * 3, "under", "over"]},
            {"abnormal_after_over": [False, False, True, True]},
            PASS,
        ),
        (
            MOVES,
            "defaults_low_node_load",
            {"anomaly": {"abnormal": 7}, "node_fit": None},
            {"node_fit": True, "anomaly": {"timeout_s": 60, "abnormal": 7, "normal": 3}},
            PASS,
        ),
        (
            COLOCATION,
            "histogram",
            {
                "options": {"type": "linear", "max": 10.0, "bucketSize": 1.0},
                "load": {"totalWeight": 1.0, "bucketWeights": {"0": "1"}},
            },
            {"error": True},
            PASS,
        ),
        (
            QOS,
            "batch_container",
            {"qos": "BE", "spec": LIMITS_ONLY},
            {"cpu_shares": 2, "cfs_quota": 50_000, "memory_limit": 1 << 30},
            "limit-is-request",
        ),
        (
            QOS,
            "batch_pod",
            {"qos": "BE", "spec": {"c": LIMITS_ONLY}},
            {"cpu_shares": 2, "cfs_quota": 50_000, "memory_limit": 1 << 30},
            "limit-is-request",
        ),
    ],
)
def test_a_case_in_another_form_is_decided(
    schema: str, suite: str, given: dict[str, Any], out: dict[str, Any], anchor: str
) -> None:
    verdict = judge(ADAPTORS[schema][suite], {"id": "v", "kind": suite, "in": given, "out": out})
    assert verdict.word == ("differ" if anchor else "pass"), verdict.why
    assert verdict.anchors == ((anchor,) if anchor else ())


def test_a_quota_moved_below_its_own_child_and_a_refusal_in_other_words() -> None:
    def quota(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "max": {"cpu": 10_000}, "min": {"cpu": 0}, "is_parent": True, **more}

    steps = [
        {"op": "add", "quota": quota("a"), "expect": {"allow": True}},
        {"op": "add", "quota": quota("b", parent="a"), "expect": {"allow": True}},
        {"op": "update", "quota": quota("a", parent="b"), "expect": {"allow": True}},
    ]
    verdict = judge(ADAPTORS[QUOTAS]["quota.webhook.sequence"], {"id": "v", "given": {}, "steps": steps})
    assert verdict.anchors == ("quota-no-cycles",), verdict.why
    negative = quota("c", min={"cpu": 20_000})
    refused = {"op": "add", "quota": negative, "expect": {"allow": False, "error": "c tree id changed [] vs [t]"}}
    verdict = judge(ADAPTORS[QUOTAS]["quota.webhook.sequence"], {"id": "v", "given": {}, "steps": [refused]})
    assert verdict.anchors == ("quota-refused-in-own-words",), verdict.why

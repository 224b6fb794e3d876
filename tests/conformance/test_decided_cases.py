"""What the families of offers, gates, histograms, passes and counters decide, on cases worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from files import ADAPTORS, judge

KOORD, CRANE = "koord-colocation-vectors/1", "crane"


def word(schema: str, suite: str, given: Any, want: Any, **more: Any) -> str:
    """`pass`, `FAIL`, or the rows by which the case differs."""
    verdict = judge(ADAPTORS[schema][suite], {"kind": suite, "in": given, "want": want, **more})
    return ", ".join(verdict.anchors) or verdict.word


# ---- offers: 10 cores and 1,000 bytes, of which 40 % of CPU and 35 % of memory are the margin


def node(*pods: dict[str, Any], usage: dict[str, dict[str, int]] | None = None, **more: Any) -> dict[str, Any]:
    asked = {"tier": "prod", "qos": "LS", "phase": "Running", "req": {"cpu": 1000, "mem": 100}}
    measured = [{"name": name, "usage": used} for name, used in (usage or {}).items()]
    metrics = {"ageSeconds": 0, "pods": measured, **more.pop("metrics", {})}
    strategy = {"cpuReclaimThresholdPercent": 60, "memoryReclaimThresholdPercent": 65, **more.pop("strategy", {})}
    capacity = {"cpu": 10_000, "mem": 1000}
    return {
        "strategy": strategy,
        "node": {"capacity": capacity, "allocatable": capacity},
        "pods": [{**asked, **pod} for pod in pods],
        "metrics": metrics,
        **more,
    }


ZONES = [{"name": "zone-0", "cpu": 10_000, "mem": 500}, {"name": "zone-1", "cpu": 10_000, "mem": 500}]


@pytest.mark.parametrize(
    ("given", "want", "expected"),
    [
        # 10,000 - 4,000 - 2,000; 1,000 - 350 - 50
        (node({"name": "a"}, usage={"a": {"cpu": 2000, "mem": 50}}), {"batchCpu": 4000, "batchMem": 600}, "pass"),
        # each zone 10,000 - 4,000: together 12,000, while the node has 6,000
        (
            node(zones=ZONES),
            {
                "batchCpu": 6000,
                "batchMem": 650,
                "zones": {name: {"batchCpu": 6000, "batchMem": 325} for name in ("zone-0", "zone-1")},
            },
            "zones-within-node",
        ),
        # LSE asked for 1,000 of CPU and uses 2,500
        (
            node({"name": "a", "qos": "LSE"}, usage={"a": {"cpu": 2500, "mem": 100}}),
            {"batchCpu": 5000, "batchMem": 550},
            "lse-by-larger-use",
        ),
        # the margin of 57 % of 10,000 is 5,699 in binary floating point
        (node(strategy={"cpuReclaimThresholdPercent": 43}), {"batchCpu": 4301, "batchMem": 650}, "exact-percent"),
        (node(metrics={"ageSeconds": 901}), "reset", "pass"),
        (None, {"error": True}, "typed-arguments"),
        (node(), {"batchCpu": 6001, "batchMem": 650}, "FAIL"),
    ],
)
def test_batch(given: Any, want: Any, expected: str) -> None:
    assert word(KOORD, "batch_calculate", given, want) == expected


NODE_USAGE = {"nodeUsage": {"cpu": 2000, "mem": 200}}


@pytest.mark.parametrize(
    ("given", "want", "expected"),
    [
        # mid: min(500, 8,000), min(50, 800); batch by the peer: 10,000 - 4,000 - 400; 1,000 - 350 - 40
        (
            node(
                {"name": "a"},
                usage={"a": {"cpu": 400, "mem": 40}},
                metrics={**NODE_USAGE, "prodReclaimable": {"cpu": 500, "mem": 50}},
            ),
            {"batchCpu": 5600, "batchMem": 610, "midCpu": 500, "midMem": 50},
            "prediction-in-batch, sold-once",
        ),
        # 3,000 are called reclaimable where prod asked for 1,000
        (
            node({"name": "a"}, metrics={**NODE_USAGE, "prodReclaimable": {"cpu": 3000, "mem": 50}}),
            {"midCpu": 3000, "midMem": 50},
            "reclaimable-within-requests",
        ),
        # usage of the node without its memory: nothing is known to be unused
        (
            node({"name": "a"}, metrics={"nodeUsage": {"cpu": 2000}, "prodReclaimable": {"cpu": 500, "mem": 50}}),
            {"midCpu": 0, "midMem": 0},
            "pass",
        ),
        (node({"name": "a"}), {"midCpu": 1, "midMem": 0}, "FAIL"),
    ],
)
def test_mid_and_batch(given: Any, want: Any, expected: str) -> None:
    assert word(KOORD, "noderesource_calculate", given, want) == expected


@pytest.mark.parametrize(
    ("given", "want", "expected"),
    [
        ({}, {"status": True, "meta": False}, "no-rewrite-by-age"),  # never synced
        ({"secondsSinceLastSync": 0}, {"status": False, "meta": False}, "pass"),
        ({"secondsSinceLastSync": 0, "new": {"midCpu": 0}}, {"status": True, "meta": False}, "pass"),
        # within 10 %: after 300 s it is not published yet, and then it is
        *(
            (
                {"secondsSinceLastSync": age, "old": {"batchCpu": 100}, "new": {"batchCpu": 110}},
                {"status": age > 300, "meta": False},
                "pass",
            )
            for age in (0, 300, 301)
        ),
        ({"secondsSinceLastSync": 301, "metaLabelChanged": True}, {"status": True, "meta": False}, "FAIL"),
    ],
)
def test_what_is_left_out_of_a_gate_has_its_default(given: Any, want: Any, expected: str) -> None:
    assert word(KOORD, "sync_gate", given, want) == expected


def test_of_a_history_that_has_decayed_only_the_total_is_kept() -> None:
    """A sample at 1,000 h, one of no weight 200 h later: the reference moves by 200 half-lives."""
    options = {"type": "linear", "max": 10.0, "bucketSize": 1.0, "epsilon": 1e-15}
    hour = 3600
    samples = [[2, 1, 1000 * hour], [3, 0, 1200 * hour]]
    given = {"options": options, "halfLifeSeconds": hour, "samples": samples}
    kept = {"totalWeight": 2.0**-200, "bucketWeights": {}, "referenceTimestamp": "1970-02-20T00:00:00Z"}
    assert word(KOORD, "decaying_histogram", given, {"isEmpty": True, "checkpoint": kept}) == "pass"
    never = {"totalWeight": 0, "bucketWeights": {}, "referenceTimestamp": "0001-01-01T00:00:00Z"}
    assert word(KOORD, "decaying_histogram", {**given, "samples": []}, {"checkpoint": never}) == "pass"
    assert word(KOORD, "decaying_histogram", given, {"checkpoint": {"bucketWeights": {"2": 10000}}}) == "FAIL"


# ---- passes: a node of 12 cores that uses 9; each pod is throttled by 10 % of 1 core = 100 milli-cores

STATE = {
    "cpu_total_usage": 9000, "cpu_total_utilization": 75, "memory_total_usage": 6e9, "memory_total_utilization": 80,
    "cpu_core_numbers": 12, "memory_total": 16e9,
}  # fmt: skip
CPU, RATIO, MEMORY = "cpu_total_usage", "cpu_total_utilization", "memory_total_usage"


def pods(*names: str, quota: int = -1, **of: dict[str, Any]) -> list[dict[str, Any]]:
    container = {"name": "c", "usage": 1.0, "quota": quota, "period": 100_000}
    plain = {"qos": "BestEffort", "cpu": 1.0, "mem": 1e9, "step": 10, "min": 10, "containers": [container]}
    return [{"name": name, **plain, **of.get(name, {})} for name in names]


def run(given: list[dict[str, Any]], state: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
    return {"pods": given, "state": STATE if state is None else state, "excess": 0, **asked}


def test_throttles() -> None:
    cut = [["a/c", 90_000], ["b/c", 90_000]]
    down = {CPU: ["8850"]}
    assert word(CRANE, "throttle_run_v2022", run(pods("a", "b", "c"), down=down), {"quota_writes": cut}) == "pass"
    of_equals = {"quota_writes": cut[::-1]}
    assert word(CRANE, "throttle_run_v2022", run(pods("a", "b", "c"), down=down), of_equals) == "FAIL"
    absent = run(pods("x", "a", "b", x={"notInLister": True}), down=down)
    assert word(CRANE, "throttle_run", absent, {"quota_writes": cut}) == "pass"
    unknown = {key: value for key, value in STATE.items() if key != CPU}
    all_of_them = {"quota_writes": [[f"{name}/c", 90_000] for name in "abc"]}
    assert word(CRANE, "throttle_run", run(pods("a", "b", "c"), unknown, down=down), all_of_them) == "no-blanket"
    assert word(CRANE, "throttle_run", run(pods("a", "b"), down=down), {"quota_writes": []}) == "separate-gaps"
    own_steps = run(pods("a", "b", a={"step": 50}), down=down)
    assert word(CRANE, "throttle_run", own_steps, {"quota_writes": [["a/c", 50_000]]}) == "pass"


def test_restores() -> None:
    """100 of headroom: one pod gets 10 % of its core."""
    given = run(pods("a", "b", quota=100_000), up={CPU: ["9100"]})
    for suite in ("restore_run", "restore_run_v2022"):
        assert word(CRANE, suite, given, {"quota_writes": [["b/c", 110_000]]}) == "pass"
        assert word(CRANE, suite, given, {"quota_writes": [["a/c", 110_000]]}) == "restore-in-reverse"
    absent = run(pods("a", "b", quota=100_000, b={"notInLister": True}), up={CPU: ["9100"]})
    assert word(CRANE, "restore_run", absent, {"quota_writes": [["a/c", 110_000]]}) == "pass"
    unknown = {**given, "state": {}}
    for want in ({"panic": "index out of range"}, {"quota_writes": [["a/c", 110_000]]}):
        assert word(CRANE, "restore_run", unknown, want) == "missing-restores-nothing"


def test_evictions() -> None:
    """25 % of 12 cores are 3 cores: three pods; and without core count there is no gap."""
    evict = {RATIO: ["50"]}
    want = {"evict_calls": ["a", "b", "c"], "gaps_after": {RATIO: 0}}
    assert word(CRANE, "evict_run", run(pods(*"abcd"), evict=evict), want) == "pass"
    left = {"evict_calls": ["a"], "gaps_after": {RATIO: 2000}}
    assert word(CRANE, "evict_run", run(pods("a"), evict=evict), left) == "pass"
    assert word(CRANE, "evict_run", run(pods("a"), evict=evict), {**left, "gaps_after": {RATIO: 1900}}) == "FAIL"
    coreless = {key: value for key, value in STATE.items() if key != "cpu_core_numbers"}
    assert word(CRANE, "evict_run", run(pods("a"), coreless, evict=evict), {"evict_calls": []}) == "pass"

    refused = run(pods(*"abc", a={"evictFails": True}), evict={CPU: ["8000"]})
    credited = {"evict_calls": ["a"], "gaps_after": {CPU: 0}}
    assert word(CRANE, "evict_run", refused, credited) == "credit-on-success"
    assert word(CRANE, "evict_run", refused, {}, correct={"evict_calls": ["a", "b"]}) == "pass"

    both = run(pods("a", "b"), evict={CPU: ["8000"], MEMORY: ["5000000000"]})
    assert word(CRANE, "evict_run", both, {"evict_calls": ["a", "b"]}) == "every-gap-credited"
    assert word(CRANE, "evict_run", both, {"evict_calls": ["a"]}) == "pass"
    small_first = run(pods("a", "b", a={"cpu": 0.5, "priority": -1}), evict={CPU: ["8000"]})
    assert word(CRANE, "evict_run", small_first, {"evict_calls": ["a", "b"]}) == "no-needless-eviction"


@pytest.mark.parametrize(
    ("samples", "triggered", "restored", "expected"),
    [
        ([20, 20, 80, 80, 20, 20], [3], [5], "pass"),  # calm before a trigger counts for nothing
        ([80, 80, 20, 80, 80, 20, 20], [1, 4], [6], "pass"),  # interrupted, and the count of two begins again
        ([80, 80, 20, 80, 20, 20], [1, 3], [5], "consecutive-counting"),  # the peer's does not
        ([80, 20, 20, 80], [3], [], "consecutive-counting"),
        ([80, 80, 20, 20, 20], [1], [3, 4], "FAIL"),
    ],
)
def test_counters_of_two_above_and_two_calm(
    samples: list[int], triggered: list[int], restored: list[int], expected: str
) -> None:
    given = {"avoidanceThreshold": 2, "restoreThreshold": 2, "watermark": "50", "samples": samples}
    want = {"triggered": triggered, "restored": restored}
    told = {name: [place in places for place in range(len(samples))] for name, places in want.items()}
    assert word(CRANE, "rule_counters", given, told) == expected


def test_a_waterline_between_whole_numbers_is_compared_as_it_is_written() -> None:
    given = {"avoidanceThreshold": 1, "restoreThreshold": 1, "watermark": "4500m", "samples": [5]}
    assert word(CRANE, "rule_counters", given, {"triggered": [True], "restored": [False]}) == "pass"
    assert word(CRANE, "rule_counters", given, {"triggered": [False], "restored": [False]}) == "exact-waterline"


def test_no_rules_are_rules() -> None:
    assert word(CRANE, "validate_rules", {"rules": []}, {"error": False}) == "pass"
    assert word(CRANE, "validate_rules", {"rules": []}, {"error": True}) == "empty-rules-allowed"


@pytest.mark.parametrize("names", [("marginFraction", "targetUtilization"), ("margin", "target")])
def test_a_margin_and_a_target_utilization_multiply(names: tuple[str, str]) -> None:
    """The largest of 1 and 2 lies in the bucket that ends at 2.1: 2.1 x 1.2 / 0.8."""
    given = {"config": {"percentile": "0.9", names[0]: "0.2", names[1]: "0.8"}, "samples": [1, 2]}
    assert word(CRANE, "percentile", given, {"estimate": 2.1 * 1.2 / 0.8}) == "pass"
    assert word(CRANE, "percentile", {**given, "config": {"margins": "1"}}, {"estimate": 2.1}) == "FAIL"


@pytest.mark.parametrize(
    ("text", "seconds", "expected"),
    [
        ("2d", 172_800, "pass"),
        ("-1h30m", -5400, "pass"),
        ("5\u03bcs", 5e-6, "pass"),
        ("0", 0, "pass"),
        ("", None, "pass"),
        ("3", None, "pass"),
        ("--3s", None, "pass"),
        ("300000000h", None, "pass"),  # more than 64 bits of nanoseconds
        ("1d12h", None, "go-durations"),
        ("2w", 1_209_600, "go-durations"),
        ("3s", 4, "FAIL"),
        ("3s", None, "FAIL"),
    ],
)
def test_durations(text: str, seconds: float | None, expected: str) -> None:
    want = {"error": True} if seconds is None else {"error": False, "seconds": seconds}
    assert word(CRANE, "parse_duration", {"s": text}, want) == expected

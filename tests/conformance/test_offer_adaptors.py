"""The adaptors of offers and strategies, on cases worked by hand: what passes, what differs; a wrong one fails."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from files import ADAPTORS, judge
from verdicts import Verdict

KOORD = ADAPTORS["koord-colocation-vectors/1"]
BOTH = {"cpu": 10_000, "mem": 10_000}


def verdict(suite: str, given: Any, want: Any) -> Verdict:
    return judge(KOORD[suite], {"in": given, "want": want})


def node(*pods: dict[str, Any], metrics: dict[str, Any] | None = None, **strategy: Any) -> dict[str, Any]:
    """10 cores and 10,000 bytes of which all may be in use; every pod asks for 1,000 of each and uses `usage`."""
    asked = {"tier": "prod", "qos": "LS", "phase": "Running", "req": {"cpu": 1000, "mem": 1000}}
    measured = [{"name": pod["name"], "usage": pod["usage"]} for pod in pods if "usage" in pod]
    return {
        "strategy": {
            "enable": True,
            "cpuReclaimThresholdPercent": 100,
            "memoryReclaimThresholdPercent": 100,
            **strategy,
        },
        "node": {"capacity": BOTH, "allocatable": BOTH},
        "pods": [{**asked, **{key: value for key, value in pod.items() if key != "usage"}} for pod in pods],
        "metrics": {"ageSeconds": 0, "systemUsage": {"cpu": 0, "mem": 0}, "pods": measured, **(metrics or {})},
    }


def used(name: str, amount: int, **others: Any) -> dict[str, Any]:
    return {"name": name, "usage": {"cpu": amount, "mem": amount}, **others}


def batch(cpu: int, mem: int) -> dict[str, int]:
    return {"batchCpu": cpu, "batchMem": mem}


GATE = {"resourceDiffThreshold": 0.1, "updateTimeThresholdSeconds": 300}
RATIO = {"labels": {"node.koordinator.sh/cpu-reclaim-ratio": "0.29"}}
PROD_APP = {"hostApps": [{"name": "a", "usage": {"cpu": 100, "mem": 100}, "tier": ""}]}
PREDICTED = {"prodReclaimable": {"cpu": 600, "mem": 600}, "nodeUsage": {"cpu": 200, "mem": 200}}


@pytest.mark.parametrize(
    ("suite", "given", "want"),
    [
        ("batch_calculate", node(used("a", 200)), batch(9800, 9800)),
        ("batch_calculate", node({"name": "a"}), batch(9000, 9000)),
        ("batch_calculate", {**node(used("a", 200)), "metrics": None}, "reset"),
        ("mid_calculate", node(used("a", 200), metrics=PREDICTED), {"midCpu": 600, "midMem": 600}),
        ("pod_numa_split", {"request": {"cpu": 1, "mem": 1}, "numaNum": 0}, {"request": None}),
        ("strategy_merge", {"cluster": {"enable": True}, "node": {"annotationStrategy": "{"}}, {"enable": True}),
        (
            "strategy_merge",
            {"cluster": {"cpuReclaimThresholdPercent": 1}, "node": {}},
            {"cpuReclaimThresholdPercent": 1},
        ),
        ("strategy_validation", {"midUnallocatedPercent": 101}, False),
        ("colocation_disabled", {"cluster": {"enable": True}, "node": {}}, False),
        ("sync_gate", {"old": batch(100, 1), "new": batch(89, 1), **GATE}, {"status": True}),
    ],
)
def test_what_agrees_passes_and_a_wrong_answer_fails(suite: str, given: Any, want: Any) -> None:
    assert verdict(suite, given, want) == Verdict("pass")
    wrong = not want if isinstance(want, bool) else json.loads(re.sub(r"(?<=: )(\d+)", r"1\g<1>", json.dumps(want)))
    if wrong != want:
        assert verdict(suite, given, wrong).word == "FAIL"


@pytest.mark.parametrize(
    ("suite", "given", "want", "anchor"),
    [
        (
            "batch_calculate",
            node({"name": "a"}, cpuCalculatePolicy="maxUsageRequest", memoryCalculatePolicy="maxUsageRequest"),
            batch(10_000, 10_000),
            "unmeasured-by-request",
        ),
        ("batch_calculate", node(used("a", 200), cpuCalculatePolicy="request"), batch(9800, 9800), "cpu-by-request"),
        ("batch_calculate", node(used("a", 200), metrics=PROD_APP), batch(9800, 9800), "untagged-host-applications"),
        ("batch_calculate", node(used("a", 2000), memoryCalculatePolicy="request"), batch(8000, 9000), "sold-once"),
        (
            "noderesource_calculate",
            node(used("a", 200), metrics=PREDICTED),
            {**batch(9600, 9600), "midCpu": 600, "midMem": 600},
            "sold-once",
        ),
        (
            "mid_calculate",
            node(used("a", 200, qos="LSE"), metrics=PREDICTED),
            {"midCpu": 600, "midMem": 600},
            "lse-reclaimable",
        ),
        (
            "mid_calculate",
            node(used("a", 900), metrics=PREDICTED),
            {"midCpu": 600, "midMem": 600},
            "prediction-in-batch",
        ),
        (
            "strategy_merge",
            {"cluster": {"enable": True}, "node": RATIO},
            {"enable": True, "cpuReclaimThresholdPercent": 28},
            "ratio-rounding",
        ),
        ("strategy_validation", {"resourceDiffThreshold": 2}, True, "validated-once"),
        (
            "sync_gate",
            {"old": batch(1, 1), "new": batch(1, 1), **GATE, "secondsSinceLastSync": 400},
            {"status": True},
            "no-rewrite-by-age",
        ),
    ],
)
def test_what_differs_names_its_reason_and_another_answer_fails(suite: str, given: Any, want: Any, anchor: str) -> None:
    assert verdict(suite, given, want) == Verdict("differ", f"docs/differences.md: {anchor}")
    if isinstance(want, dict) and "status" not in want:
        assert verdict(suite, given, dict.fromkeys(want, 123)).word == "FAIL"


def test_zones_that_are_more_than_their_node_differ() -> None:
    """Two pods on one zone leave it nothing; the others' zone has more than the node's rest."""
    given = {
        **node(used("a", 4000, numa=[0]), used("b", 4000, numa=[0])),
        "zones": [{"name": "z0", "cpu": 5000, "mem": 5000}, {"name": "z1", "cpu": 5000, "mem": 5000}],
    }
    apart = {"z0": batch(0, 0), "z1": batch(5000, 5000)}
    assert verdict("batch_calculate", given, {**batch(2000, 2000), "zones": apart}).why.endswith("zones-within-node")

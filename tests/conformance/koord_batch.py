"""Suites of batch resources, degrading and update gates in koord_colocation.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.colocation.domain.batch import (
    NodeSnapshot,
    PodUse,
    Strategy,
    compute,
    request_policy,
    safety_margin,
)
from slackwater.colocation.domain.degrade import remaining_share
from slackwater.colocation.domain.gating import Gate, pass_gate
from slackwater.model.quantities import Resources

_HIGH = ("prod", "mid", "")
_KEYS = {"cpu": "batchCpu", "memory": "batchMem"}


def batch_calculate(case: Case) -> Verdict:
    """Node level, policies `usage` and, as the alternative that records name, `request`."""
    given, want = case["in"], wanted(case)
    if (why := _unbuilt(given)) is not None:
        return not_covered(f"issue 5: {why}")
    if remaining_share(_aged(given), _strategy(given)) == 0:
        return compare("reset", want)
    got = {_KEYS[resource]: _offered(resource, given) for resource in _KEYS}
    return compare(got, {key: want[key] for key in got} if isinstance(want, Mapping) else want)


def _unbuilt(given: Mapping[str, Any] | None) -> str | None:
    if given is None or given.get("metrics") is None:
        return "calls without arguments: the types do not allow them"
    strategy, metrics = given["strategy"], given["metrics"]
    reasons = {
        "NUMA zones": "zones" in given,
        "host applications": bool(metrics.get("hostApps")),
        "policy maxUsageRequest": "maxUsageRequest" in strategy.values(),
        "policy request for CPU": strategy.get("cpuCalculatePolicy") == "request",
        "caps of batch resources": any(key.startswith("batch") for key in strategy),
        "switching colocation off": strategy.get("enable") is False,
        "metrics of pods that are not on the node": bool(_dangling(given)),
        "a node without its report's time": metrics.get("ageSeconds") is None,
        "pods without a tier": any(pod["tier"] == "" for pod in given["pods"]),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _dangling(given: Mapping[str, Any]) -> set[str]:
    return {pod["name"] for pod in given["metrics"].get("pods", ())} - {pod["name"] for pod in given["pods"]}


def _offered(resource: str, given: Mapping[str, Any]) -> int:
    snapshot, strategy = _aged(given), _strategy(given)
    if resource == "memory" and given["strategy"].get("memoryCalculatePolicy") == "request":
        return request_policy(resource, snapshot, strategy)
    return compute(resource, snapshot, strategy).offered


def _strategy(given: Mapping[str, Any]) -> Strategy:
    """The peer's rule for pods without prediction, and its kubelet reservation as the strategy's own."""
    fields, node = given["strategy"], given["node"]
    kubelet = (_resources(node["capacity"]) - _resources(node["allocatable"])).at_least_zero()
    degrade = 60.0 * fields.get("degradeTimeMinutes", 15)
    return Strategy(
        cpu_reclaim_threshold_percent=fields.get("cpuReclaimThresholdPercent", 60),
        memory_reclaim_threshold_percent=fields.get("memoryReclaimThresholdPercent", 65),
        reserved=kubelet,
        cold_start_holds_request=False,
        decay_from_seconds=degrade,
        decay_to_seconds=degrade + 1e-9,
    )


def _aged(given: Mapping[str, Any]) -> NodeSnapshot:
    metrics, node = given["metrics"], given["node"]
    measured = {pod["name"]: _resources(pod["usage"]) for pod in metrics.get("pods", ())}
    living = [pod for pod in given["pods"] if pod["phase"] in ("Pending", "Running")]
    system = metrics.get("systemUsage")
    return NodeSnapshot(
        capacity=_resources(node["capacity"]),
        reserved=_annotated(node.get("annoReservation") or {}),
        pods=tuple(
            PodUse(pod["name"], pod["tier"], pod["qos"], _resources(pod["req"]), measured.get(pod["name"]))
            for pod in living
        ),
        system=_resources(system) if system else None,
        age_seconds=float(metrics["ageSeconds"]),
    )


def _annotated(reservation: Mapping[str, Any]) -> Resources:
    """What a node's annotation keeps back: named CPUs win over an amount."""
    kept = _resources(reservation.get("resources") or {})
    cpus = reservation.get("reservedCPUs")
    return Resources(1000 * _cpus(cpus), kept.memory_bytes) if cpus else kept


def _cpus(text: str) -> int:
    spans = (part.split("-") for part in text.split(","))
    return sum(int(span[-1]) - int(span[0]) + 1 for span in spans)


def _resources(amounts: Mapping[str, int]) -> Resources:
    return Resources(amounts.get("cpu", 0), amounts.get("mem", 0))


def batch_degrade(case: Case) -> Verdict:
    """Whether nothing is offered any more. Without a report nothing is offered either: there is no snapshot."""
    given, want = case["in"], wanted(case)
    metrics = given.get("metrics")
    if metrics is None or metrics.get("ageSeconds") is None:
        return compare(True, want)
    minutes = given.get("strategy", {}).get("degradeTimeMinutes", 15)
    strategy = Strategy(decay_to_seconds=60.0 * minutes + 1e-9)
    empty = NodeSnapshot(Resources(), Resources(), (), None, age_seconds=float(metrics["ageSeconds"]))
    return compare(remaining_share(empty, strategy) == 0, want)


def margin(case: Case) -> Verdict:
    fields, capacity = case["in"]["strategy"], _resources(case["in"]["capacity"])
    strategy = Strategy(fields.get("cpuReclaimThresholdPercent", 60), fields.get("memoryReclaimThresholdPercent", 65))
    kept = Resources(safety_margin("cpu", capacity, strategy), safety_margin("memory", capacity, strategy))
    return compare({"cpu": kept.cpu_milli, "mem": kept.memory_bytes}, wanted(case))


def sync_gate(case: Case) -> Verdict:
    """Only the batch values and the status: labels of nodes are Kubernetes'."""
    given, want = case["in"], wanted(case)
    old, new = given.get("old") or {}, given.get("new") or {}
    if set(old) | set(new) - set(_KEYS.values()) != set(_KEYS.values()):
        return not_covered("issue 5: resources other than batch")
    changed = any(_told(old.get(key), new.get(key), given["resourceDiffThreshold"]) for key in _KEYS.values())
    since = given.get("secondsSinceLastSync")
    if want["status"] and not changed and (since is None or since > given["updateTimeThresholdSeconds"]):
        return differ("no-rewrite-by-age")
    return compare(changed, want["status"])


def resource_diff(case: Case) -> Verdict:
    given = case["in"]
    key = given["resource"]
    told = _told(given["old"].get(key), given["new"].get(key), given["threshold"])
    return compare(told, wanted(case))


def _told(old: int | None, new: int | None, threshold: float) -> bool:
    """Whether the gate lets a new value through; a rise has lasted."""
    if new is None:
        return old is not None
    strategy = Strategy(diff_threshold=threshold, rise_windows=1)
    value, _ = pass_gate(Gate(old), new, ceiling=max(new, old or 0), window=1, degraded=False, strategy=strategy)
    return value != old


def smaller_of_both(case: Case) -> Verdict:
    return not_covered("issue 5: lists of resources with missing keys; ours always have both")


ADAPTORS: Mapping[str, Adaptor] = {
    "batch_calculate": batch_calculate,
    "batch_degrade": batch_degrade,
    "safety_margin": margin,
    "sync_gate": sync_gate,
    "resource_diff": resource_diff,
    "min_resource_list": smaller_of_both,
}

"""How the node, its metrics and its strategy in koord_colocation.json are ours: no formula, only words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.offers.reservation import annotated_reservation, kubelet_reservation
from slackwater.offers.snapshot import HostApp, NodeSnapshot, PodInput, Zone
from slackwater.offers.strategy import CountingPolicy, MidMode, Strategy

LIVING = ("Pending", "Running")


def amounts(given: Mapping[str, int] | None) -> Resources:
    return Resources((given or {}).get("cpu", 0), (given or {}).get("mem", 0))


def strategy_of(fields: Mapping[str, Any]) -> Strategy:
    """Pods without prediction by their usage, the whole offer until it is taken away at once, and mid unless it is
    static by what prod does not need: what these words mean to the peer. Whether colocation is on is asked elsewhere.
    """
    degrade = 60.0 * fields.get("degradeTimeMinutes", 15)
    never = math.nextafter(degrade, math.inf)
    return Strategy(
        cpu_reclaim_threshold_percent=fields.get("cpuReclaimThresholdPercent", 60),
        memory_reclaim_threshold_percent=fields.get("memoryReclaimThresholdPercent", 65),
        cold_start_holds_request=False,
        decay_from_seconds=degrade,
        decay_to_seconds=never,
        cpu_policy=_policy(fields.get("cpuCalculatePolicy")),
        memory_policy=_policy(fields.get("memoryCalculatePolicy")),
        batch_cpu_threshold_percent=fields.get("batchCPUThresholdPercent"),
        batch_memory_threshold_percent=fields.get("batchMemoryThresholdPercent"),
        mid_mode=MidMode.STATIC if fields.get("midReclaimMode") == "static" else MidMode.DYNAMIC,
        mid_cpu_threshold_percent=fields.get("midCPUThresholdPercent", 100),
        mid_memory_threshold_percent=fields.get("midMemoryThresholdPercent", 100),
        mid_unallocated_percent=fields.get("midUnallocatedPercent", 0),
        mid_static_cpu_reserved_percent=fields.get("midStaticCPUReservedPercent", 0),
        mid_static_memory_reserved_percent=fields.get("midStaticMemoryReservedPercent", 0),
    )


def _policy(word: str | None) -> CountingPolicy:
    return CountingPolicy(word) if word in set(CountingPolicy) else CountingPolicy.USAGE


def snapshot_of(given: Mapping[str, Any]) -> NodeSnapshot:
    """`kubelet` and annotation are kept back, whichever is larger. A finished pod that is still measured is unlisted.
    A system that the metrics leave out is the peer's zero: unknown to us, and nothing reserved for it."""
    metrics, node = given["metrics"], given["node"]
    capacity, allocatable = amounts(node["capacity"]), amounts(node.get("allocatable") or node["capacity"])
    raw = amounts(node["rawAllocatable"]) if node.get("rawAllocatable") else None
    kubelet = kubelet_reservation(capacity, allocatable, raw)
    age = metrics.get("ageSeconds")
    return NodeSnapshot(
        capacity=capacity,
        reserved=kubelet.larger_of(_annotated(node.get("annoReservation") or {})),
        pods=(*_listed(given), *_dangling(given)),
        system=amounts(metrics["systemUsage"]) if metrics.get("systemUsage") else None,
        age_seconds=float("inf") if age is None else float(age),
        host_apps=tuple(
            HostApp(app.get("name") or "", app.get("tier") or "", amounts(app.get("usage")))
            for app in metrics.get("hostApps") or ()
        ),
        zones=tuple(Zone(zone["name"], amounts(zone)) for zone in given.get("zones") or ()),
        allocatable=raw or allocatable,
        node_usage=_whole(metrics.get("nodeUsage")),
    )


def _listed(given: Mapping[str, Any]) -> list[PodInput]:
    measured = _measured(given)
    return [
        PodInput(
            uid=pod["name"],
            tier=pod.get("tier") or "",
            qos=pod.get("qos") or "",
            request=amounts(pod.get("req")),
            usage=measured.get(pod["name"]),
            numa=tuple(pod.get("numa") or ()),
        )
        for pod in _living(given)
    ]


def _dangling(given: Mapping[str, Any]) -> list[PodInput]:
    named = {pod["name"] for pod in _living(given)}
    return [
        PodInput(
            pod["name"],
            pod.get("tier") or "",
            pod.get("qos") or "",
            Resources(),
            amounts(pod.get("usage")),
            listed=False,
        )
        for pod in given["metrics"].get("pods") or ()
        if pod["name"] not in named
    ]


def _living(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [pod for pod in given.get("pods") or () if pod.get("phase", "Running") in LIVING]


def _measured(given: Mapping[str, Any]) -> Mapping[str, Resources]:
    return {pod["name"]: amounts(pod.get("usage")) for pod in given["metrics"].get("pods") or ()}


def _whole(usage: Mapping[str, int] | None) -> Resources | None:
    """Usage of which a part is missing is not known."""
    return amounts(usage) if usage and usage.keys() >= {"cpu", "mem"} else None


def _annotated(reservation: Mapping[str, Any]) -> Resources:
    """A list of CPUs that is none is refused, and nothing is kept."""
    try:
        return annotated_reservation(amounts(reservation.get("resources")), reservation.get("reservedCPUs") or "")
    except InvalidInput:
        return Resources()

"""Converts a scene and its use to the planner's view, with the names that ensurance uses for a report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.model.tiers import QoSClass
from slackwater.simulation.domain.scenes import Present, UsageScene, Use
from slackwater.waterline.facts.node import BestEffortCpu, MetricSeries
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import Throttled
from slackwater.waterline.loop.applied_limits import pod_view as use_of_pod


def readings_of(scene: UsageScene, use: Use) -> Mapping[str, tuple[MetricSeries, ...]]:
    """Returns readings by metric, as ensurance reads them from a report. Unknown metrics are absent."""
    readings = {
        "node_cpu_usage": (MetricSeries(use.node_milli),),
        "node_cpu_usage_ratio": (MetricSeries(use.node_milli / scene.capacity_milli if scene.capacity_milli else 0.0),),
    }
    readings["mid_cpu_usage"] = (MetricSeries(scene.mid_milli),)
    if use.node_bytes is not None:
        readings["node_memory_usage"] = (MetricSeries(use.node_bytes),)
        if scene.capacity_bytes:
            readings["node_memory_usage_ratio"] = (MetricSeries(use.node_bytes / scene.capacity_bytes),)
    if use.pressure is not None:
        readings["prod_cpu_pressure"] = (MetricSeries(use.pressure),)
    return readings


def pod_of(present: Present, used_milli: int, ours: Throttled | None, *, is_leaving: bool) -> PodUse:
    pod, demand = present.demand.pod, present.demand
    if present.uid != pod.uid:
        pod = replace(pod, uid=present.uid, name=f"{pod.name}{present.uid.removeprefix(pod.uid)}")
    return use_of_pod(pod, used_milli, demand.memory_bytes, demand.limit_milli, ours, is_leaving)


def best_effort_of(scene: UsageScene, use: Use) -> BestEffortCpu | None:
    """Sums the best-effort pods as ensurance does: a pod without a limit may use the whole node."""
    shares = [share for share in use.shares if share.present.demand.pod.qos is QoSClass.BE]
    if not shares:
        return None
    capacity = scene.capacity_milli
    limits = 0
    for share in shares:
        known = [limit for limit in (share.present.limit_milli, share.present.demand.limit_milli) if limit is not None]
        limits += min(known, default=capacity)
    request = sum(share.present.demand.pod.request.cpu_milli for share in shares)
    return BestEffortCpu(sum(share.used_milli for share in shares), request, min(capacity, limits))

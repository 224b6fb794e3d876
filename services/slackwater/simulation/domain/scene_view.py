"""A scene and its use as the planner's view has them: what ensurance reads of a report, by the same names. Pure."""

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
    """By metric, as ensurance reads them of a report; what is not known is absent."""
    found = {
        "node_cpu_usage": (MetricSeries(use.node_milli),),
        "node_cpu_usage_ratio": (MetricSeries(use.node_milli / scene.capacity_milli if scene.capacity_milli else 0.0),),
    }
    found["mid_cpu_usage"] = (MetricSeries(scene.mid_milli),)
    if use.node_bytes is not None:
        found["node_memory_usage"] = (MetricSeries(use.node_bytes),)
        if scene.capacity_bytes:
            found["node_memory_usage_ratio"] = (MetricSeries(use.node_bytes / scene.capacity_bytes),)
    if use.pressure is not None:
        found["prod_cpu_pressure"] = (MetricSeries(use.pressure),)
    return found


def pod_of(one: Present, used_milli: int, ours: Throttled | None, *, is_leaving: bool) -> PodUse:
    pod, wanted = one.wanted.pod, one.wanted
    if one.uid != pod.uid:
        pod = replace(pod, uid=one.uid, name=f"{pod.name}{one.uid.removeprefix(pod.uid)}")
    return use_of_pod(pod, used_milli, wanted.memory_bytes, wanted.limit_milli, ours, is_leaving)


def best_effort_of(scene: UsageScene, use: Use) -> BestEffortCpu | None:
    """As ensurance adds it up: who has no limit may use the whole node."""
    found = [one for one in use.shares if one.present.wanted.pod.qos is QoSClass.BE]
    if not found:
        return None
    capacity = scene.capacity_milli
    limits = 0
    for share in found:
        known = [each for each in (share.present.limit_milli, share.present.wanted.limit_milli) if each is not None]
        limits += min(known, default=capacity)
    request = sum(share.present.wanted.pod.request.cpu_milli for share in found)
    return BestEffortCpu(sum(share.used_milli for share in found), request, min(capacity, limits))

"""Converts a report into the planner's view of its node."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from slackwater.ensurance.domain.node_state import GuardedNode
from slackwater.events.measures import PodUsage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.facts.node import BestEffortCpu, MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import Throttled, pod_view
from slackwater.waterline.loop.applied_memory import MemoryThrottled, with_limit
from slackwater.waterline.registry.memory import FREE_MEMORY


def partial_view(report: UsageReported, guarded: GuardedNode) -> NodeReadings:
    """The view without pods, which is enough for almost every report."""
    return NodeReadings(
        report.node,
        report.sampled_at,
        _readings(report, guarded),
        guarded.capacity_milli,
        guarded.capacity_bytes,
        (),
        guarded.labels,
        disks=report.disks,
        links=report.links,
        cpu_weights=report.cpu_weights or "",
    )


def view_of(report: UsageReported, guarded: GuardedNode, only: Collection[str] | None = None) -> NodeReadings:
    """The last sampling interval of a report: usage, pressure and limits belong to the same second. Limits that
    ensurance set are taken from its own state, because the report may not show them yet. An agent begins what it is
    asked to; where the API server evicts, only the report shows that a pod terminates. `only` restricts the view to
    these pods (by uid)."""
    ours, memory = guarded.state.by_uid(), guarded.state.memory_by_uid()
    leaving = set() if guarded.shows_evictions else {eviction.pod_uid for eviction in guarded.evictions}
    asked = report.pods if only is None else [pod for pod in report.pods if pod.pod.uid in only]
    pods = tuple(
        _pod(measured, ours.get(measured.pod.uid), memory.get(measured.pod.uid), leaving) for measured in asked
    )
    prod = sum(pod.usage.cpu_milli.last for pod in report.pods if pod.pod.tier is Tier.PROD)
    window, last = _best_effort(report, guarded) if only is None else (None, None)
    return NodeReadings(
        report.node,
        report.sampled_at,
        _readings(report, guarded),
        guarded.capacity_milli,
        guarded.capacity_bytes,
        pods,
        guarded.labels,
        prod,
        window,
        last,
        disks=report.disks,
        links=report.links,
        cpu_weights=report.cpu_weights or "",
    )


def _readings(report: UsageReported, guarded: GuardedNode) -> Mapping[str, tuple[MetricSeries, ...]]:
    """Series by metric. A metric that was not measured is absent."""
    usage = report.node_usage
    series: dict[str, tuple[MetricSeries, ...]] = {}
    if usage.cpu_milli.count:
        used = usage.cpu_milli.last
        series["node_cpu_usage"] = (MetricSeries(used),)
        series["node_cpu_usage_ratio"] = (MetricSeries(used / guarded.capacity_milli),)
    if usage.memory_bytes.count:
        series["node_memory_usage"] = (MetricSeries(usage.memory_bytes.last),)
        if guarded.capacity_bytes:
            series["node_memory_usage_ratio"] = (MetricSeries(usage.memory_bytes.last / guarded.capacity_bytes),)
    prod, node = report.prod_pressure, report.node_pressure
    if prod.cpu_some_last is not None:
        series["prod_cpu_pressure"] = (MetricSeries(prod.cpu_some_last),)
    if prod.memory_some_avg is not None:
        series["prod_memory_pressure"] = (MetricSeries(prod.memory_some_avg),)
    if node.memory_some_avg is not None:
        series["node_memory_pressure"] = (MetricSeries(node.memory_some_avg),)
    if node.io_some_avg is not None:
        series["node_io_pressure"] = (MetricSeries(node.io_some_avg),)
    if report.prod_refault_bytes_per_second is not None:
        series["prod_memory_refaults"] = (MetricSeries(report.prod_refault_bytes_per_second),)
    if report.node_free_bytes is not None:
        series[FREE_MEMORY] = (MetricSeries(report.node_free_bytes),)
    return series


def _pod(
    measured: PodUsage, ours: Throttled | None, memory: MemoryThrottled | None, leaving: Collection[str]
) -> PodUse:
    pod, usage = measured.pod, measured.usage
    viewed = pod_view(
        pod,
        usage.cpu_milli.last if usage.cpu_milli.count else None,
        usage.memory_bytes.last if usage.memory_bytes.count else None,
        measured.original_cpu_limit_milli,
        ours,
        pod.uid in leaving or (pod.status is not None and pod.status.terminating),
        measured.pressure.cpu_some_last,
        is_readable=measured.unread is None,
    )
    return with_limit(viewed, measured.reclaimable_bytes, measured.original_memory_high_bytes, memory)


def _best_effort(report: UsageReported, guarded: GuardedNode) -> tuple[BestEffortCpu | None, BestEffortCpu | None]:
    """CPU of all BE pods over the report's window, and over its last interval. Their limit is the sum of the pods'
    limits, at most the node's capacity."""
    pods = [pod for pod in report.pods if pod.pod.qos is QoSClass.BE]
    if not pods or not all(pod.usage.cpu_milli.count for pod in pods):
        return None, None
    capacity = guarded.capacity_milli
    limits = sum(capacity if pod.cpu_limit_milli is None else pod.cpu_limit_milli for pod in pods)
    request, limit = sum(pod.pod.request.cpu_milli for pod in pods), min(capacity, limits)
    window = BestEffortCpu(sum(pod.usage.cpu_milli.avg for pod in pods), request, limit)
    return window, BestEffortCpu(sum(pod.usage.cpu_milli.last for pod in pods), request, limit)

"""Workloads: the pods with the same namespace, workload and tier, summed over all nodes.

CPU in milli-cores, memory in bytes, ratios 0..1, times aware UTC.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.views import PodView
from slackwater.model.quantities import Resources

NOTHING = Resources()


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """The pods of one workload in one tier as their nodes last reported them.

    `request` and `usage` are sums over the pods. `cpu_p95_milli` and `cpu_pressure` are the largest of one pod (None:
    not measured). `reported_at` is the time of the oldest of these reports.
    """

    name: str
    namespace: str
    tier: str
    pods: int
    nodes: int
    throttled_pods: int
    request: Resources
    usage: Resources
    cpu_p95_milli: int
    cpu_pressure: float | None
    reported_at: datetime


def workloads_of(pods: Iterable[PodView]) -> list[WorkloadView]:
    """The workloads of these pods, by namespace, name and tier."""
    groups: dict[tuple[str, str, str], list[PodView]] = defaultdict(list)
    for pod in pods:
        groups[pod.namespace, pod.workload, pod.tier].append(pod)
    return [_workload(groups[key]) for key in sorted(groups)]


def _workload(pods: Sequence[PodView]) -> WorkloadView:
    first = pods[0]
    return WorkloadView(
        name=first.workload,
        namespace=first.namespace,
        tier=first.tier,
        pods=len(pods),
        nodes=len({pod.node for pod in pods}),
        throttled_pods=sum(pod.throttled for pod in pods),
        request=sum((pod.request for pod in pods), NOTHING),
        usage=sum((pod.usage for pod in pods), NOTHING),
        cpu_p95_milli=max(pod.cpu_p95_milli for pod in pods),
        cpu_pressure=max((pod.cpu_pressure for pod in pods if pod.cpu_pressure is not None), default=None),
        reported_at=min(pod.reported_at for pod in pods),
    )

"""A report as the planner's snapshot."""

from __future__ import annotations

from slackwater.events.envelope import Event
from slackwater.events.measures import PodUsage, Usage
from slackwater.events.usage_reported import UsageReported
from slackwater.model.tiers import Tier
from slackwater.waterline.snapshot import PodSample, Snapshot


def snapshot_of(event: Event[UsageReported], capacity_milli: int) -> Snapshot:
    """The last sampling interval of a report: usage, pressure and limits belong to the same second."""
    report = event.data
    pods = tuple(_pod(measured) for measured in report.pods)
    return Snapshot(
        node=report.node,
        report_id=event.id,
        sampled_at=report.sampled_at,
        capacity_milli=capacity_milli,
        usage_milli=_last(report.node_usage),
        prod_usage_milli=sum(pod.usage_milli for pod in pods if pod.tier is Tier.PROD),
        prod_pressure=report.prod_pressure.cpu_some_last,
        pods=pods,
    )


def _last(usage: Usage) -> int | None:
    return usage.cpu_milli.last if usage.cpu_milli.count else None


def _pod(measured: PodUsage) -> PodSample:
    pod = measured.pod
    return PodSample(
        uid=pod.uid,
        name=pod.name,
        tier=pod.tier,
        qos=pod.qos,
        priority=pod.priority,
        request_milli=pod.request.cpu_milli,
        usage_milli=_last(measured.usage) or 0,
        original_limit_milli=measured.original_cpu_limit_milli,
        started_at=pod.started_at,
    )

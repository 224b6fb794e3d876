"""Translates event payloads to the read model's shapes. Pure; it validates nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict
from datetime import timedelta

from slackwater.console.domain.conditions import (
    DUPLICATE_AGENT,
    FALSE,
    SCHEDULING_CLOSED,
    TRUE,
    VALUES_LEFT_OUT,
    scheduling_message,
)
from slackwater.console.domain.event_log import ListedEvent
from slackwater.console.domain.loop import CheckView, LeaseView, ProcessView, ServiceView
from slackwater.console.domain.resources import ResourceView
from slackwater.console.domain.strategies import StrategyView
from slackwater.console.domain.views import (
    CalibrationView,
    EffectView,
    EvictionView,
    ForecastView,
    HostAppUsed,
    IntentView,
    NodeCondition,
    ObservationView,
    OfferView,
    PodView,
    StatusOffer,
    UsagePoint,
    WindowView,
    WrittenLimit,
    ZoneOffer,
)
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.health_reported import HealthReported, LimitedHealth, ServiceHealth
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.measures import PodUsage, Usage
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedUsage
from slackwater.model.limited_resource import Limited, LimitedResource
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

_LOWER_TIERS = (Tier.BATCH, Tier.FREE)
_LEFT_OUT_SECONDS = 60.0


def _average(usage: Usage) -> Resources:
    return Resources(usage.cpu_milli.avg, usage.memory_bytes.avg)


def _ratio(value: float | None) -> float | None:
    """A share of time, or None for an invalid one (NaN, below 0, above 1)."""
    return value if value is not None and math.isfinite(value) and 0 <= value <= 1 else None


def is_throttled(pod: PodUsage) -> bool:
    """Whether the pod's limit in force is below the one it had before any throttle."""
    limit, original = pod.cpu_limit_milli, pod.original_cpu_limit_milli
    return limit is not None and (original is None or limit < original)


def _batch_limit(report: UsageReported) -> int | None:
    limits = [pod.cpu_limit_milli for pod in report.pods if pod.pod.tier in _LOWER_TIERS]
    known = [limit for limit in limits if limit is not None]
    return sum(known) if limits and len(known) == len(limits) else None


def usage_point(event: Event[UsageReported]) -> UsagePoint:
    """The report's averages, by tier."""
    report = event.data
    tiers: dict[str, Resources] = defaultdict(Resources)
    for pod in report.pods:
        tiers[str(pod.pod.tier)] += _average(pod.usage)
    return UsagePoint(
        event_id=event.id,
        node=report.node,
        sampled_at=report.sampled_at,
        window_seconds=report.window_seconds,
        trigger=report.trigger,
        usage=_average(report.node_usage),
        system=_average(report.system_usage) if report.system_usage is not None else None,
        tiers=dict(tiers),
        node_pressure=_ratio(report.node_pressure.cpu_some_avg),
        prod_pressure=_ratio(report.prod_pressure.cpu_some_avg),
        batch_limit_milli=_batch_limit(report),
        throttled_pods=sum(is_throttled(pod) for pod in report.pods),
        pods=len(report.pods),
        host_apps=tuple([HostAppUsed(app.name, str(app.tier), _average(app.usage)) for app in report.host_apps]),
    )


def pod_views(report: UsageReported) -> list[PodView]:
    """The report's pods, one view each."""
    return [
        PodView(
            uid=pod.pod.uid,
            name=pod.pod.name,
            namespace=pod.pod.namespace,
            node=report.node,
            workload=pod.pod.workload,
            tier=str(pod.pod.tier),
            qos=str(pod.pod.qos),
            priority=pod.pod.priority,
            request=pod.pod.request,
            usage=_average(pod.usage),
            cpu_p95_milli=pod.usage.cpu_milli.p95,
            cpu_pressure=_ratio(pod.pressure.cpu_some_avg),
            throttled_ratio=_ratio(pod.throttled_ratio),
            cpu_limit_milli=pod.cpu_limit_milli,
            original_cpu_limit_milli=pod.original_cpu_limit_milli,
            throttled=is_throttled(pod),
            started_at=pod.pod.started_at,
            reported_at=report.sampled_at,
            labels=pod.pod.labels,
            unread=pod.unread,
        )
        for pod in report.pods
    ]


def forecast_view(event: Event[PeakPredicted]) -> ForecastView:
    data = event.data
    return ForecastView(
        event_id=event.id,
        node=data.node,
        predicted_at=data.predicted_at,
        window_number=data.window_number,
        window_seconds=data.window_seconds,
        model=data.model,
        samples=data.samples,
        cold_start_share=data.cold_start_share,
        node_peak=data.node_peak,
        system_peak=data.system_peak,
        tier_peaks=dict(data.tier_peaks),
        prod_peak=data.prod_peak,
        prod_reclaimable=data.prod_reclaimable,
        decision_id=data.decision_id,
        version=data.version,
        confidence=data.confidence,
        sample_age_seconds=data.sample_age_seconds,
        cause=data.cause,
        calibrations={resource: CalibrationView(**asdict(one)) for resource, one in data.calibrations.items()},
    )


def offer_view(event: Event[ResourcesOffered]) -> OfferView:
    return offer_of(event.id, event.data)


def offer_of(event_id: str, data: ResourcesOffered) -> OfferView:
    return OfferView(
        event_id=event_id,
        node=data.node,
        offered_at=data.offered_at,
        generation=data.generation,
        batch=data.batch,
        degraded=data.degraded,
        decision_ids=dict(data.decision_ids),
        mid=data.mid,
        zones=tuple(ZoneOffer(zone.name, zone.batch) for zone in data.zones),
        reason=data.reason,
        strategies=data.strategies,
        status=StatusOffer(said.batch, said.before, said.cpu_ratio) if (said := data.status) else None,
    )


def scheduling_condition(data: NodeSchedulingChanged) -> NodeCondition:
    return NodeCondition(
        type=SCHEDULING_CLOSED,
        status=TRUE if data.closed else FALSE,
        reason=data.reason,
        message=scheduling_message(data.reason, data.rules, closed=data.closed),
        since=data.since,
        told_at=data.told_at,
        valid_until=data.valid_until,
        decision_id=data.decision_id,
        rules=data.rules,
    )


def duplicate_condition(data: NodeLivenessChanged) -> NodeCondition | None:
    """Returns the condition of a node with a second agent; None where the event says nothing of one."""
    if data.duplicate is None:
        return None
    return NodeCondition(
        type=DUPLICATE_AGENT,
        status=TRUE,
        reason="duplicate_agent",
        message=f"two agents have the node name {data.node}: stop one, or give it a name of its own with --node",
        since=data.duplicate.since,
        told_at=data.changed_at,
        valid_until=data.duplicate.until,
        decision_id="",
        rules=(),
    )


def left_out_condition(report: UsageReported) -> NodeCondition | None:
    """Returns the condition of a report that lacks values; None where it has all. Each report renews it."""
    if not report.left_out:
        return None
    valid_for = timedelta(seconds=max(_LEFT_OUT_SECONDS, 3 * report.window_seconds))
    return NodeCondition(
        type=VALUES_LEFT_OUT,
        status=TRUE,
        reason="out_of_bounds",
        message="; ".join(report.left_out),
        since=report.sampled_at,
        told_at=report.sampled_at,
        valid_until=report.sampled_at + valid_for,
        decision_id="",
        rules=(),
    )


def listed_event(event: Event[Payload]) -> ListedEvent:
    data = event.data.model_dump(mode="json")
    node = data.get("node")
    return ListedEvent(
        id=event.id,
        type=event.data.TYPE,
        source=event.source,
        node=node if isinstance(node, str) else "",
        time=event.time,
        causedby=event.causedby,
        trace=_trace_id(event.traceparent),
        data=data,
    )


def _trace_id(traceparent: str | None) -> str | None:
    """The trace id in a W3C traceparent."""
    parts = (traceparent or "").split("-")
    return parts[1] if len(parts) == 4 and len(parts[1]) == 32 else None


def strategy_view(event: Event[StrategyFollowed]) -> StrategyView:
    return StrategyView(**event.data.model_dump())


def resource_view(event: Event[ResourceChanged]) -> ResourceView:
    return ResourceView(**event.data.model_dump())


def effect_view(event: Event[EffectMeasured]) -> EffectView:
    return EffectView(**event.data.model_dump())


def observation_view(event: Event[IntentObserved]) -> ObservationView:
    data = event.data
    return ObservationView(
        event_id=event.id,
        node=data.node,
        writer=data.writer,
        generation=data.generation,
        received_at=data.received_at,
        observed_at=data.observed_at,
        limits=tuple(WrittenLimit(**limit.model_dump()) for limit in data.limits),
        foreign_writers=data.foreign_writers,
    )


def eviction_view(event: Event[EvictionCompleted]) -> EvictionView:
    return EvictionView(**{**event.data.model_dump(), "outcome": str(event.data.outcome)})


def window_view(event: Event[UsageWindowed]) -> WindowView:
    data = event.data
    return WindowView(
        event_id=event.id,
        node=data.node,
        number=data.number,
        window_start=data.window_start,
        window_seconds=data.window_seconds,
        closed_at=event.time,
        reports=data.reports,
        gaps=data.gaps,
        pods=len(data.pods),
        node_p95=_p95(data.node_usage),
        tiers_p95={name: _p95(usage) for name, usage in data.tiers.items()},
    )


def _p95(usage: WindowedUsage) -> Resources:
    return Resources(usage.cpu_p95_milli, usage.memory_p95_bytes)


def process_view(event: Event[HealthReported]) -> ProcessView:
    data = event.data
    return ProcessView(
        data.instance,
        data.version,
        data.started_at,
        data.reported_at,
        data.interval_seconds,
        tuple(_service_view(service) for service in data.services),
        tuple(_limited(one) for one in data.limited if one.kind in set(Limited)),
    )


def _limited(health: LimitedHealth) -> LimitedResource:
    return LimitedResource(Limited(health.kind), health.name, health.used, health.limit)


def _service_view(service: ServiceHealth) -> ServiceView:
    return ServiceView(
        name=service.name,
        state=service.state,
        restarts=service.restarts,
        last_error=service.last_error,
        checks=tuple(CheckView(check.name, check.ok, check.detail) for check in service.checks),
        outbox_depth=service.outbox_depth,
        outbox_oldest_seconds=service.outbox_oldest_seconds,
        outbox_refused=service.outbox_refused,
        member=service.member,
        members=service.members,
        leases=tuple(LeaseView(lease.partition, lease.owner, lease.epoch, lease.since) for lease in service.leases),
    )


def _strictest(data: IntentDeclared) -> dict[str, float]:
    """By metric: the lowest waterline of several rules, which is crossed first."""
    lowest: dict[str, float] = {}
    for waterline in data.waterlines:
        lowest[waterline.metric] = min(waterline.value, lowest.get(waterline.metric, waterline.value))
    return lowest


def intent_view(data: IntentDeclared) -> IntentView:
    return IntentView(
        node=data.node,
        writer=data.writer,
        generation=data.generation,
        declared_at=data.declared_at,
        lease_seconds=data.lease_seconds,
        limits={throttle.pod_uid: throttle.cpu_limit_milli for throttle in data.throttles},
        evictions=len(data.evictions),
        waterlines=_strictest(data),
    )

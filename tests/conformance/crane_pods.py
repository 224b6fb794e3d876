"""Pods, metrics and states of crane.json as those of the precise framework; its units become ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from slackwater.model.tiers import QoSClass
from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.policies.quantity import quantity
from slackwater.waterline.policies.values import Rule

START = datetime(2026, 1, 5, tzinfo=UTC)
CLASSES = {"BestEffort": QoSClass.BE, "Burstable": QoSClass.LS, "Guaranteed": QoSClass.LSR, "": None}


@dataclass(frozen=True)
class Named:
    """One of our metrics, and how many of the peer's units make one of ours."""

    name: str
    divisor: int = 1


METRICS = {
    "cpu_total_usage": Named("node_cpu_usage"),
    "cpu_total_utilization": Named("node_cpu_usage_ratio", 100),
    "memory_total_usage": Named("node_memory_usage"),
    "memory_total_utilization": Named("node_memory_usage_ratio", 100),
    "disk_read_kibps": Named("disk_usage_ratio", 10**9),
}


def named(metric: str) -> Named:
    """A metric that is not ours keeps its name: nothing is registered under it."""
    return METRICS.get(metric, Named(metric))


def pod_of(given: Mapping[str, Any], number: int = 0) -> PodUse:
    """The uid is the place in the list: it decides last."""
    cores, priority = given.get("cpu"), given.get("priority")
    start = given.get("start")
    return PodUse(
        uid=f"{number:04}",
        name=given["name"],
        namespace=given.get("ns", "default"),
        qos=CLASSES.get(given.get("qos", "")),
        priority=priority,
        started_at=None if start is None else datetime.fromtimestamp(start, UTC),
        labels=given.get("labels", {}),
        cpu_usage_milli=None if cores is None else exact(cores) * 1000,
        memory_usage_bytes=_whole(given.get("mem")),
        extended_cpu_limit_milli=_whole(given.get("elasticCpuLimit")) or 0,
        extended_memory_limit_bytes=_whole(given.get("elasticMemLimit")) or 0,
        containers=tuple(container_of(one) for one in given.get("containers", ())),
    )


def container_of(given: Mapping[str, Any]) -> Container:
    """A quota of -1 or 0 is none; what it was before any throttle is the limit, or what the batch resource grants."""
    quota, period = given.get("quota"), given.get("period", 100_000)
    granted = _whole(given.get("limitMilli") or given.get("extMilli"))
    usage = given.get("usage")
    return Container(
        name=given["name"],
        usage_milli=None if usage is None else exact(usage) * 1000,
        quota_us=None if quota in (-1, 0, None) else quota,
        original_quota_us=None if granted is None else granted * period // 1000,
        period_us=period,
        request_milli=_whole(given.get("requestMilli")),
        limit_milli=_whole(given.get("limitMilli")),
        is_readable=not (given.get("noQuota") or given.get("missing") or given.get("fail")),
    )


def _whole(amount: float | None) -> int | None:
    return None if amount is None else int(amount)


def bounds_of(given: Mapping[str, Any], *, step: str = "stepPct", least: str = "minPct") -> ThrottleBounds:
    """The peer's way: whole steps from the quota, the request always held."""
    return ThrottleBounds(
        min_ratio=exact(given.get(least, 0)) / 100,
        step_ratio=exact(given.get(step, 0)) / 100,
        request_ratio=Decimal(1),
        min_milli=0,
        whole_steps=True,
    )


def view_of(
    state: Mapping[str, Any], pods: Sequence[PodUse] = (), labels: Mapping[str, str] | None = None, at: float = 0
) -> NodeReadings:
    cores, memory = _number(state.get("cpu_core_numbers")), _number(state.get("memory_total"))
    return NodeReadings(
        node="n",
        sampled_at=START,
        readings={named(metric).name: _series(value, named(metric).divisor) for metric, value in state.items()},
        capacity_milli=None if cores is None else int(cores * 1000),
        capacity_bytes=None if memory is None else int(memory),
        pods=tuple(pods),
        labels=labels or {},
    )


def _number(value: Any) -> float | None:
    """One number; a series by labels is none of a whole node."""
    return value if isinstance(value, int | float) else None


def _series(value: Any, divisor: int) -> tuple[MetricSeries, ...]:
    parts = value if isinstance(value, list) else [{"value": value, "labels": {}}]
    return tuple(MetricSeries(exact(one["value"]) / divisor, one.get("labels", {})) for one in parts)


def rule_of(metric: str, waterline: str, action: str, **fields: Any) -> Rule:
    level = quantity(waterline) / named(metric).divisor
    selector = fields.pop("selector", None)
    return Rule(
        policy=fields.pop("policy", "nq"),
        name=fields.pop("name", f"{metric}-{waterline}-{action}"),
        metric=named(metric).name,
        waterline=level,
        target=level,
        action=action,
        selector=None if selector is None else LabelSelector(match_labels=selector),
        **fields,
    )

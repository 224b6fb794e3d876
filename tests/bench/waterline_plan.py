"""One cycle of the waterline planner for a node with 110 pods: CPU and memory crossed, throttling and evicting."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.bench.figures import spread
from tests.bench.verdict import Scale, Target

from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier
from slackwater.runtime.gc_tuning import tune_gc
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds
from slackwater.waterline.cycle import CycleState, run_cycle
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import Container, PodUse
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeSelector
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule

PODS = 110
TARGET_MILLISECONDS = 1.0
_NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
_CAPACITY_MILLI, _CAPACITY_BYTES = 64_000, 256 * 2**30


def node() -> NodeReadings:
    pods = tuple(_pod(number) for number in range(PODS))
    cpu = sum(int(pod.cpu_usage_milli or 0) for pod in pods)
    memory = sum(int(pod.memory_usage_bytes or 0) for pod in pods)
    return NodeReadings(
        node="n",
        sampled_at=_NOON,
        readings={
            "node_cpu_usage_ratio": (MetricSeries(cpu / _CAPACITY_MILLI),),
            "node_memory_usage_ratio": (MetricSeries(memory / _CAPACITY_BYTES),),
        },
        capacity_milli=_CAPACITY_MILLI,
        capacity_bytes=_CAPACITY_BYTES,
        pods=pods,
    )


def _pod(number: int) -> PodUse:
    """Every fourth pod is prod, the others are batch with one container each."""
    tier = Tier.PROD if number % 4 == 0 else Tier.BATCH
    usage = 200 + 37 * number % 900
    return PodUse(
        uid=f"{number:036}",
        name=f"pod-{number}",
        tier=tier,
        qos=QoSClass.LS if tier is Tier.PROD else QoSClass.BE,
        priority=DEFAULT_PRIORITY[tier] + number % 7,
        started_at=_NOON - timedelta(minutes=number),
        cpu_usage_milli=usage,
        memory_usage_bytes=(1 + 13 * number % 5) * 2**30,
        extended_cpu_limit_milli=0 if tier is Tier.PROD else 2000,
        containers=(Container("main", usage),),
    )


def policies(cpu: str, memory: str) -> Policies:
    """A throttle and an eviction on CPU, an eviction on memory; both apply to every batch pod."""
    rules = tuple(
        Rule("nq", f"{metric}-{action}", metric, Decimal(level), Decimal(level), action)
        for metric, level, action in (
            ("node_cpu_usage_ratio", cpu, "throttle"),
            ("node_cpu_usage_ratio", cpu, "evict"),
            ("node_memory_usage_ratio", memory, "evict"),
        )
    )
    actions = PolicyAction("throttle", ThrottleBounds(), RestoreBounds()), PolicyAction("evict", evicts=True)
    best_effort = ScopeSelector.parse(
        {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]}
    )
    allowed = PodQosSpec(scope_selector=best_effort, allowed_actions=("throttle", "evict"))
    return Policies((NodePolicy("nq", rules),), actions, (allowed,))


def measure(rounds: int = 2000) -> dict[str, Any]:
    """Milliseconds of one plan: calm; CPU far above its waterline (every third pod is acted on); and CPU and memory so
    far above that more than half of all pods are acted on."""
    tune_gc()  # as every service does at start
    view = node()
    calm, crossed, everything = policies("2", "3"), policies("0.85", "3"), policies("0.6", "0.8")
    found = {
        "calm_milliseconds": _timed(view, calm, rounds),
        "crossed_milliseconds": _timed(view, crossed, rounds),
        "everything_milliseconds": _timed(view, everything, rounds),
    }
    steps = run_cycle(view, crossed, CycleState(), _NOON).plan.steps
    return found | {
        "pods": PODS,
        "steps": len(steps),
        "targets": (
            Target("CPU crossed p50", found["crossed_milliseconds"]["p50"], TARGET_MILLISECONDS, "ms", Scale.TIME),
        ),
    }


def _timed(view: NodeReadings, given: Policies, rounds: int) -> dict[str, Any]:
    taken = []
    for _ in range(rounds):
        before = time.perf_counter()
        run_cycle(view, given, CycleState(), _NOON)
        taken.append(1000 * (time.perf_counter() - before))
    return spread(taken)

"""A disconnected agent: its last sample as the planner's view, and the planner's limits as its desired state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from slackwater.agent.domain.desired_state import DesiredState, MemoryLevel, Throttle
from slackwater.agent.domain.limits import NO_LIMITS, Limits, ReadLimits
from slackwater.agent.domain.observation import Instant
from slackwater.agent.domain.weights import ProtectingWeights
from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.nodes import NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import CycleState
from slackwater.waterline.execution.plan import ExecutorState, Underway
from slackwater.waterline.facts.node import BestEffortCpu, MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import GRAIN_US, Throttled, pod_view
from slackwater.waterline.loop.applied_memory import MemoryBackoff, MemoryThrottled, with_limit
from slackwater.waterline.loop.feedback import LoopState
from slackwater.waterline.node_guard import GuardState

WRITER = "agent"
"""The writer of limits and evictions that a disconnected agent decides."""
_OF_ANY_MACHINE = Resources(MOST_CPU_MILLI, MOST_MEMORY_BYTES)


@dataclass(frozen=True, slots=True)
class Machine:
    """The node's facts, which do not change from sample to sample."""

    facts: NodeFacts

    def view(
        self,
        instant: Instant,
        at: datetime,
        pods: Iterable[Pod],
        limits: ReadLimits,
        state: GuardState,
        leaving: Collection[str] = (),
        memory_limits: Limits = NO_LIMITS,
        cpu_weights: ProtectingWeights | None = None,
    ) -> NodeReadings:
        """The last interval of the machine as the planner sees it. Throttles are those of `state`, other limits as
        found; `leaving` are the uids of pods that are being evicted."""
        ours, memory, capacity = state.by_uid(), state.memory_by_uid(), self.facts.capacity
        candidates = tuple(
            with_limit(
                _pod(pod, instant, limits, ours.get(pod.uid), pod.uid in leaving),
                instant.cache_bytes.get(pod.uid) if pod.uid in memory_limits else None,
                memory_limits.get(pod.uid, (None, None))[1],
                memory.get(pod.uid),
            )
            for pod in pods
            if pod.uid in limits.known
        )
        prod = sum(int(pod.cpu_usage_milli or 0) for pod in candidates if pod.tier is Tier.PROD)
        lacking = _best_effort(candidates, capacity.cpu_milli)
        return NodeReadings(
            self.facts.name,
            at,
            _readings(instant, capacity.cpu_milli, capacity.memory_bytes),
            capacity.cpu_milli,
            capacity.memory_bytes or None,
            candidates,
            self.facts.labels,
            prod,
            lacking,
            lacking,
            disks=instant.disks,
            links=instant.links,
            cpu_weights=cpu_weights or "",
        )


def _readings(instant: Instant, cpu_milli: int, memory_bytes: int) -> Mapping[str, tuple[MetricSeries, ...]]:
    series: dict[str, tuple[MetricSeries, ...]] = {}
    if instant.node_cpu_milli is not None:
        series["node_cpu_usage"] = (MetricSeries(instant.node_cpu_milli),)
        series["node_cpu_usage_ratio"] = (MetricSeries(instant.node_cpu_milli / cpu_milli),)
    if instant.node_memory_bytes is not None:
        series["node_memory_usage"] = (MetricSeries(instant.node_memory_bytes),)
        if memory_bytes:
            series["node_memory_usage_ratio"] = (MetricSeries(instant.node_memory_bytes / memory_bytes),)
    for name, pressure in (
        ("prod_cpu_pressure", instant.prod_cpu_pressure),
        ("prod_memory_pressure", instant.prod_memory_pressure),
        ("node_memory_pressure", instant.node_memory_pressure),
        ("node_io_pressure", instant.node_io_pressure),
        ("prod_memory_refaults", instant.prod_refaults),
    ):
        if pressure is not None:
            series[name] = (MetricSeries(pressure),)
    return series


def _pod(pod: Pod, instant: Instant, limits: ReadLimits, ours: Throttled | None, is_leaving: bool) -> PodUse:
    if (request := pod.request.smaller_of(_OF_ANY_MACHINE)) != pod.request:
        pod = replace(pod, request=request)  # a record takes no more
    cpu, memory = instant.pods.get(pod.uid, (None, None))
    original, is_readable = limits.known[pod.uid][1], pod.uid not in limits.unread
    return pod_view(pod, cpu, memory, original, ours, is_leaving, is_readable=is_readable)


def _best_effort(pods: Iterable[PodUse], capacity_milli: int) -> BestEffortCpu | None:
    """CPU of all BE pods in the last interval. It stands for the window too, because no more is kept here."""
    best_effort = [pod for pod in pods if pod.qos is QoSClass.BE]
    if not best_effort or any(pod.cpu_usage_milli is None for pod in best_effort):
        return None
    quotas = [pod.containers[0].quota_us for pod in best_effort]
    limits = sum(capacity_milli if quota is None else quota // GRAIN_US for quota in quotas)
    used, asked = (
        sum(pod.cpu_usage_milli or 0 for pod in best_effort),
        sum(pod.cpu_request_milli for pod in best_effort),
    )
    return BestEffortCpu(used, asked, min(capacity_milli, limits))


def inherited(
    desired: DesiredState,
    pods: Iterable[Pod],
    limits: Limits,
    now: datetime,
    leaving: Iterable[Underway] = (),
    begun_at: Iterable[datetime] = (),
    memory_limits: Limits = NO_LIMITS,
) -> GuardState:
    """The guard's first state: limits in force at the end of the lease, restored by the usual rules. Their cause is not
    known, so the cool-down begins now. Evictions under way are credited, and those of the last hour count for the
    hourly bound, of any writer."""
    known = {pod.uid: pod for pod in pods}
    held = [
        (known[throttle.pod_uid], throttle)
        for throttle in desired.throttles
        if throttle.pod_uid in known and throttle.pod_uid in limits
    ]
    throttles = [Throttled(pod.uid, pod.name, str(pod.tier), one.limit_milli, limits[pod.uid][1]) for pod, one in held]
    memory = tuple(_inherited_memory(desired, known, memory_limits))
    loop = LoopState(last_trigger_at=now if throttles else None)
    backoff = MemoryBackoff(last_trigger_at=now if memory else None)
    executor = ExecutorState(tuple(leaving), (), tuple(begun_at))
    return GuardState(tuple(throttles), CycleState(executor=executor, loop=loop, memory=backoff), memory=memory)


def _inherited_memory(desired: DesiredState, pods: Mapping[str, Pod], limits: Limits) -> Iterator[MemoryThrottled]:
    for throttle in desired.memory_throttles:
        pod = pods.get(throttle.pod_uid)
        if pod is not None and pod.uid in limits:
            yield MemoryThrottled(pod.uid, pod.name, str(pod.tier), throttle.high_bytes, limits[pod.uid][1])


@dataclass(slots=True)
class LimitDecisions:
    """By pod uid, the decision that set the limit in force. Each control has its own, so that a decision about memory
    does not become the reason of a CPU limit."""

    cpu: dict[str, str] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, desired: DesiredState) -> LimitDecisions:
        """The decisions that a desired state names."""
        return cls(
            {throttle.pod_uid: throttle.decision_id for throttle in desired.throttles},
            {throttle.pod_uid: throttle.decision_id for throttle in desired.memory_throttles},
        )

    def note(self, kind: ActionKind, uids: Iterable[str], decision_id: str) -> None:
        """Record a decision that was carried out. An eviction sets no limit: its request names its decision."""
        match kind:
            case ActionKind.THROTTLE | ActionKind.RESTORE:
                self.cpu.update(dict.fromkeys(uids, decision_id))
            case ActionKind.THROTTLE_MEMORY | ActionKind.RESTORE_MEMORY:
                self.memory.update(dict.fromkeys(uids, decision_id))
            case ActionKind.EVICT:
                pass


def desired_state(state: GuardState, decisions: LimitDecisions, before: DesiredState, now: float) -> DesiredState:
    """The limits of a state as a desired state that does not lapse. Weights stay as they were asked for."""
    throttles = tuple(
        Throttle(throttle.uid, throttle.limit_milli, decisions.cpu.get(throttle.uid, ""))
        for throttle in state.throttles
    )
    memory = tuple(MemoryLevel(one.uid, one.high_bytes, decisions.memory.get(one.uid, "")) for one in state.memory)
    return DesiredState(
        WRITER,
        before.generation,
        now,
        float("inf"),
        before.policy,
        throttles,
        memory_throttles=memory,
        memory_protection=before.memory_protection,
    )


def fading(state: DesiredState, now: float) -> DesiredState:
    """Ensurance is back: the limits rise step by step, so that nothing jumps before its first decision."""
    return replace(state, received=now, lease_seconds=0.0)

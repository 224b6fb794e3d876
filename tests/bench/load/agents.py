"""Agents of the nodes of a real cluster, simulated: they report usage for the pods that run there, on schedule.

A node's usage is the sum over its pods and the system. It rises every `period_seconds`, each node at its own time. A
surge raises what the prod pods of a node use; it ends with nothing but the pods that are evicted.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from slackwater.apiserver.records import PodRecord
from slackwater.bus.port import Bus
from slackwater.events.envelope import Event, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.measures import Distribution, PodUsage, Pressure, Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.nodes import API_SERVER, EVICTIONS_BY, CpuTopology, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier, default_qos, tier_of_priority

GIB = 1 << 30
BOOT = "boot-1"
CORES = 64
SIZE = Resources(1000 * CORES, 256 * GIB)
POOL = "bench"
SYSTEM_BYTES = 8 * GIB
LOWEST, RISE, STEPS = 0.3, 0.04, 14
"""The load of a node rises with every period, so that each window lowers the offer; then it begins anew."""
_TICK_SECONDS = 0.01


@dataclass(slots=True)
class SimulatedAgents:
    """`pods_of` returns the running pods by node. `surging` are nodes whose prod pods use `surge_bytes` in all."""

    bus: Bus
    nodes: Sequence[str]
    pods_of: Callable[[], Mapping[str, Sequence[PodRecord]]]
    interval_seconds: float = 5.0
    period_seconds: float = 60.0
    surging: dict[str, int] = field(default_factory=dict)
    sent_at: array[float] = field(default_factory=lambda: array("d"))
    sampled_at: array[float] = field(default_factory=lambda: array("d"))
    worst_lag_seconds: float = 0.0
    wanted: dict[str, list[str]] = field(default_factory=dict)
    """The uids of the pods that documents evict, by node, in the order of the decisions."""
    _began_at: float = 0.0

    async def describe(self) -> None:
        """Publish what agents publish when they start."""
        now = datetime.now(UTC)
        for node in self.nodes:
            facts = NodeFacts(
                name=node, pool=POOL, capacity=SIZE, reserved=Resources(), topology=CpuTopology(CORES, 32, 2, 2),
                kernel="6.1", cgroup_version="v2", driver="bench", agent_version="bench",
                annotations={EVICTIONS_BY: API_SERVER},
            )  # fmt: skip
            described = NodeDescribed(facts=facts, boot_epoch=BOOT, described_at=now)
            await self.bus.publish(event_of(described, source=f"agent/{node}", time=now))

    async def report(self) -> None:
        """Report until cancelled. Report number n is of node n % nodes."""
        began, began_at, count = time.monotonic(), time.time(), len(self.nodes)
        self._began_at = began_at
        async with self.bus.watch(IntentDeclared, self._observe):
            while True:
                due = int((time.monotonic() - began) * count / self.interval_seconds) + 1
                pods = self.pods_of() if due > len(self.sent_at) else {}
                for number in range(len(self.sent_at), due):
                    moment = began_at + number * self.interval_seconds / count
                    node = self.nodes[number % count]
                    event = self._event(node, number, moment, pods.get(node, ()))
                    self.sampled_at.append(moment)
                    self.sent_at.append(time.time())
                    self.worst_lag_seconds = max(self.worst_lag_seconds, time.time() - moment)
                    await self.bus.publish(event)
                await asyncio.sleep(_TICK_SECONDS)

    def _event(self, node: str, number: int, moment: float, pods: Sequence[PodRecord]) -> Event[Any]:
        count, when = len(self.nodes), datetime.fromtimestamp(moment, UTC)
        place = number % count
        periods = int((moment - self._began_at) / self.period_seconds + place / count)
        level = LOWEST + RISE * (periods % STEPS)
        prod = [pod for pod in pods if tier_of_priority(pod.priority) is Tier.PROD]
        surge = self.surging.get(node, 0) // max(1, len(prod))
        system = Resources(int(6_000 * level), SYSTEM_BYTES)
        used = {pod.uid: _used(pod, level, surge if pod in prod else 0) for pod in pods}
        cpu = system.cpu_milli + sum(one.cpu_milli for one in used.values())
        memory = system.memory_bytes + sum(one.memory_bytes for one in used.values())
        report = UsageReported(
            node=node,
            boot_epoch=BOOT,
            sequence=number // count + 1,
            sampled_at=when,
            window_seconds=self.interval_seconds,
            node_usage=_usage(min(cpu, SIZE.cpu_milli), min(memory, SIZE.memory_bytes)),
            system_usage=_usage(system.cpu_milli, system.memory_bytes),
            node_pressure=Pressure(0.01, 0.01, 0.05, 0.0, 0.001),
            prod_pressure=Pressure(0.01, 0.01, 0.05, 0.0, 0.001),
            pods=tuple(_pod_usage(pod, used[pod.uid], when) for pod in pods),
        )
        return event_of(report, source=f"agent/{node}", time=when)

    async def _observe(self, event: Event[IntentDeclared]) -> None:
        """Answer a document as the agent of its node. It limits nothing."""
        document, now = event.data, datetime.now(UTC)
        wanted = self.wanted.setdefault(document.node, [])
        wanted += [eviction.pod_uid for eviction in document.evictions if eviction.pod_uid not in wanted]
        observed = IntentObserved(
            node=document.node,
            writer=document.writer,
            generation=document.generation,
            boot_epoch=BOOT,
            received_at=now,
            observed_at=now,
            limits=(),
        )
        await self.bus.publish(event_of(observed, source=f"agent/{document.node}", time=now, causedby=event.id))


def _used(pod: PodRecord, level: float, surge: int) -> Resources:
    if tier_of_priority(pod.priority) is Tier.PROD:
        return Resources(int(3_000 * level), surge or int(10 * GIB * level))
    borrowed = dict(pod.borrowed)
    return Resources(
        int(borrowed.get("slackwater.io/batch-cpu", 0) * level), borrowed.get("slackwater.io/batch-memory", 0)
    )


def _pod_usage(record: PodRecord, used: Resources, when: datetime) -> PodUsage:
    namespace, _, name = record.key.partition("/")
    tier = tier_of_priority(record.priority) or Tier.PROD
    pod = Pod(
        uid=record.uid,
        name=name,
        namespace=namespace,
        workload=f"{namespace}/{dict(record.labels).get('app', name)}",
        tier=tier,
        qos=default_qos(tier),
        priority=record.priority,
        request=record.request,
        started_at=_STARTED,
    )
    return PodUsage(pod=pod, usage=_usage(used.cpu_milli, used.memory_bytes), pressure=Pressure(), throttled_ratio=0.0)


_STARTED = datetime(2026, 1, 5, 12, tzinfo=UTC)


def _usage(cpu_milli: int, memory_bytes: int) -> Usage:
    return Usage(_distribution(cpu_milli), _distribution(memory_bytes))


def _distribution(level: int) -> Distribution:
    return Distribution(level, level, level, level, level, level, level, 5)

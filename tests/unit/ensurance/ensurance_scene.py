"""Reports and a whole ensurance in memory, in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from tests.support.clock import FakeClock
from tests.support.resources import MemoryResourceStore
from tests.support.store import MemoryDatabase

from slackwater.decisions.record import DecisionRecord
from slackwater.ensurance.adapters.guard_rows import GUARDED, STANDING, KeyedGuardStore
from slackwater.ensurance.metrics import EnsuranceMetrics
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ensurance.usecases.answer_reclaims import AnswerReclaims
from slackwater.ensurance.usecases.documents_in_force import KINDS, DocumentsInForce
from slackwater.ensurance.usecases.follow_rules import FollowRules
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.ensurance.usecases.on_deleted import OnDeleted
from slackwater.ensurance.usecases.on_described import OnDescribed
from slackwater.ensurance.usecases.on_evicted import OnEvicted
from slackwater.ensurance.usecases.on_eviction_requested import OnEvictionRequested
from slackwater.ensurance.usecases.on_observed import OnObserved
from slackwater.ensurance.usecases.reconcile_intents import ReconcileIntents
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedLimit
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.events.measures import Distribution, PodUsage, Pressure, Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.controls import ENSURANCE
from slackwater.intents.leases import RenewLeases
from slackwater.intents.writer import IntentWriter
from slackwater.model.errors import Unavailable
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, Tier, default_qos
from slackwater.resources.change import ChangeResources
from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.telemetry.metrics import Meters
from slackwater.waterline.nodeqos import NodeQos

P = TypeVar("P", bound=Payload)


def described(node: str = "n1", cpu_milli: int = 2000, *, at: datetime) -> Event[NodeDescribed]:
    facts = NodeFacts(
        name=node,
        pool="default",
        capacity=Resources(cpu_milli, 8 << 30),
        reserved=Resources(),
        topology=CpuTopology(2, 2, 1, 1),
        kernel="6.1",
        cgroup_version="v2",
        driver="simulated",
        agent_version="0",
    )
    return event_of(NodeDescribed(facts=facts, boot_epoch="boot-1", described_at=at), source="agent", time=at)


def usage(cpu_milli: int) -> Usage:
    steady = Distribution(avg=cpu_milli, max=cpu_milli, last=cpu_milli, count=1)
    return Usage(cpu_milli=steady, memory_bytes=Distribution(count=1))


def pod_usage(uid: str, tier: Tier, cpu_milli: int, *, at: datetime, labels: dict[str, str] | None = None) -> PodUsage:
    pod = Pod(
        uid=uid,
        name=f"name-{uid}",
        namespace="default",
        workload=uid,
        tier=tier,
        qos=default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        request=Resources(1000, 1 << 30),
        started_at=at - timedelta(hours=1),
        labels=labels or {},
    )
    return PodUsage(pod=pod, usage=usage(cpu_milli))


def reported(
    sequence: int,
    *,
    at: datetime,
    pressure: float | None,
    prod: int = 1000,
    batch: dict[str, int] | None = None,
    node: str = "n1",
    boot_epoch: str = "boot-1",
    memory_pressure: float | None = None,
    labels: dict[str, dict[str, str]] | None = None,
) -> Event[UsageReported]:
    """One report of a node with one prod pod and some batch pods; node usage is their sum."""
    batch = {"b1": 1000} if batch is None else batch
    pods = [pod_usage("p1", Tier.PROD, prod, at=at)]
    pods += [
        pod_usage(uid, Tier.BATCH, cpu_milli, at=at, labels=(labels or {}).get(uid)) for uid, cpu_milli in batch.items()
    ]
    body = UsageReported(
        node=node,
        boot_epoch=boot_epoch,
        sequence=sequence,
        sampled_at=at,
        window_seconds=1.0,
        node_usage=usage(prod + sum(batch.values())),
        prod_pressure=Pressure(cpu_some_last=pressure, memory_some_avg=memory_pressure),
        pods=tuple(pods),
    )
    return event_of(body, source="agent", time=at)


@dataclass
class Scene:
    """Ensurance without bus and PostgreSQL. `sequence` numbers the reports of the one node n1. `told` is what renewed
    leases; `held` are those of ours, and `waiting` (None: PostgreSQL is away) is what the outbox has not got out."""

    clock: FakeClock = field(default_factory=FakeClock)
    settings: EnsuranceSettings = field(default_factory=EnsuranceSettings)
    database: MemoryDatabase = field(default_factory=MemoryDatabase)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    sequence: int = 0
    told: list[LeaseRenewed] = field(default_factory=list)
    held: Mapping[int, int] = field(default_factory=dict)
    waiting: Mapping[int, float] | None = field(default_factory=dict)
    blocked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.store = KeyedGuardStore(self.database)
        self.rows = self.database.rows(GUARDED)
        self.standings = self.database.rows(STANDING)
        self.stores = {kind: MemoryResourceStore(kind) for kind in KINDS}
        self.start()

    def start(self) -> None:
        """A new process over the same store."""
        lease, clock = self.settings.lease_seconds, self.clock
        self.registry = CollectorRegistry()
        meter = EnsuranceMetrics(Meters(self.registry))
        first = self.settings.first_policy()
        self.documents = DocumentsInForce(self.stores, first)
        self.cache = cache = GuardedNodeCache(self.store, self.documents)
        intents = IntentWriter(ENSURANCE, cache, cache.content, clock, lease)
        self.guard = GuardNode(
            cache, meter, intents, self.settings.max_report_age_seconds, budget=self.settings.record_budget
        )
        self.describe = OnDescribed(cache, intents)
        self.observe = OnObserved(cache, intents)
        self.evicted = OnEvicted(cache, meter, intents)
        self.delete = OnDeleted(cache, meter)
        self.reclaims = AnswerReclaims(cache, clock)
        self.requested = OnEvictionRequested(cache, intents)
        self.reconcile = ReconcileIntents(cache, intents, self.settings.silent_seconds)
        self.renew = RenewLeases(
            ENSURANCE,
            cache.positions,
            clock,
            meter,
            self,
            lambda: self.held,
            self.waits,
            lease,
            self.settings.silent_seconds,
            lambda: self.blocked,
        )
        self.follow = FollowRules(cache, meter, intents)
        self.changes = {
            kind: ChangeResources(
                kind, self.stores[kind], self.documents.of(kind), self.documents.hooks[kind], self.follow.catch_up
            )
            for kind in KINDS
        }

    def policy(self) -> NodeQos:
        """The cluster's NodeQOS that is in force."""
        return self.documents.cluster

    async def change(self, **spec: Any) -> None:
        """Store fields of the cluster's NodeQOS and let every node follow it."""
        present = self.policy()
        changed = present.model_copy(update={"spec": present.spec.model_copy(update=spec)})
        await self.changes[NODE_QOS].put(changed)

    async def broadcast(self, event: Event[LeaseRenewed]) -> None:
        self.told.append(event.data)

    async def waits(self) -> Mapping[int, float]:
        if self.waiting is None:
            raise Unavailable("PostgreSQL is away")
        return self.waiting

    async def open(self, *nodes: str) -> Scene:
        await self.cache.load()
        for node in nodes or ("n1",):
            await self.describe(described(node, at=self.clock.now()))
        return self

    async def report(self, pressure: float | None, **more: Any) -> Event[UsageReported]:
        """One second passes, then n1 reports."""
        await self.clock.advance(1)
        self.sequence += 1
        event = reported(self.sequence, at=self.clock.now(), pressure=pressure, **more)
        await self.guard(event)
        return event

    async def confirm(self, *limits: ObservedLimit) -> None:
        """The agent of n1 has carried out the last intent, a tenth of a second later."""
        await self.clock.advance(0.1)
        now, intent = self.clock.now(), self.intents()[-1]
        body = IntentObserved(
            node="n1",
            writer="ensurance",
            generation=intent.generation,
            boot_epoch="boot-1",
            received_at=now,
            observed_at=now,
            limits=limits,
        )
        await self.observe(event_of(body, source="agent", time=now))

    def published(self, payload: type[P]) -> list[Event[P]]:
        return [event for event in self.database.published if isinstance(event.data, payload)]

    def intents(self, node: str = "n1") -> Sequence[IntentDeclared]:
        return [event.data for event in self.published(IntentDeclared) if event.data.node == node]

    async def ended(self, outcome: EvictionOutcome, number: int = 0) -> None:
        """The agent of n1 tells how an eviction of the last intent has ended."""
        await self.clock.advance(0.1)
        item = self.intents()[-1].evictions[number]
        body = EvictionCompleted(
            id=item.id, node="n1", pod_uid=item.pod_uid, writer="ensurance", outcome=outcome,
            completed_at=self.clock.now(), decision_id=item.decision_id,
        )  # fmt: skip
        await self.evicted(event_of(body, source="agent", time=self.clock.now()))

    def limits(self) -> dict[str, int]:
        return {throttle.pod_uid: throttle.cpu_limit_milli for throttle in self.intents()[-1].throttles}

    def records(self) -> list[DecisionRecord]:
        return [event.data.record for event in self.published(DecisionRecorded)]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

"""Migration and ensurance on one bus in memory, with nodes whose agents carry out evictions and whose owner replaces
what was evicted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
from tests.support.kinds import no_checks
from tests.support.reports import usage
from tests.support.scene import Scene

from slackwater.ensurance.service import build as build_ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome, completion_id
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved, ObservedStart
from slackwater.events.measures import PodUsage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.resources_offered import OfferReserved, ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.document import is_older
from slackwater.migration.adapters.migration_rows import KeyedMigrationStore
from slackwater.migration.domain.stored_jobs import MigrationLedger
from slackwater.migration.service import MigrationService, build
from slackwater.migration.settings import MigrationSettings
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.pods import Pod, PodStatus
from slackwater.model.quantities import Resources
from slackwater.model.start_states import StartState
from slackwater.model.tiers import QoSClass, Tier
from slackwater.model.workload_labels import TEMPLATE_LABEL, offered_label
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings
from slackwater.store.quarantine_memory import unstored

GIB = 1 << 30
WEB = "shop/web"
GRACE_S = 2.0


@dataclass
class SeenNode:
    """A machine with its agent. `is_deaf`: documents do not reach it; `refuses`: the pod is protected there;
    `postpones`: its evictions do not begin in time, as behind a disruption budget."""

    name: str
    cpu_milli: int = 8_000
    pods: dict[str, Pod] = field(default_factory=dict)
    failed: dict[str, Pod] = field(default_factory=dict)
    """Pods that have ended with a failure and are listed still."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Fields of its description that differ."""
    sequence: int = 0
    is_deaf: bool = False
    is_silent: bool = False
    refuses: bool = False
    postpones: bool = False
    held: IntentDeclared | None = None
    done: dict[str, EvictionOutcome] = field(default_factory=dict)
    """Outcome by id: the agent's ledger."""
    files: dict[str, str] = field(default_factory=dict)
    """Digests of workload files, by workload."""
    fails_starts: bool = False
    starts: dict[str, ObservedStart] = field(default_factory=dict)
    """By id: the agent's records."""


class MoveScene:
    """Three nodes of 8 cores; `web` has three replicas, two of them on n0."""

    def __init__(self, nodes: Sequence[str] = ("n0", "n1", "n2"), **settings: Any) -> None:
        self.scene = Scene()
        self.nodes = {name: SeenNode(name) for name in nodes}
        self.settings = MigrationSettings(grace_seconds=GRACE_S, **settings)
        self.replaces = True
        """Whether the owner starts a pod in place of an evicted one."""
        self.status_of_new: PodStatus | None = None
        """How such a pod fares."""
        self.evicted: list[str] = []
        self._started = 0
        self._read = 0

    @asynccontextmanager
    async def guarded(self, autonomy: Mapping[str, Any] | None = None) -> AsyncIterator[None]:
        """Ensurance, which gives a grant as this Autonomy says."""
        async with self.scene.running(build_ensurance, EnsuranceSettings()) as ensurance:
            async with client_of(ensurance) as client:
                item = {"kind": "Autonomy", "metadata": {"name": "default"}, "spec": autonomy or {"mode": "evict"}}
                stored = await client.put("/v1/autonomies/default", json=item)
                assert stored.status_code in (200, 201), stored.text
            yield

    @asynccontextmanager
    async def moving(self) -> AsyncIterator[httpx2.AsyncClient]:
        """The service, and a client of its API."""
        async with AsyncExitStack() as stack:
            service = await stack.enter_async_context(self.scene.running(build, self.settings))
            yield await stack.enter_async_context(client_of(service))

    @asynccontextmanager
    async def served(self, autonomy: Mapping[str, Any] | None = None, **args: Any) -> AsyncIterator[httpx2.AsyncClient]:
        """Both services, described nodes, and ArbitrationArgs with short rounds."""
        async with self.guarded(autonomy), self.moving() as client:
            await self.begin(client, **args)
            yield client

    async def begin(self, client: httpx2.AsyncClient, **args: Any) -> None:
        for node in self.nodes.values():
            await self.describe(node)
        self.run("n0", "web-0", cpu_milli=2_000)
        self.run("n0", "web-1", cpu_milli=2_000)
        self.run("n1", "web-2", cpu_milli=2_000)
        spec = {"interval": "1s", "workloadLimiter": {"duration": "0s"}, **args}
        stored = await client.put("/v1/arbitrationargs/default", json=document("ArbitrationArgs", "default", spec))
        assert stored.status_code == 200, stored.text
        await self.turn(2)

    async def describe(self, node: SeenNode) -> None:
        topology = CpuTopology(8, 8, 1, 1)
        facts = NodeFacts(
            node.name, "default", Resources(node.cpu_milli, 32 * GIB), Resources(), topology, "6.1", "v2", "fake", "0",
            labels={offered_label(name): digest for name, digest in node.files.items()},
        )  # fmt: skip
        facts = replace(facts, **node.facts)
        await self.publish(NodeDescribed(facts=facts, boot_epoch="boot", described_at=self.scene.clock.now()))

    def run(
        self, node: str, uid: str, workload: str = WEB, cpu_milli: int = 1_000, tier: Tier = Tier.PROD, digest: str = ""
    ) -> None:
        namespace, labels = workload.partition("/")[0], {TEMPLATE_LABEL: digest} if digest else {}
        self.nodes[node].pods[uid] = Pod(
            uid, uid, namespace, workload, tier, QoSClass.LS, 9000, Resources(cpu_milli, GIB), self.scene.clock.now(),
            labels,
        )  # fmt: skip

    async def offer(self, node: str, batch_milli: int, reserved: int = 0) -> None:
        """What colocation offers to batch there, without what is `reserved`."""
        self._started += 1
        offered = ResourcesOffered(
            node=node, offered_at=self.scene.clock.now(), generation=self._started, batch=Resources(batch_milli, GIB),
            degraded=None, decision_ids={},
            reserved=OfferReserved(Resources(reserved, 0), Resources()) if reserved else None,
        )  # fmt: skip
        await self.publish(offered)

    async def turn(self, seconds: int = 1) -> None:
        """Lets agents obey and report, once a second."""
        for _ in range(seconds):
            await self._hear()
            for node in self.nodes.values():
                if not node.is_silent:
                    await self._report(node)
            await self.scene.advance(1.0)

    async def publish(self, payload: Any, event_id: str = "") -> None:
        event = event_of(payload, source="test", time=self.scene.clock.now())
        if event_id:
            event = event.model_copy(update={"id": event_id})
        await self.scene.bus.publish(event)
        await self.scene.settle()

    def published(self, type_: str) -> list[Any]:
        return [event.data for event in self.scene.bus.published if type_ == event.data.TYPE]

    async def ledger(self) -> MigrationLedger:
        """What is stored."""
        return await KeyedMigrationStore(self.scene.database("migration"), unstored()).load()

    async def _hear(self) -> None:
        """Each agent follows the newest document of the writer, as it would from its stream."""
        documents = self.published(IntentDeclared.TYPE)
        for node in self.nodes.values():
            for seen in documents:
                is_ours = seen.node == node.name and seen.writer == "migration" and not node.is_deaf
                if is_ours and (node.held is None or not is_older(seen, node.held)):
                    node.held = seen
            if node.held is not None and not node.is_deaf:
                await self._obey(node, node.held)

    async def _obey(self, node: SeenNode, held: IntentDeclared) -> None:
        now = self.scene.clock.now()
        for item in held.evictions:
            if item.id in node.done:
                continue
            detail = ""
            if now >= item.deadline or node.postpones:
                outcome = EvictionOutcome.EXPIRED
            elif node.failed.pop(item.pod_uid, None) is not None:
                outcome = EvictionOutcome.TERMINATED
                self.evicted.append(item.pod_uid)
            elif item.pod_uid not in node.pods:
                outcome = EvictionOutcome.ALREADY_GONE
            elif node.refuses:
                outcome, detail = EvictionOutcome.REFUSED, "the pod is protected"
            else:
                outcome = EvictionOutcome.TERMINATED
                gone = node.pods.pop(item.pod_uid)
                self.evicted.append(item.pod_uid)
                self._replace(gone)
            node.done[item.id] = outcome
            completed = EvictionCompleted(
                id=item.id, node=node.name, pod_uid=item.pod_uid, writer="migration", outcome=outcome,
                detail=detail, completed_at=now, decision_id=item.decision_id,
            )  # fmt: skip
            await self.publish(completed, completion_id(node.name, item.id, ""))
        self._start(node, held)
        observed = IntentObserved(
            node=node.name, writer="migration", generation=held.generation, boot_epoch="boot", received_at=now,
            observed_at=now, starts=tuple(node.starts[item.id] for item in held.starts if item.id in node.starts),
        )  # fmt: skip
        await self.publish(observed)

    def _start(self, node: SeenNode, held: IntentDeclared) -> None:
        """Begins each start once; in the next second it is ready, or has failed."""
        for item in held.starts:
            begun = node.starts.get(item.id)
            if begun is not None and begun.state is StartState.STARTING:
                state = StartState.FAILED if node.fails_starts else StartState.READY
                detail = "exit code 3: no such module" if node.fails_starts else ""
                node.starts[item.id] = begun.model_copy(update={"state": state, "detail": detail})
                if node.fails_starts:
                    del node.pods[begun.pod_uid]
            elif begun is None and node.files.get(item.workload) != item.digest:
                node.starts[item.id] = ObservedStart(id=item.id, state=StartState.REFUSED, detail="another digest")
            elif begun is None:
                self._started += 1
                uid = f"new-{self._started}"
                node.starts[item.id] = ObservedStart(id=item.id, state=StartState.STARTING, pod_uid=uid)
                self.run(node.name, uid, item.workload, digest=item.digest)

    def _replace(self, gone: Pod) -> None:
        """The owner starts a new pod where the move has kept room, or else on the last node."""
        if not self.replaces or TEMPLATE_LABEL in gone.labels:
            return
        self._started += 1
        ended = self.scene.bus.published
        targets = [
            e.data.target_node for e in ended if e.data.TYPE == "migration.changed" and e.data.pod_uid == gone.uid
        ]
        where = next((target for target in reversed(targets) if target), list(self.nodes)[-1])
        self.run(where, f"new-{self._started}", gone.workload, gone.request.cpu_milli, gone.tier)
        self.change(where, f"new-{self._started}", status=self.status_of_new)

    def change(self, node: str, uid: str, **fields: Any) -> None:
        """Fields of a pod that differ from now on."""
        pods = self.nodes[node].pods
        pods[uid] = replace(pods[uid], **fields)

    async def _report(self, node: SeenNode) -> None:
        node.sequence += 1
        used = usage(100)
        report = UsageReported(
            node=node.name,
            boot_epoch="boot",
            sequence=node.sequence,
            sampled_at=self.scene.clock.now(),
            window_seconds=1.0,
            node_usage=used,
            pods=tuple(PodUsage(pod, used) for pod in node.pods.values()),
            failed_pods=tuple(node.failed.values()),
        )
        await self.publish(report)


def document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def move(name: str, pod: str, **spec: Any) -> dict[str, Any]:
    return document("PodMigrationJob", name, {"podRef": {"uid": pod}, **spec})


@asynccontextmanager
async def client_of(service: MigrationService | Any) -> AsyncIterator[httpx2.AsyncClient]:
    app = build_app(service.routers(), no_checks, HttpSettings.local())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        yield client

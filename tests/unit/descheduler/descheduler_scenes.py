"""The service in memory as its composition root builds it, with nodes whose pods use what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import httpx2
from tests.support.kinds import no_checks
from tests.support.reports import described, pod, usage
from tests.support.scene import Scene
from tests.support.windows import window_of

from slackwater.descheduler.service import DeschedulerService, build
from slackwater.descheduler.settings import DeschedulerSettings
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import event_of
from slackwater.events.measures import PodUsage
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.move_proposed import MoveProposed
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.pods import Pod
from slackwater.podmigration.jobs import job_name
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings

CORE = 1000
POOLS = [{"name": "all", "lowThresholds": {"cpu": 40, "memory": 90}, "highThresholds": {"cpu": 60, "memory": 95}}]
SPEC: Mapping[str, Any] = {
    "intervalSeconds": 10,
    "lowNodeLoad": {"nodePools": POOLS, "anomalyCondition": None},
    "limits": {"total": 100, "perNode": None},
}


class DeschedulerScene:
    """Nodes of 4 cores, whose agents report every pod that is placed on them."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.places: dict[str, str] = {}
        self.cpu: dict[str, int] = {}
        self.workloads: dict[str, str] = {}
        self.details: dict[str, dict[str, Any]] = {}
        """By uid: fields of the pod that differ, such as its status."""
        self.failed: dict[str, Pod] = {}
        """By node, a pod that has failed."""
        self.nodes: list[str] = []
        self._sequence = 0

    @asynccontextmanager
    async def running(self, spec: Mapping[str, Any] = SPEC) -> AsyncIterator[DeschedulerService]:
        """Runs the service with a profile `p`."""
        async with self.scene.running(build, DeschedulerSettings()) as service:
            await self.allow("evict")
            await self.scene.advance(1.0)
            await self.store(service, spec)
            yield service

    async def allow(self, mode: str, pool: str = "") -> None:
        """Gives the cluster, or a pool, a mode."""
        kind, name = ("Autonomy", pool) if pool else ("NodeQOS", "default")
        now = self.scene.clock.now()
        document = {"spec": {"mode": mode}}
        await self.publish(
            ResourceChanged(service="ensurance", kind=kind, name=name, generation=1, changed_at=now, document=document)
        )

    async def store(self, service: DeschedulerService, spec: Mapping[str, Any]) -> None:
        document = {"kind": "DeschedulerProfile", "metadata": {"name": "p"}, "spec": dict(spec)}
        async with client_of(service) as client:
            stored = await client.put("/v1/deschedulerprofiles/p", json=document)
        assert stored.status_code in (200, 201), stored.text

    async def add_nodes(self, *names: str, **facts: Any) -> None:
        """`facts`: fields of the nodes' descriptions that differ."""
        for name in names:
            self.nodes.append(name)
            plain = described(name, self.scene.clock.now())
            await self.publish(plain.model_copy(update={"facts": replace(plain.facts, **facts)}))

    def run(self, uid: str, node: str, cpu_milli: int, workload: str = "") -> None:
        self.places[uid], self.cpu[uid] = node, cpu_milli
        self.workloads[uid] = workload or f"default/Deployment/{uid}"

    async def report(self, trigger: str = "interval") -> None:
        """Every agent reports once, and ingestion closes a window with it."""
        self._sequence += 1
        for node in self.nodes:
            pods = [uid for uid, place in self.places.items() if place == node]
            report = UsageReported(
                node=node,
                boot_epoch="boot-1",
                sequence=self._sequence,
                sampled_at=self.scene.clock.now(),
                window_seconds=5.0,
                trigger=trigger,  # type: ignore[arg-type]  # one of its literals
                node_usage=usage(sum(self.cpu[uid] for uid in pods), 0),
                system_usage=usage(0, 0),
                pods=tuple(PodUsage(pod=self._pod(uid), usage=usage(self.cpu[uid], 0)) for uid in pods),
                failed_pods=tuple(pod for place, pod in self.failed.items() if place == node),
            )
            await self.publish(report)
            if trigger == "waterline":
                await self.publish(WaterlineCrossed.model_construct(**dict(report)))
            else:
                await self.publish(window_of(report))

    async def cycles(self, count: int, *, moves: bool = True) -> list[list[MoveProposed]]:
        """Let the time of `count` cycles pass, with reports before each; returns the proposals of each. `moves`: each
        is carried out."""
        found = []
        for _ in range(count):
            before = len(self.proposed())
            await self.report()
            for _ in range(10):
                await self.scene.advance(1.0)
            new = self.proposed()[before:]
            found.append(new)
            for move in new if moves else ():
                self.places[move.pod_uid] = move.target
        return found

    async def cordon(self, node: str, *, closed: bool = True) -> None:
        now = self.scene.clock.now()
        await self.publish(
            NodeSchedulingChanged(
                node=node,
                closed=closed,
                reason="",
                decision_id="",
                rules=(),
                since=now,
                told_at=now,
                valid_until=now + timedelta(hours=1) if closed else None,
            )
        )

    async def publish(self, payload: Any) -> None:
        await self.scene.bus.publish(event_of(payload, source="test", time=self.scene.clock.now()))
        await self.scene.settle()

    def proposed(self) -> list[MoveProposed]:
        return [event.data for event in self.scene.bus.published if isinstance(event.data, MoveProposed)]

    def records(self) -> list[Any]:
        return [event.data.record for event in self.scene.bus.published if isinstance(event.data, DecisionRecorded)]

    def load(self, node: str) -> int:
        return sum(cpu for uid, cpu in self.cpu.items() if self.places[uid] == node)

    def _pod(self, uid: str) -> Pod:
        plain = replace(pod(uid), workload=self.workloads[uid], request=replace(pod(uid).request, cpu_milli=100))
        return replace(plain, **self.details.get(uid, {}))


@asynccontextmanager
async def client_of(service: DeschedulerService) -> AsyncIterator[httpx2.AsyncClient]:
    app = build_app(service.routers(), no_checks, HttpSettings.local())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        yield client


async def hot_scene() -> DeschedulerScene:
    """n0 uses 3.6 of 4 cores, n1 nothing."""
    scene = DeschedulerScene()
    for number in range(4):
        scene.run(f"p{number}", "n0", 900)
    return scene


def job_ended(
    move: MoveProposed, now: datetime, phase: str = "Succeeded", outcome: str = "moved", reason: str = "Complete"
) -> MigrationChanged:
    return MigrationChanged(
        job=job_name(move.id),
        source="descheduler",
        pod_uid=move.pod_uid,
        node=move.node,
        target_node=move.target,
        phase=phase,
        step="ended",
        reason=reason,
        outcome=outcome,
        changed_at=now,
    )

"""The service in memory as its composition root builds it, with nodes that are described and quotas that are stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from tests.support.kinds import no_checks
from tests.support.scene import Scene

from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_reserved import NodeReserved, ReservedRoom
from slackwater.events.resources_offered import OfferReserved, ResourcesOffered
from slackwater.model.nodes import CpuTopology, Liveness, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.quota.service import QuotaService, build
from slackwater.quota.settings import QuotaSettings
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings

GIB = 1 << 30
EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
TEAMS: Mapping[str, Mapping[str, Any]] = {
    "team-a": {"min": {"cpu": 6}, "max": {"cpu": 10}},
    "team-b": {"min": {"cpu": 4}, "max": {"cpu": 10}},
}


class QuotaScene:
    """A pool of 10 cores, and what its services publish."""

    def __init__(self, scene: Scene | None = None, **settings: Any) -> None:
        self.scene = scene or Scene()
        self.settings = QuotaSettings(**settings)
        self._described = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[QuotaService]:
        async with self.scene.running(build, self.settings) as service:
            await self.scene.advance(1.0)
            yield service

    @asynccontextmanager
    async def served(self, **quotas: Mapping[str, Any]) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of a running service with a node of 10 cores and these quotas (`team_a`), by default TEAMS."""
        async with self.running() as service:
            await self.describe("n0", 10_000)
            wanted = {name.replace("_", "-"): spec for name, spec in quotas.items()} or TEAMS
            await self.store([document(name, spec) for name, spec in wanted.items()], service)
            async with client_of(service) as client:
                yield client

    async def store(self, items: Sequence[Mapping[str, Any]], service: QuotaService) -> None:
        async with client_of(service) as client:
            stored = await client.post("/v1/elasticquotas", json={"items": list(items)})
        assert stored.status_code == 200, stored.text
        await self.scene.advance(1.0)

    async def describe(self, node: str, cpu_milli: int, pool: str = "default") -> None:
        await self.publish(node_described(node, cpu_milli, pool, self.scene.clock.now()))

    async def lose(self, node: str, liveness: Liveness = Liveness.LOST) -> None:
        now = self.scene.clock.now()
        changed = NodeLivenessChanged(
            node=node, liveness=liveness, previous=Liveness.FRESH, last_report_at=now, changed_at=now
        )
        await self.publish(changed)

    async def reserve(self, node: str, tier: Tier, cpu_milli: int, seconds: float | None = None) -> None:
        """What reservations keep there; `seconds`: until they expire, if nothing more is heard of them."""
        self._described += 1
        now = self.scene.clock.now()
        until = None if seconds is None else now + timedelta(seconds=seconds)
        rooms = (ReservedRoom("kept", tier, QoSClass.LS, Resources(cpu_milli, 0), until),) if cpu_milli else ()
        await self.publish(NodeReserved(node=node, generation=self._described, rooms=rooms, reserved_at=now))

    async def offer(self, node: str, batch_milli: int, reserved_milli: int = 0) -> None:
        self._described += 1
        await self.publish(
            ResourcesOffered(
                node=node,
                offered_at=self.scene.clock.now(),
                generation=self._described,
                batch=Resources(batch_milli, 4 * GIB),
                mid=Resources(0, 0),
                degraded=None,
                decision_ids={},
                reserved=OfferReserved(Resources(reserved_milli, 0), Resources()) if reserved_milli else None,
            )
        )

    async def publish(self, payload: Any) -> None:
        event = event_of(payload, source="test", time=self.scene.clock.now())
        await self.scene.bus.publish(event)
        await self.scene.advance(1.0)

    def published(self, type_: str) -> list[Any]:
        return [event.data for event in self.scene.bus.published if type_ == event.data.TYPE]


@asynccontextmanager
async def client_of(service: QuotaService) -> AsyncIterator[httpx2.AsyncClient]:
    app = build_app(service.routers(), no_checks, HttpSettings.local())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        yield client


def node_described(node: str, cpu_milli: int, pool: str = "default", at: datetime = EPOCH) -> NodeDescribed:
    topology = CpuTopology(4, 4, 1, 1)
    facts = NodeFacts(node, pool, Resources(cpu_milli, 32 * GIB), Resources(), topology, "6.1", "v2", "fake", "0")
    return NodeDescribed(facts=facts, boot_epoch="boot", described_at=at)


def document(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "ElasticQuota", "metadata": {"name": name}, "spec": dict(spec)}


def claim(name: str, cpu: int | str, **more: Any) -> dict[str, Any]:
    return {"id": name, "tier": "prod", "request": {"cpu": cpu}, **more}

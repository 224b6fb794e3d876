"""A node of Kubernetes for the agent's tests: an API server in memory, a kubelet's stand-in, and the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from tests.kubelet.pods import NODE, Document
from tests.kubelet.stand_in import KubeletStandIn
from tests.support.api_server import MemoryApiServer
from tests.support.bus import MemoryBus

from slackwater.agent.adapters.kubepods.driver import KubernetesDriver
from slackwater.agent.adapters.linux.knob_files import MOUNTED_FILES, KernelFiles
from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build_in_cluster
from slackwater.agent.settings import AgentSettings
from slackwater.apiserver.records import PODS
from slackwater.events.envelope import Payload, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.time import Clock
from slackwater.runtime.platform import Platform

P = TypeVar("P", bound=Payload)


def _no_database(service: str) -> NoReturn:
    raise AssertionError(f"{service} needs no database")


@dataclass
class ClusterNodeScene:
    """`kernel` is what the agent writes to; `kubelet` writes to the same files."""

    kubelet: KubeletStandIn
    clock: Clock
    state_dir: Path
    bus: MemoryBus
    kernel: KernelFiles = MOUNTED_FILES
    api: MemoryApiServer = field(default_factory=MemoryApiServer)
    generation: int = 0

    def start(self, document: Document) -> str:
        """Run a pod and say so at the API server; returns its uid."""
        self.kubelet.run(document)
        self.tell(document["metadata"]["uid"])
        return str(document["metadata"]["uid"])

    def tell(self, uid: str) -> None:
        """The kubelet writes the pod's status."""
        self.api.put(PODS, self.kubelet.pods[uid])

    def stop(self, uid: str) -> None:
        document = self.kubelet.pods[uid]
        self.kubelet.stop(uid)
        self.api.delete(PODS, f"default/{document['metadata']['name']}")

    def service(self, **settings: Any) -> AgentService:
        chosen = {"node": NODE, "driver": "kubernetes", "cgroup_root": "/".join(self.kubelet.root), **settings}
        platform = Platform(self.bus, self.clock, _no_database, self.state_dir)
        agent = build_in_cluster(
            AgentSettings(**chosen), platform, self.api, self.kubelet.machine.hierarchy, self.kernel
        )
        assert isinstance(agent.driver, KubernetesDriver)
        return agent

    @asynccontextmanager
    async def agent(self, service: AgentService | None = None, **settings: Any) -> AsyncIterator[AgentService]:
        service = service or self.service(**settings)
        running = asyncio.create_task(service.run(lambda: None))
        try:
            yield service
        finally:
            if running.done():
                running.result()
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def declare(self, **wanted: Any) -> None:
        self.generation += 1
        now = self.clock.now().astimezone(UTC)
        document = {
            "node": NODE, "writer": "ensurance", "generation": self.generation, "declared_at": now,
            "lease_seconds": 3600.0, **wanted,
        }  # fmt: skip
        await self.bus.publish(event_of(IntentDeclared.model_validate(document), source="test", time=now))

    def published(self, payload: type[P]) -> list[P]:
        return [event.data for event in self.bus.published if isinstance(event.data, payload)]


def throttle(uid: str, limit: int) -> dict[str, Any]:
    return {"pod_uid": uid, "cpu_limit_milli": limit, "decision_id": "d"}

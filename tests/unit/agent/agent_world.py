"""One agent on a machine in memory with a bus in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from agent_fakes import NODE, FakeDriver
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock

from slackwater.agent.node_agent import AgentService
from slackwater.agent.service import build
from slackwater.agent.settings import AgentSettings
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.intent_declared import IntentDeclared
from slackwater.runtime.platform import Platform

P = TypeVar("P", bound=Payload)


FATES: Sequence[tuple[Callable[[World], Any], str]] = (
    (lambda world: None, "terminated"),
    (lambda world: world.driver.remove("a"), "already_gone"),
    (lambda world: world.driver.guarded.update(a="it is the agent"), "refused"),
    (lambda world: (world.driver.stubborn.add("a"), world.driver.immortal.add("a")), "failed"),
)
"""What can become of pod `a` when it is to be evicted: how the world is prepared, and the outcome."""


def no_database(service: str) -> NoReturn:
    raise AssertionError(f"{service} needs no database")


TRACE = f"00-{10:032x}-{11:016x}-01"


@dataclass
class World:
    """One agent, its machine and its bus."""

    clock: FakeClock = field(default_factory=FakeClock)
    generation: int = 0

    def __post_init__(self) -> None:
        self.driver = FakeDriver(self.clock)
        self.bus = MemoryBus(MemoryBroker(clock=self.clock))

    def service(self, **settings: Any) -> AgentService:
        return build(
            AgentSettings(**settings), Platform(self.bus, self.clock, no_database, Path("/nowhere")), self.driver
        )

    @asynccontextmanager
    async def running(self, service: AgentService | None = None, **settings: Any) -> AsyncIterator[AgentService]:
        service = service or self.service(**settings)
        task = asyncio.create_task(service.run(lambda: None))
        await self.clock.advance(0)
        try:
            yield service
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def declare(
        self,
        writer: str = "ensurance",
        traceparent: str = TRACE,
        **wanted: Any,
    ) -> Event[IntentDeclared]:
        self.generation += 1
        document: dict[str, Any] = {
            "node": NODE, "writer": writer, "generation": self.generation, "declared_at": self.clock.now(),
            "lease_seconds": 3600.0, **wanted,
        }  # fmt: skip
        event = event_of(
            IntentDeclared.model_validate(document), source="test", time=self.clock.now(), traceparent=traceparent
        )
        await self.bus.publish(event)
        await self.clock.advance(0)
        return event

    def all(self, payload: type[P]) -> list[P]:
        return [event.data for event in self.events(payload)]

    def events(self, payload: type[P]) -> list[Event[P]]:
        return [event for event in self.bus.published if type(event.data) is payload]


def throttle(uid: str, limit: int, decision: str = "d") -> dict[str, Any]:
    return {"pod_uid": uid, "cpu_limit_milli": limit, "decision_id": decision}


def eviction(world: World, uid: str, id_: str = "e1", grace: float = 5.0, deadline: float = 60.0) -> dict[str, Any]:
    return {
        "id": id_, "pod_uid": uid, "grace_seconds": grace, "deadline": world.clock.now() + timedelta(seconds=deadline),
        "reason": "test", "decision_id": "d",
    }  # fmt: skip

"""Clients of the console's stream: readers that follow events without acknowledging, and resume after an outage."""

from __future__ import annotations

from tests.world.processes import Process
from tests.world.trace import Kind
from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.bus.read.stream_reader import StreamGap
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.errors import Unavailable

PAYLOADS = (DecisionRecorded, IntentDeclared, ResourcesOffered)
PAUSE_SECONDS = 1.0


class Client:
    """Follows the decisions, intents and offers, and records what it reads. Its positions outlive its process."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._positions: dict[str, int] = {}

    async def run(self, process: Process) -> None:
        async with self._world.bus(process) as bus:
            await self._follow(process, bus)

    async def _follow(self, process: Process, bus: Bus) -> None:
        while True:
            try:
                async with bus.follow(PAYLOADS, after=self._positions) as reader:
                    while True:
                        for item in await reader.next():
                            is_gap = isinstance(item, StreamGap)
                            subject = "gap" if isinstance(item, StreamGap) else item.payload.TYPE
                            at = item.resumed_after if isinstance(item, StreamGap) else item.sequence
                            detail = {"stream": item.stream, "sequence": at, "gap": is_gap}
                            self._world.record(Kind.READ, subject, detail=detail, value=item)
                        self._positions = dict(reader.positions)
            except Unavailable:
                await process.clock.sleep(PAUSE_SECONDS)

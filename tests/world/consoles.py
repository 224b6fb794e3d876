"""The console in the world: its own composition root on a read model in memory, and a reader of its event stream.

The PostgreSQL twin has no jsonb paths and no GIN indexes, which the console's own schema needs. So its rows are in the
read model in memory, which the tests of the one in PostgreSQL hold to the same behaviour; like a database it outlives
the process. Quarantine, outbox and leases are tables of the twin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from tests.support.console.read_model import MemoryReadModel
from tests.world.plan import Plan
from tests.world.processes import Process
from tests.world.trace import Kind
from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.console import service as console_service
from slackwater.console.domain.stream_query import positions_of
from slackwater.console.edge.stream import StreamQuery, Streams
from slackwater.console.settings import ConsoleSettings
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.runtime.platform import Platform

PAYLOADS = (DecisionRecorded, EffectMeasured)
"""All in the stream DECISIONS, which keeps every message for days."""
PAUSE_SECONDS, HEARTBEAT_SECONDS = 1.0, 5.0
READS_FRAMES = (1, 40)
"""After so many frames a reader disconnects and resumes from the last id that it has seen."""


def consoles(plan: Plan) -> Sequence[str]:
    return [f"console-{number}" for number in range(plan.consoles)]


def build_console(model: MemoryReadModel) -> Callable[[ConsoleSettings, Platform], Any]:
    """The console's composition root on this read model."""

    def build(settings: ConsoleSettings, platform: Platform) -> Any:
        names = vars(console_service)
        postgres = names["PostgresReadModel"]
        names["PostgresReadModel"] = lambda *_: model
        try:
            return console_service.build(settings, platform)
        finally:
            names["PostgresReadModel"] = postgres

    return build


class StreamReader:
    """Reads `GET /v1/stream` as a client does: frames, and the id to resume from, which outlives its process."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._rng = world.random(name)
        self._last_id = ""

    async def run(self, process: Process) -> None:
        async with self._world.bus(process) as bus:
            while True:
                try:
                    await self._read(process, bus)
                except Unavailable:
                    pass
                except InvalidInput as error:
                    self._world.loop.fail(f"the stream refuses its own id {self._last_id!r}", error)
                await process.clock.sleep(PAUSE_SECONDS)

    async def _read(self, process: Process, bus: Bus) -> None:
        streams = Streams(bus, process.clock, heartbeat_seconds=HEARTBEAT_SECONDS)
        after = positions_of(self._last_id, "Last-Event-ID") if self._last_id else {}
        left = self._rng.randint(*READS_FRAMES)
        async with streams.opened(StreamQuery(PAYLOADS, after=after)) as opened, aclosing(cast(Any, opened)) as frames:
            async for portion in frames:
                for name, fields in parsed(portion):
                    self._last_id = fields.get("id", self._last_id)
                    detail = {"id": name.get("id", ""), "place": self._last_id}
                    self._world.record(Kind.READ, fields.get("event", "open"), detail=detail)
                    left -= 1
                if left <= 0:
                    return


def parsed(portion: bytes) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """The content and the fields of each frame of server-sent events; comments alone are no frame."""
    for frame in portion.decode().split("\n\n"):
        lines = [line.partition(": ") for line in frame.splitlines() if not line.startswith(":")]
        fields = {name: value for name, _, value in lines}
        if "id" in fields:
            yield json.loads(fields.get("data", "{}")), fields

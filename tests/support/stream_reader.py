"""The in-memory version of slackwater.bus.read.nats_stream_reader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from slackwater.bus.read.stream_reader import (
    GapCause,
    Item,
    StreamGap,
    bodies_of_reports,
    by_stream,
    resume_positions,
    stream_event,
)
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.events.envelope import Payload, subject_token

if TYPE_CHECKING:
    from tests.support.broker import MemoryBroker

BATCH = 50


class MemoryStreamReader:
    """See slackwater.bus.read.stream_reader.StreamReader."""

    def __init__(
        self,
        broker: MemoryBroker,
        changed: asyncio.Event,
        payloads: Sequence[type[Payload]],
        after: Mapping[str, int],
        since: datetime | None,
        keys: Sequence[str],
        bodies: bool,
        rosters: KnownRosters,
    ) -> None:
        self._rosters = rosters
        self._broker = broker
        self._changed = changed
        self._payloads = {payload.TYPE: payload for payload in payloads}
        self._keys = [[subject_token(part) for part in key.split("/")] for key in keys]
        self._bodies = bodies
        self._missed: list[Item] = []
        self._read: dict[str, int] = {}
        for stream in by_stream(payloads):
            self._read[stream] = self._start(stream, after, since)
        self._last_values = {
            stream for stream in self._read if broker.topology.streams[stream].max_messages_per_subject == 1
        }

    @property
    def positions(self) -> Mapping[str, int]:
        return dict(self._read)

    async def next(self) -> Sequence[Item]:
        while True:
            self._changed.clear()
            if items := self._next_items():
                await self._rosters.prepare(bodies_of_reports(items))
                return items
            await self._changed.wait()

    def _start(self, stream: str, after: Mapping[str, int], since: datetime | None) -> int:
        first, last = self._broker.ends(stream)
        if stream not in after:
            return last if since is None else self._broker.position_at(stream, since)
        last_value = self._broker.topology.streams[stream].max_messages_per_subject == 1
        position, missed = resume_positions(stream, after[stream], first, last, last_value=last_value)
        self._missed += [missed] if missed is not None else []
        return position

    def _gone(self, stream: str) -> Sequence[Item]:
        """Messages that the stream has removed, or that it was replaced, since the last read."""
        (first, last), read = self._broker.ends(stream), self._read[stream]
        if read > last:  # a reader continues at the start of the new stream
            self._read[stream] = 0
            return [StreamGap(stream, read, 0, GapCause.BEGAN_ANEW)]
        self._read[stream], missed = resume_positions(stream, read, first, last, last_value=stream in self._last_values)
        return [missed] if missed is not None else []

    def _next_items(self) -> Sequence[Item]:
        items, self._missed = self._missed, []
        for stream in self._read:
            items += self._gone(stream)
            for at, message in self._broker.after(stream, "sw.v1.", self._read[stream])[:BATCH]:
                self._read[stream] = at
                tokens = message.subject.split(".")[5:]
                if self._keys and not any(tokens[: len(key)] == key for key in self._keys):
                    continue
                body = message.body if self._bodies else b""
                item = stream_event(
                    self._payloads, message.subject, message.headers, body, stream, at, self._rosters.find
                )
                items += [item] if item is not None else []
        return items

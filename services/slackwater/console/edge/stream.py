"""Server-sent events from the bus, one frame per event; each id is the position to resume from.

A slow reader falls behind in the stream and costs one batch of memory. A reader that takes nothing for `stall_seconds`
is disconnected and resumes after the last id it received.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from slackwater.bus.port import Bus
from slackwater.bus.read.stream_reader import Item, StreamEvent, StreamGap, StreamReader
from slackwater.console.domain.stream_query import matches, names_of, token_of
from slackwater.console.edge.events import consumer_of, is_recorded
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Payload
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

RETRY_MILLISECONDS = 2000
RECORDED_PAUSE_SECONDS = 0.05
RECORDED_TRIES = 40
PORTION_BYTES = 64 * 1024
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Unicode's line ends, as JSON may contain them: not line ends for SSE, but many clients split lines at them."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The request of one reader. `after` wins over `since`; without both it begins now.

    `brief` is for readers that query the API on events: no data, and no event before the read model has recorded it.
    """

    payloads: Sequence[type[Payload]]
    nodes: Sequence[str] = ()
    after: Mapping[str, int] = field(default_factory=dict)
    since: datetime | None = None
    brief: bool = False


class Streams:
    """Every open stream of this process."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        *,
        heartbeat_seconds: float = 15.0,
        stall_seconds: float = 60.0,
        most: int = 100,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._heartbeat_seconds = heartbeat_seconds
        self._most = most
        self._ending = asyncio.Event()
        self.stall_seconds = stall_seconds
        self.open = 0
        self._reported: Counter[str] = Counter()

    def shows_reports_of(self, node: str) -> bool:
        """Whether a reader of this process follows the reports of this node by its name."""
        return self._reported[node] > 0

    def close(self) -> None:
        """End every open stream with a final comment; new ones may follow, because a failed service is restarted."""
        self._ending.set()
        self._ending = asyncio.Event()

    @asynccontextmanager
    async def opened(self, wanted: StreamQuery) -> AsyncIterator[AsyncIterator[bytes]]:
        """Frames for one reader. Raises Unavailable with too many readers, or without the bus."""
        if self.open >= self._most:
            raise Unavailable(
                f"{self.open} streams are open, the limit of this console; close one, ask another replica, "
                "or raise SLACKWATER_CONSOLE_STREAMS (at most half of the HTTP connections)",
                code="too_many_streams",
            )
        keys = names_of(wanted.nodes)
        reported = keys if UsageReported in wanted.payloads else ()
        self.open += 1
        self._reported.update(reported)
        try:
            async with self._bus.follow(
                wanted.payloads, after=wanted.after, since=wanted.since, keys=keys, bodies=not wanted.brief
            ) as following:
                yield self._frames(following, wanted, self._ending)
        finally:
            self.open -= 1
            self._reported -= Counter(reported)

    async def _frames(
        self, following: StreamReader, wanted: StreamQuery, ending: asyncio.Event
    ) -> AsyncIterator[bytes]:
        positions = dict(following.positions)
        shown = token_of(positions)
        yield f"retry: {RETRY_MILLISECONDS}\nid: {shown}\n: open\n\n".encode()
        arriving = asyncio.ensure_future(following.next())
        ended = asyncio.ensure_future(ending.wait())
        try:
            while True:
                await self._news_or_heartbeat(arriving, ended)
                if ended.done():
                    yield _frame(positions, "closing", _json({"type": "closing", "reason": "server_stopping"}))
                    return
                if not arriving.done():
                    # No event is pending, so the position may pass events that the filter drops.
                    positions |= following.positions
                    place = token_of(positions)
                    yield (f"id: {place}\n" if place != shown else "").encode() + b": alive\n\n"
                    shown = place
                    continue
                items = arriving.result()
                if wanted.brief:
                    await self._recorded(items)
                arriving = asyncio.ensure_future(following.next())
                for frames in _in_portions(_shown(items, positions, wanted)):
                    yield frames
                    shown = token_of(positions)
        finally:
            for each in (arriving, ended):
                each.cancel()
            await asyncio.gather(arriving, ended, return_exceptions=True)

    async def _recorded(self, items: Sequence[Item]) -> None:
        """Wait, for a limited time, until this or another replica of the console has recorded these events."""
        newest = {item.payload: item.sequence for item in items if isinstance(item, StreamEvent)}
        for payload, sequence in newest.items():
            if not is_recorded(payload):
                continue
            with suppress(Unavailable):
                for _ in range(RECORDED_TRIES):
                    if await self._bus.settled_up_to(consumer_of(payload)) >= sequence:
                        break
                    await self._clock.sleep(RECORDED_PAUSE_SECONDS)

    async def _news_or_heartbeat(self, *waits: asyncio.Future[Any]) -> None:
        """Wait for any of these, or until the next heartbeat is due."""
        if any(wait.done() for wait in waits):
            return
        beat = asyncio.ensure_future(self._clock.sleep(self._heartbeat_seconds))
        try:
            await asyncio.wait((*waits, beat), return_when=asyncio.FIRST_COMPLETED)
        finally:
            beat.cancel()


class EventStream(Response):
    """Opens its stream when it is sent, so that an error on opening is still answered with a problem document."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, wanted: StreamQuery) -> None:
        super().__init__(headers=HEADERS)
        self._streams = streams
        self._wanted = wanted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stalled = False

        async def send_or_let_go(message: Message) -> None:
            nonlocal stalled
            try:
                async with asyncio.timeout(self._streams.stall_seconds):
                    await send(message)
            except TimeoutError:
                stalled = True
                raise

        async with self._streams.opened(self._wanted) as frames:
            response = StreamingResponse(frames, media_type=self.media_type, headers=HEADERS)
            try:
                await response(scope, receive, send_or_let_go)
            # A TimeoutError is an OSError, which the response treats as a disconnect.
            except (OSError, ClientDisconnect):
                if stalled:
                    log.warning("stream reader let go", stalled_seconds=self._streams.stall_seconds)


def _in_portions(frames: Sequence[bytes]) -> Iterator[bytes]:
    """Portions small enough that a slow connection takes each within the stall timeout."""
    portion: list[bytes] = []
    for frame in frames:
        if portion and sum(map(len, portion)) + len(frame) > PORTION_BYTES:
            yield b"".join(portion)
            portion = []
        portion.append(frame)
    if portion:
        yield b"".join(portion)


def _shown(items: Sequence[Item], positions: dict[str, int], wanted: StreamQuery) -> list[bytes]:
    """The frames of a batch; advances `positions`."""
    frames = []
    for item in items:
        if isinstance(item, StreamGap):
            positions[item.stream] = item.resumed_after
            frames.append(_frame(positions, "gap", _gap(item)))
            continue
        positions[item.stream] = item.sequence
        if matches(node_of(item), wanted.nodes) and (text := _event(item, wanted)) is not None:
            frames.append(_frame(positions, item.payload.TYPE, text))
    return frames


def node_of(item: StreamEvent) -> str:
    return item.key.split("/", 1)[0]


def _event(item: StreamEvent, wanted: StreamQuery) -> str | None:
    """An event as JSON; None if its payload does not match its type."""
    attributes = {
        "type": item.payload.TYPE,
        "version": item.payload.VERSION,
        "id": item.id,
        "time": item.time.isoformat(),
        "source": item.source,
        "causedby": item.causedby,
        "node": node_of(item),
    }
    try:
        data = item.data().model_dump_json() if not wanted.brief else "null"
    except Undecodable:
        return None
    data = data.translate(_LINE_ENDS)
    return f'{_json(attributes)[:-1]},"data":{data}}}'


def _gap(missed: StreamGap) -> str:
    return _json(
        {
            "type": "gap",
            "stream": missed.stream,
            "after": missed.after,
            "resumed_after": missed.resumed_after,
            "reason": str(missed.cause),
            "detail": f"events after {missed.after} in {missed.stream} are no longer stored; read the state again",
        }
    )


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


def _frame(positions: Mapping[str, int], event: str, text: str) -> bytes:
    """An SSE frame. One data line is enough: JSON has no raw line breaks, and `_event` escapes those of Unicode."""
    return f"id: {token_of(positions)}\nevent: {event}\ndata: {text}\n\n".encode()

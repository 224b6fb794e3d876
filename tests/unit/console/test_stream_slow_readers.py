"""Slow and stalled readers of the stream: disconnected, and notified of what they missed when they resume."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from served import served
from test_console_stream import BOTH, World, next_of, observed, parsed, world

from slackwater.console.domain.stream_query import positions_of
from slackwater.console.edge.stream import PORTION_BYTES, EventStream, StreamQuery
from slackwater.events.envelope import Event
from slackwater.events.intent_observed import IntentObserved

__all__ = ["world"]

PATIENCE_SECONDS = 60.0


class Client:
    """The other end of an ASGI connection, which takes so many messages and then no more."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.bodies: list[bytes] = []
        self.full = asyncio.Event()

    async def receive(self) -> Any:
        await asyncio.Event().wait()

    async def send(self, message: Any) -> None:
        if self.takes <= 0:
            self.full.set()
            await asyncio.Event().wait()  # as a socket whose buffer is full
        self.takes -= 1
        self.bodies.append(message.get("body", b""))


async def ended(*things: Any) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*things)


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
async def test_a_stalled_reader_is_disconnected_and_resumes_with_what_it_missed(spec_version: str) -> None:
    """Also where the framework takes a timeout for a client that went away."""
    world = World(stall_seconds=0.05)
    client = Client(takes=3)  # the head, the opening, one event
    scope = {"type": "http", "asgi": {"spec_version": spec_version}}
    answering = asyncio.ensure_future(
        EventStream(world.streams, StreamQuery((IntentObserved,)))(scope, client.receive, client.send)
    )
    while len(client.bodies) < 2:
        await asyncio.sleep(0)
    for generation in range(1, 8):
        await world.bus.publish(observed(generation=generation))
        await asyncio.sleep(0.001)
    await ended(client.full.wait(), answering)
    assert world.streams.open == 0, "its place is free for another"
    seen = [event for body in client.bodies[2:] for event in parsed(body)]
    assert seen
    async with world.exits:
        frames = await world.open(payloads=(IntentObserved,), after=positions_of(seen[-1]["at"], "after"))
        await anext(frames)
        while seen[-1]["id"] != "edge-7-7":
            seen += await next_of(frames)
    assert [event["id"] for event in seen] == [f"edge-7-{generation}" for generation in range(1, 8)]


async def test_a_batch_is_sent_in_portions_that_a_slow_line_can_take_in_time(world: World) -> None:
    frames = await world.open(payloads=(IntentObserved,))
    await anext(frames)
    for number in range(20):
        await world.bus.publish(large(number, 20_000))
    found: list[bytes] = []
    while sum(len(parsed(portion)) for portion in found) < 20:
        found.append(await anext(frames))
    assert max(map(len, found)) <= PORTION_BYTES
    assert [event["id"] for portion in found for event in parsed(portion)] == [f"large-{n}" for n in range(20)]


async def test_a_reader_overtaken_by_retention_is_notified_in_mid_connection(world: World) -> None:
    frames = await world.open(payloads=(IntentObserved,))
    await anext(frames)
    await world.bus.publish(observed(generation=1))
    (first,) = await next_of(frames)
    await asyncio.sleep(0)
    held = [observed(generation=generation) for generation in range(2, 62)]
    for event in held:
        await world.bus.publish(event)
    second = await next_of(frames)  # one batch; the rest waits in the stream
    world.bus.broker.truncate("AGENTS", 60)
    found = [first, *second]
    while found[-1]["id"] != "edge-7-61":
        found += await next_of(frames)
    (gap,) = [event for event in found if event["name"] == "gap"]
    seen = [int(event["id"].rsplit("-", 1)[1]) for event in found if event["name"] != "gap"]
    assert sorted([*seen, *range(gap["after"] + 1, gap["resumed_after"] + 1)]) == list(range(1, 62))
    assert (gap["stream"], gap["reason"], gap["at"]) == ("AGENTS", "expired", f"AGENTS:{gap['resumed_after']}")


async def test_a_quiet_filter_does_not_let_the_place_grow_old(world: World) -> None:
    frames = await world.open(payloads=BOTH, nodes=("edge-7",))
    await anext(frames)
    await world.bus.publish(observed("edge-7"))
    await next_of(frames)
    await world.bus.publish(observed("edge-9"))
    await world.bus.publish(observed("edge-8"))
    beat = asyncio.ensure_future(anext(frames))
    await world.clock.advance(15)
    place = (await beat).decode().splitlines()[0].removeprefix("id: ")
    assert place == "AGENTS:3,STATE:0"
    world.bus.broker.truncate("AGENTS", 4)
    await world.bus.publish(observed("edge-7", 2))
    again = await world.open(payloads=BOTH, nodes=("edge-7",), after=positions_of(place, "after"))
    await anext(again)
    assert [event["name"] for event in await next_of(again)] == ["intent.observed"], "no gap: nothing was missed"


def large(number: int, size: int) -> Event[IntentObserved]:
    event = observed(generation=number)
    return event.model_copy(
        update={"id": f"large-{number}", "data": event.data.model_copy(update={"foreign_writers": ("x" * size,)})}
    )


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_over_a_socket_that_is_not_read_the_stream_ends_and_its_place_is_free() -> None:
    with served() as console:
        console.streams.stall_seconds = 0.2
        at = urlsplit(console.url)
        with socket.create_connection((at.hostname or "", at.port or 0)) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            request = f"GET /v1/stream?since=1h&types=*,usage.reported HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n"
            reader.sendall(request.encode())
            until(lambda: console.streams.open == 1, "the stream was not opened")
            for number in range(400):
                published = console.bus.publish(large(number, 20_000))
                asyncio.run_coroutine_threadsafe(published, console.loop).result(PATIENCE_SECONDS)
            until(lambda: console.streams.open == 0, "a reader that takes nothing was not let go")

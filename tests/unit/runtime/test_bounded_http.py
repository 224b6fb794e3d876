"""The deadlines of a request, in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from slackwater.runtime import bounded_http
from slackwater.runtime.bounded_http import BoundedHttp
from slackwater.runtime.http_connections import OpenConnections
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.settings import HttpSettings
from slackwater.telemetry.metrics import Meters

SETTINGS = HttpSettings(header_seconds=10, body_seconds=60, idle_seconds=5)
WHOLE = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"

pytestmark = pytest.mark.looptime


class Wire(asyncio.Transport):
    """A transport without a socket, of a peer that reads everything."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed_at: float | None = None
        self.protocol: BoundedHttp

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.closed_at is not None

    def close(self) -> None:
        if self.closed_at is None:
            loop = asyncio.get_running_loop()
            self.closed_at = loop.time()
            loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Scene:
    """One connection to an application that reads the body, unless the path says otherwise."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        metrics = HttpMetrics(Meters(self.registry))
        self.connections = OpenConnections(8, metrics)
        self.seen: list[str] = []
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            http=BoundedHttp,
            timeout_keep_alive=SETTINGS.idle_seconds,
        )
        self.wire = Wire()
        self.protocol = BoundedHttp(config, ServerState(), SETTINGS, self.connections, metrics)
        self.wire.protocol = self.protocol
        self.connections.add(self.protocol)
        self.protocol.connection_made(self.wire)
        self.began = asyncio.get_running_loop().time()

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        while scope["path"] == "/":
            message = await receive()
            if message["type"] == "http.disconnect":
                self.seen.append("disconnect")
                break
            if not message.get("more_body"):
                break
        if scope["path"] == "/stream":
            await receive()
            await receive()
            self.seen.append("stream ended")
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receives(self, *parts: bytes, each: float = 0.0) -> None:
        for part in parts:
            if self.wire.is_closing():
                return
            self.protocol.data_received(part)
            await asyncio.sleep(each)

    def closed(self, reason: str) -> float:
        found = self.registry.get_sample_value("slackwater_http_closed_connections_total", {"reason": reason})
        return found or 0.0

    @property
    def lasted(self) -> float | None:
        return None if self.wire.closed_at is None else round(self.wire.closed_at - self.began, 3)

    def problem(self) -> dict[str, Any]:
        head, _, body = self.wire.sent.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 Request Timeout")
        assert b"connection: close" in head.lower()
        found: dict[str, Any] = json.loads(body)
        return found


async def test_a_connection_that_sends_nothing_is_closed_without_an_answer() -> None:
    scene = Scene()
    await asyncio.sleep(100)
    assert (scene.lasted, scene.wire.sent, len(scene.connections)) == (10, b"", 0)


async def test_headers_have_one_deadline_however_slowly_they_drip() -> None:
    scene = Scene()
    await scene.receives(*[bytes([byte]) for byte in WHOLE], each=1)
    assert scene.lasted == 10
    assert scene.problem()["code"] == "request_timeout"
    assert "header" in scene.problem()["detail"]
    assert scene.closed("header") == 1


async def test_a_body_has_one_deadline_and_its_application_sees_the_client_leave() -> None:
    scene = Scene()
    await scene.receives(POST, *[b"x"] * 200, each=1)
    assert scene.lasted == 60
    assert "body" in scene.problem()["detail"]
    assert (scene.seen, scene.closed("body")) == (["disconnect"], 1)


async def test_a_body_that_its_application_did_not_wait_for_has_the_same_deadline() -> None:
    """As an unauthenticated request, which is answered before its body is read."""
    scene = Scene()
    await scene.receives(POST.replace(b" / ", b" /unread "), *[b"x"] * 200, each=1)
    assert scene.wire.sent.startswith(b"HTTP/1.1 200")
    assert scene.lasted == 60


async def test_a_further_request_has_deadlines_of_its_own() -> None:
    scene = Scene()
    await scene.receives(*[WHOLE] * 30, each=4)
    assert scene.wire.sent.count(b"200 OK") == 30
    assert scene.lasted is None
    await scene.receives(*[b"G", *[b"E"] * 30], each=1)
    assert scene.lasted == 30 * 4 + 10


async def test_an_idle_connection_is_closed() -> None:
    scene = Scene()
    await scene.receives(WHOLE)
    await asyncio.sleep(100)
    assert scene.lasted == 5


async def test_an_answer_has_no_deadline_and_its_connection_makes_no_room() -> None:
    scene = Scene()
    await scene.receives(WHOLE.replace(b" / ", b" /stream "))
    await asyncio.sleep(24 * 3600)
    scene.connections.close_oldest()
    assert (scene.lasted, scene.seen) == (None, [])
    scene.wire.close()
    await asyncio.sleep(1)
    assert (scene.seen, len(scene.connections)) == (["stream ended"], 0)


async def test_requests_that_arrive_together_are_answered_in_turn() -> None:
    scene = Scene()
    await scene.receives(WHOLE * 3 + WHOLE[:5])
    await asyncio.sleep(1)
    assert scene.wire.sent.count(b"200 OK") == 3
    await asyncio.sleep(100)
    assert scene.lasted == 5  # part of a fourth arrived before the idle time began, and nothing since


async def test_garbage_is_answered_and_closed() -> None:
    scene = Scene()
    await scene.receives(b"\x16\x03\x01\x00\r\n\r\n")
    assert scene.wire.sent.startswith(b"HTTP/1.1 400")
    assert scene.wire.is_closing()


CHUNKED = b"POST %b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("path", [b"/", b"/answered"])
async def test_a_body_in_crumbs_is_refused_at_once(path: bytes) -> None:
    """Also where the application has answered without the body: a route that wants a token."""
    scene = Scene()
    await scene.receives(CHUNKED % path, b"1\r\nx\r\n" * 40_000, each=0.01)
    assert scene.wire.closed_at is not None
    assert scene.protocol.conn.trailing_data[0] != b"", "the rest is not read"
    assert (b" 400 " in scene.wire.sent) is (path == b"/")


async def test_a_long_body_of_usual_chunks_is_read() -> None:
    scene = Scene()
    chunk = b"200\r\n" + b"x" * 512 + b"\r\n"
    parts = [chunk * 256] * 20 + [b"1\r\nx\r\n" * bounded_http.MOST_SMALL_CHUNKS, b"0\r\n\r\n"]
    await scene.receives(CHUNKED % b"/", *parts)
    await asyncio.sleep(0)
    assert scene.wire.sent.endswith(b"ok")


async def test_each_request_has_its_own_chunks() -> None:
    scene = Scene()
    for number in range(1, 4):
        await scene.receives(CHUNKED % b"/", b"1\r\nx\r\n" * bounded_http.MOST_SMALL_CHUNKS + b"0\r\n\r\n", each=0.01)
        assert scene.wire.sent.count(b" 200 ") == number


@pytest.mark.parametrize("rest", [b"1\r\nx\r\n" * 40_000, b"no chunk\r\n", b"0\r\n" + b"a: b\r\n" * 40_000])
async def test_an_answer_to_a_request_that_was_refused_is_no_error(
    rest: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The application has yet to run when the body turns out to be none: its answer goes nowhere."""
    scene = Scene()
    await scene.receives(CHUNKED % b"/answered" + rest, each=0.01)
    assert scene.wire.sent.startswith(b"HTTP/1.1 400 ")
    assert scene.wire.sent.count(b"HTTP/1.1") == 1
    assert [record.message for record in caplog.records if record.exc_info] == []

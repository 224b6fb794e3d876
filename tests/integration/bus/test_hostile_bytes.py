"""Bytes that no client of ours would send, past every client: the connection that reads them goes on reading."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from test_bus_contract import CONSUMER, Seen, changed, until
from tests.support.nats_server import purge_broker

from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.events.node_liveness_changed import NodeLivenessChanged

SUBJECT = encode(changed("bad")).subject.encode()
HEADERS = {
    "status that is no UTF-8": b"NATS/1.0 \xff\xfe\xed\r\n\r\n",
    "status and description that are no UTF-8": b"NATS/1.0 200 \xed\xa0\x80\r\n\r\n",
    "a header without a colon": b"NATS/1.0\r\nnothing\r\n\r\n",
    "a header that is no UTF-8": b"NATS/1.0\r\nce-id: \xed\xa0\x80\r\n\r\n",
    "a name that is no UTF-8": b"NATS/1.0\r\n\xed\xa0\x80: x\r\n\r\n",
    "control characters": b"NATS/1.0\r\nce-id: \x00\x01\x7f\r\n\r\n",
    "nothing": b"NATS/1.0\r\n\r\n",
    "a heartbeat of the broker": b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
    "a consumer that is gone": b"NATS/1.0 409 Consumer Deleted\r\n\r\n",
    "a status among the headers": b"NATS/1.0\r\nStatus: 503\r\n\r\n",
}


async def send(url: str, *commands: bytes) -> None:
    """Over a connection of its own, and wait until the broker has taken all."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\n' + b"".join(commands) + b"PING\r\n")
    async with asyncio.timeout(60):
        while not (await reader.readline()).startswith((b"PONG", b"-ERR")):
            pass
    writer.close()


def with_headers(headers: bytes, body: bytes) -> bytes:
    sizes = f" {len(headers)} {len(headers) + len(body)}\r\n".encode()
    return b"HPUB " + SUBJECT + sizes + headers + body + b"\r\n"


@pytest.mark.parametrize("body", [b"{}", b""], ids=["with a body", "empty"])
@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS.keys())
async def test_headers_that_cannot_be_read_cost_their_message_only(nats_url: str, headers: bytes, body: bytes) -> None:
    seen = Seen()
    async with connect_bus(nats_url, name="reads") as bus:
        await purge_broker(bus)
        await bus.declare()
        await send(nats_url, with_headers(headers, body))
        async with bus.consume(NodeLivenessChanged, CONSUMER, seen):
            await bus.publish(changed("good"))
            await seen.count(1)
            await until(lambda: buried(bus))
    assert seen.nodes == ["good"]


async def buried(bus: object) -> bool:
    state = (await bus.jetstream.stream_info("DLQ")).state  # type: ignore[attr-defined]
    return bool(state.messages == 1)


async def test_a_subject_that_is_no_utf_8_costs_its_message_only(nats_url: str) -> None:
    seen = Seen()
    async with connect_bus(nats_url, name="reads") as bus:
        await purge_broker(bus)
        await bus.declare()
        await send(nats_url, b"PUB " + SUBJECT + b"-\xed\xa0\x80 2\r\n{}\r\n")
        async with bus.consume(NodeLivenessChanged, CONSUMER, seen):
            await bus.publish(changed("good"))
            await seen.count(1)
            if (await bus.jetstream.stream_info("STATE")).state.messages == 2:
                await until(lambda: buried(bus))
    assert seen.nodes == ["good"]


async def test_a_replay_goes_on_behind_what_looks_like_a_word_of_the_broker(nats_url: str) -> None:
    seen = Seen()
    async with connect_bus(nats_url, name="reads") as bus:
        await purge_broker(bus)
        await bus.declare()
        await bus.publish(changed("first"))
        await send(nats_url, with_headers(HEADERS["a status among the headers"], b""))
        await bus.publish(changed("second"))
        async with bus.replay(NodeLivenessChanged, seen, after_sequence=0):
            await seen.count(2)
            await until(lambda: buried(bus))
    assert seen.nodes == ["first", "second"]

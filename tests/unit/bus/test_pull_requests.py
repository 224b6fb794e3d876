"""Pull requests: how one ends, and what a reader gets from it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from slackwater.bus.consume.pull_requests import (
    ConsumerGone,
    Interrupted,
    Puller,
    PullRequests,
    RequestEnd,
    RequestTimes,
)


class Broker:
    """The client's part of the broker: requests are kept, answers are handed over by the test."""

    is_closed = False

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answered: Any = None

    def new_inbox(self) -> str:
        return "_INBOX.a"

    async def subscribe(self, subject: str, cb: Any, pending_bytes_limit: int) -> Any:
        self.answered = cb
        return self

    async def unsubscribe(self) -> None:
        self.answered = None

    async def publish(self, subject: str, body: bytes, reply: str) -> None:
        self.requests.append(reply)

    async def send(self, data: bytes = b"x") -> None:
        await self.answered(Msg(cast(Any, self), "sw.v1.x", "$JS.ACK.S.c.1.1.1.0.0", data, None))

    async def end(self, status: str, description: str = "", request: int = -1) -> None:
        headers = {"Status": status, "Description": description}
        await self.answered(Msg(cast(Any, self), self.requests[request], "", b"", headers))


TIMES = RequestTimes(expires_seconds=30.0, heartbeat_seconds=10.0)


async def requests_of(broker: Broker, times: RequestTimes = TIMES) -> tuple[PullRequests, list[RequestEnd]]:
    ends: list[RequestEnd] = []
    requests = PullRequests(cast(Client, broker), "next", "_INBOX.a", times, lambda _: None, ends.append)
    await requests.subscribe()
    return requests, ends


async def test_a_full_batch_ends_a_request_without_a_status() -> None:
    broker = Broker()
    requests, ends = await requests_of(broker)
    await requests.send(2)
    await broker.send()
    assert requests.is_open
    await broker.send()
    assert (requests.is_open, requests.received, ends) == (False, 2, [])


async def test_a_heartbeat_and_the_end_of_an_earlier_request_end_nothing() -> None:
    broker = Broker()
    requests, ends = await requests_of(broker)
    await requests.send(2)
    requests.end()
    await requests.send(2)
    await broker.end("100")
    await broker.end("404", request=0)
    assert requests.is_open
    await broker.end("404")
    assert (requests.is_open, [end.status for end in ends]) == (False, ["404"])


async def test_none_is_sent_while_suspended_whatever_the_broker_says_of_the_open_one() -> None:
    broker = Broker()
    requests, ends = await requests_of(broker)
    await requests.send(2)
    requests.suspend()
    await broker.end("409", "Consumer Deleted")
    assert (requests.is_open, ends) == (True, [])
    requests.end()
    assert not requests.is_open


async def test_a_request_without_a_sign_is_lost() -> None:
    requests, _ = await requests_of(broker := Broker(), RequestTimes(30.0, heartbeat_seconds=0.0))
    await requests.send(2)
    requests.end_if_lost()
    assert not requests.is_open
    requests, _ = await requests_of(broker)
    await requests.send(2)
    requests.end_if_lost()
    assert requests.is_open


@pytest.mark.parametrize(
    ("status", "detail", "is_gone"),
    [("503", "", True), ("409", "Consumer Deleted", True), ("409", "Server Shutdown", False), ("404", "", False)],
)
def test_only_a_consumer_that_is_not_there_is_a_failure(status: str, detail: str, is_gone: bool) -> None:
    assert (RequestEnd(status, detail).failure is not None) is is_gone


async def open_puller(broker: Broker, *, ahead: bool = False) -> Puller:
    puller = Puller(cast(Client, broker), "S", "c", 2, ahead=ahead)
    await puller.open()
    return puller


async def next_of(puller: Puller, *answers: Any) -> list[Msg]:
    """Reads while the broker answers."""
    reading = asyncio.ensure_future(puller.next())
    await asyncio.sleep(0)
    for answer in answers:
        await answer()
    return await reading


async def test_a_reader_gets_what_came_before_the_end_of_its_request() -> None:
    broker = Broker()
    puller = await open_puller(broker)
    assert len(await next_of(puller, broker.send, lambda: broker.end("404"))) == 1
    assert not puller.idle
    assert await next_of(puller, lambda: broker.end("404")) == []
    assert puller.idle


async def test_a_consumer_that_is_gone_is_raised_after_its_messages() -> None:
    broker = Broker()
    puller = await open_puller(broker)
    assert len(await next_of(puller, broker.send, lambda: broker.end("409", "Consumer Deleted"))) == 1
    with pytest.raises(ConsumerGone):
        await puller.next()
    assert len(broker.requests) == 1


async def test_an_interrupt_ends_the_wait_and_close_returns_what_was_not_read() -> None:
    broker = Broker()
    puller = await open_puller(broker)
    reading = asyncio.ensure_future(puller.next())
    await asyncio.sleep(0)
    puller.interrupt("a new connection")
    with pytest.raises(Interrupted):
        await reading
    await next_of(puller, broker.send, broker.send, broker.send)
    assert len(await puller.close()) == 1


@pytest.mark.parametrize("ahead", [False, True])
async def test_the_next_batch_is_requested_ahead_only_where_asked_for(ahead: bool) -> None:
    broker = Broker()
    puller = await open_puller(broker, ahead=ahead)
    assert len(await next_of(puller, broker.send, broker.send)) == 2
    assert len(broker.requests) == 1 + ahead

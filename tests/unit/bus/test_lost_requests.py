"""A request that is lost is sent again, also while other partitions of the same reader are busy."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from slackwater.bus.consume import partitions
from slackwater.bus.consume.partitions import PartitionedPuller
from slackwater.bus.consume.pull_requests import RequestTimes

BUSY, LOST = 0, 1


class Broker:
    """Answers each request for the busy partition with a message, and none for the other, as after a change of leader
    that the connection outlives.
    """

    is_closed = False

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self._callbacks: dict[str, Callable[[Msg], Awaitable[None]]] = {}
        self._sequence = 0

    def new_inbox(self) -> str:
        return "_INBOX.a"

    async def subscribe(self, subject: str, cb: Any, pending_bytes_limit: int) -> Any:
        self._callbacks[subject.removesuffix(".*")] = cb
        return self

    async def publish(self, subject: str, body: bytes, reply: str) -> None:
        partition = int(subject[-1])
        self.requests[partition] += 1
        if partition == BUSY:
            asyncio.get_running_loop().call_later(0.005, lambda: asyncio.ensure_future(self._answer(reply)))

    async def _answer(self, reply: str) -> None:
        self._sequence += 1
        answer = self._callbacks[reply.rpartition(".")[0]]
        at = f"$JS.ACK.S.c.1.{self._sequence}.{self._sequence}.1700000000000000000.0"
        await answer(Msg(cast(Any, self), "sw.v1.x", at, b"x", None))
        await answer(Msg(cast(Any, self), reply, "", b"", {"Status": "404"}))


async def test_a_lost_request_is_sent_again_while_other_partitions_are_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "TIMES", RequestTimes(expires_seconds=5.0, heartbeat_seconds=0.4))
    broker = Broker()
    puller = PartitionedPuller(cast(Client, broker), "S", "c", batch=100)
    await puller.acquire([BUSY, LOST])
    while broker.requests[LOST] < 2 and broker.requests[BUSY] < 1000:
        await puller.next()
    assert broker.requests[LOST] == 2
    assert broker.requests[BUSY] > 2

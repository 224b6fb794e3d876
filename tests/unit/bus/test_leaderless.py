"""When a consumer without leader is made anew. With real brokers: integration/bus/test_consumers_without_leader."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError, ServerError, ServiceUnavailableError

from slackwater.bus.admin.streams import load
from slackwater.bus.connect import leaderless
from slackwater.bus.connect.leaderless import LeaderlessConsumers

CONSUMERS = ("ingestion-usage-reported", "ingestion-node-described")
LOST = "ingestion-usage-reported-p3"
IN_MEMORY = {f"ingestion-usage-reported-p{number}" for number in range(8)}
ON_DISK = {f"ingestion-node-described-p{number}" for number in range(8)}
NO_LEADER = ServiceUnavailableError(code=503, err_code=10008)


class Broker:
    """JetStream's answers on consumers. Only `lost` has no leader."""

    def __init__(self) -> None:
        self.lost = LOST
        self.answer: Exception = NO_LEADER
        self.asked: list[str] = []
        self.deleted: list[str] = []
        self.created: list[str] = []

    async def consumer_info(self, stream: str, name: str) -> None:
        self.asked.append(name)
        if name == self.lost:
            raise self.answer

    async def delete_consumer(self, stream: str, name: str) -> None:
        self.deleted.append(name)
        raise NotFoundError(code=404)

    async def add_consumer(self, stream: str, config: Any) -> None:
        self.created.append(config.durable_name)


class Connected(Client):
    def __init__(self, cluster: str) -> None:
        super().__init__()
        self._server_info = {"cluster": cluster}
        self._status = Client.CONNECTED
        self.answer = b"{}"

    async def request(self, *_: Any, **__: Any) -> Msg:
        return Msg(self, data=self.answer)


async def test_a_consumer_is_made_anew_once_no_election_can_be_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    broker, anew = Broker(), list[str]()
    consumers = LeaderlessConsumers(Connected("c"), cast(JetStreamContext, broker), load(), anew.append)
    await consumers.check(CONSUMERS)
    now += leaderless.LEADERLESS_SECONDS - 0.1
    await consumers.check(CONSUMERS)
    broker.lost = ""
    await consumers.check(CONSUMERS)
    broker.lost = LOST
    now += leaderless.LEADERLESS_SECONDS - 0.1
    await consumers.check(CONSUMERS)
    assert broker.deleted == [], "it had a leader in between"
    now += 1.5 * leaderless.LEADERLESS_SECONDS
    await consumers.check(CONSUMERS)
    assert broker.deleted == broker.created == [LOST]
    assert len(anew) == 1, "the readers ask again"


async def test_a_server_that_is_cut_off_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    broker, client = Broker(), Connected("c")
    consumers = LeaderlessConsumers(client, cast(JetStreamContext, broker), load(), print)
    await consumers.check(CONSUMERS)
    client.answer = b'{"error": {"code": 503}}'
    now += 100
    await consumers.check(CONSUMERS)
    client.answer = b"{}"
    await consumers.check(CONSUMERS)
    assert broker.deleted == [], "the time begins anew"


async def test_a_single_broker_is_not_asked() -> None:
    broker = Broker()
    await LeaderlessConsumers(Connected(""), cast(JetStreamContext, broker), load(), print).check(CONSUMERS)
    assert broker.asked == []


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (NO_LEADER, None),
        (ServerError(code=500, err_code=leaderless.CONSUMER_OFFLINE), leaderless.LEADERLESS_SECONDS),
        (TimeoutError(), leaderless.UNANSWERED_SECONDS),
    ],
    ids=["election", "offline", "unanswered"],
)
async def test_a_consumer_on_disk_is_made_anew_when_all_its_servers_are_gone(
    answer: Exception, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    broker = Broker()
    broker.lost, broker.answer = "ingestion-node-described-p1", answer
    consumers = LeaderlessConsumers(Connected("c"), cast(JetStreamContext, broker), load(), print)
    await consumers.check(CONSUMERS)
    assert set(broker.asked) == IN_MEMORY | ON_DISK
    broker.asked.clear()
    now += leaderless.LEADERLESS_SECONDS - 0.1
    await consumers.check(CONSUMERS)
    assert set(broker.asked) == (IN_MEMORY | {broker.lost} if seconds else IN_MEMORY), "the others less often"
    now = 100 + (seconds or 0) - 0.1
    await consumers.check(CONSUMERS)
    assert broker.created == []
    now = 100 + 1.5 * (seconds or 100)
    await consumers.check(CONSUMERS)
    assert broker.created == ([broker.lost] if seconds else [])

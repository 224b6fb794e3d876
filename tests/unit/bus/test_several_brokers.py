"""What a client does with several brokers: which it tries next, when it leaves one, how many replicas it asks for."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlparse

import pytest
from nats.aio.client import Client, Server
from nats.aio.msg import Msg

from slackwater.bus.admin.stream_setup import wanted_replicas
from slackwater.bus.admin.streams import load
from slackwater.bus.connect import failover
from slackwater.bus.connect.access import NatsAccess, servers_of, without_login
from slackwater.bus.connect.connections import LONGEST_RECONNECT_SECONDS, RECONNECT_SECONDS, next_server
from slackwater.bus.connect.failover import FailoverWatch
from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.bus.connect.nats_client import SteadyClient
from slackwater.model.errors import Misconfigured


def servers(*failures: int) -> list[Server]:
    return [Server(uri=urlparse(f"nats://h{number}:4222"), reconnects=count) for number, count in enumerate(failures)]


def test_a_server_that_failed_less_often_is_tried_first() -> None:
    chosen, _ = next_server(servers(2, 0, 1), {})
    assert chosen.uri.hostname == "h1"


def test_pauses_grow_to_a_bound_and_differ() -> None:
    pauses = [next_server(servers(failures, failures), {})[1] for failures in (0, 0, 1, 30, 30)]
    assert all(0.5 * RECONNECT_SECONDS <= pause <= 1.5 * LONGEST_RECONNECT_SECONDS for pause in pauses)
    assert max(pauses[:2]) <= 1.5 * RECONNECT_SECONDS
    assert min(pauses[3:]) >= 0.5 * LONGEST_RECONNECT_SECONDS
    assert len(set(pauses)) == len(pauses)


@pytest.mark.parametrize(
    ("setting", "clustered", "wanted"), [(None, False, (1,)), (None, True, (3, 1)), (1, True, (1,)), (5, True, (5,))]
)
def test_three_replicas_where_there_is_a_cluster(setting: int | None, clustered: bool, wanted: tuple[int, ...]) -> None:
    assert wanted_replicas(setting, clustered=clustered) == wanted


def test_an_address_may_name_several_servers() -> None:
    url = "nats://a:1, nats://user:secret@b:2"
    assert servers_of(url) == ["nats://a:1", "nats://user:secret@b:2"]
    assert without_login(url) == "nats://a:1,nats://b:2"
    with pytest.raises(Misconfigured, match="at b without"):
        NatsAccess().options("nats://127.0.0.1:1,nats://b:2")
    with pytest.raises(Misconfigured, match="all begin with tls"):
        NatsAccess(user="u", password="p").options("nats://a:1,tls://b:2")


class Useless(SteadyClient):
    """Connected to a server of a cluster, which answers no request."""

    def __init__(self) -> None:
        super().__init__()
        self._server_info = {"cluster": "c"}
        self._status = Client.CONNECTED
        self.moves = 0

    async def move_on(self) -> None:
        self.moves += 1


class Bus:
    def __init__(self) -> None:
        self.client = Useless()
        self.served = False
        self.asked: Counter[str] = Counter()

    def connections(self) -> Mapping[str, Client]:
        return {"main": self.client}

    async def is_served(self, client: Client) -> bool:
        self.asked["served"] += 1
        return self.served

    async def grow(self) -> None:
        self.asked["grow"] += 1

    async def revive(self) -> None: ...


async def test_a_server_that_serves_nothing_for_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    bus, moved_at = Bus(), list[float]()
    watch = FailoverWatch(bus)
    for _ in range(120):
        await watch.check()
        if bus.client.moves > len(moved_at):
            moved_at.append(now)
        now += 2
    pauses = [after - before for before, after in zip([100.0, *moved_at], moved_at, strict=False)]
    assert failover.USELESS_SECONDS <= pauses[0] <= 1.5 * failover.USELESS_SECONDS + 2
    assert all(after > before for before, after in itertools.pairwise(pauses)), "a useless cluster"
    bus.served = True
    await watch.check()
    bus.served = False
    moves = bus.client.moves
    await watch.check()
    assert bus.client.moves == moves, "the time begins anew"


async def test_a_single_broker_is_never_left() -> None:
    bus = Bus()
    bus.client._server_info = {}
    await FailoverWatch(bus).check()
    assert bus.asked["served"] == 0


async def test_a_server_that_answers_and_confirms_no_publish_is_of_no_use() -> None:
    """The leader of a cluster that was cut off from the others answers for some 20 s more."""

    class Answering(Useless):
        async def request(self, *_: Any, **__: Any) -> Msg:
            return Msg(self, data=b"{}")

    client = Answering()
    bus = NatsBus(client, "test", load())
    assert await bus.is_served(client)
    bus._publisher.unanswered_since = 1.0
    assert not await bus.is_served(client)

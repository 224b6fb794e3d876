"""The guard holds an agent that floods, lets it in again, and holds it once for one flood; a broker that answers late
or badly changes nothing of that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.msg import Msg
from prometheus_client import CollectorRegistry

from slackwater.bus.access import flood_guard
from slackwater.bus.access.churn import CONNECTIONS_AT_ONCE
from slackwater.bus.access.flood_guard import FloodGuard
from slackwater.bus.access.floods import BYTES_AT_ONCE, HOLD_SECONDS, MESSAGES_AT_ONCE, Holds
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.model.errors import Unavailable
from slackwater.telemetry.metrics import Meters


def answered(body: bytes) -> Msg:
    return Msg(_client=None, subject="inbox", data=body)  # type: ignore[arg-type]


class Broker:
    """Has counted `messages` of each account, and is the guard's connection and what stores accounts."""

    def __init__(self) -> None:
        self.holds, self.now, self.stored = Holds(), 0.0, list[str]()
        self.is_away = False
        self.guard = FloodGuard(
            self,  # type: ignore[arg-type] # the few methods that it uses
            self.holds,
            self.store,
            BusMetrics(Meters(CollectorRegistry())),
            lambda: self.now,
        )

    async def subscribe(self, inbox: str, cb: Callable[[Msg], Awaitable[None]]) -> Broker:
        return self

    async def unsubscribe(self) -> None: ...
    async def publish(self, subject: str, body: bytes, reply: str) -> None: ...

    async def store(self, node: str) -> None:
        if self.is_away:
            raise Unavailable("away")
        self.stored.append(node)

    async def counts(self, server: str = "s", **messages: int) -> None:
        nothing = {"msgs": 0, "bytes": 0}
        accounts = [
            {"name": name, "received": {"msgs": sent, "bytes": 0}, "sent": nothing} for name, sent in messages.items()
        ]
        answer: Any = {"server": {"id": server}, "data": {"account_statz": accounts}}
        await self.guard._read(answered(json.dumps(answer).encode()))

    async def fetched(self, account: str, size_bytes: int) -> None:
        traffic = {"received": {"msgs": 10, "bytes": 3000}, "sent": {"msgs": 10, "bytes": size_bytes}}
        answer: Any = {"server": {"id": "s"}, "data": {"account_statz": [{"name": account, **traffic}]}}
        await self.guard._read(answered(json.dumps(answer).encode()))

    async def lists(self, account: str, active_at: str, server: str = "s") -> None:
        connection = {"cid": 1, "name_tag": account, "in_msgs": 0, "out_msgs": 0, "out_bytes": 0, "pending_bytes": 0,
                      "last_activity": active_at}  # fmt: skip
        answer: Any = {"server": {"id": server}, "data": {"connections": [connection, {"cid": 2}]}}
        await self.guard._read_connections(answered(json.dumps(answer).encode()))

    async def connects(self, account: str) -> None:
        await self.guard._read_connected(answered(json.dumps({"client": {"name_tag": account}}).encode()))

    async def says(self, body: bytes) -> None:
        for read in (self.guard._read, self.guard._read_connections, self.guard._read_connected):
            await read(answered(body))

    async def asked_until(self, now: float) -> None:
        self.now = now
        async with self.guard.running():
            await asyncio.sleep(0.05)

    def held(self, account: str) -> bool:
        return self.holds.of(account, self.now) is not None


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    monkeypatch.setattr(flood_guard, "ASK_SECONDS", 0.01)
    return Broker()


async def test_what_an_agent_sent_before_it_was_cut_off_does_not_hold_it_again(broker: Broker) -> None:
    """Between the last answer of the broker and the end of its connection an agent has sent more than its burst."""
    await broker.counts(**{"agent-a": 0})
    broker.now = 0.25
    await broker.counts(**{"agent-a": 2 * MESSAGES_AT_ONCE})
    assert broker.held("agent-a")
    await broker.asked_until(0.25 + HOLD_SECONDS)
    assert not broker.held("agent-a")
    assert broker.stored == ["a", "a"], "held, and let in"
    await broker.counts(**{"agent-a": 5 * MESSAGES_AT_ONCE})
    await broker.counts(**{"agent-a": 5 * MESSAGES_AT_ONCE + 10})
    assert not broker.held("agent-a"), "it is back and sends ten messages"
    broker.now += 0.25
    await broker.counts(**{"agent-a": 9 * MESSAGES_AT_ONCE})
    assert broker.held("agent-a"), "it floods again"


async def test_an_agent_that_fetches_without_an_end_floods(broker: Broker) -> None:
    """A request of 300 bytes may be answered by all intents of a node."""
    await broker.fetched("agent-a", 10**9)
    assert not broker.held("agent-a"), "the first count may be that of a month"
    broker.now = 0.25
    await broker.fetched("agent-a", 10**9 + BYTES_AT_ONCE // 2)
    assert not broker.held("agent-a")
    await broker.fetched("agent-a", 10**9 + 2 * BYTES_AT_ONCE)
    assert broker.held("agent-a")


async def test_an_account_that_could_not_be_stored_is_stored_with_the_next_answer(broker: Broker) -> None:
    await broker.counts(**{"agent-a": 0, "agent-b": 0})
    broker.is_away = True
    await broker.counts(**{"agent-a": 2 * MESSAGES_AT_ONCE, "agent-b": 5})
    broker.is_away = False
    await broker.counts(**{"agent-a": 4 * MESSAGES_AT_ONCE, "agent-b": 9})
    assert broker.stored == ["a"]
    assert not broker.held("agent-b")
    broker.is_away = True
    await broker.asked_until(HOLD_SECONDS)
    broker.is_away = False
    await broker.asked_until(HOLD_SECONDS + 1)
    assert broker.stored == ["a", "a"], "let in once the broker answers"


async def test_only_accounts_of_agents_are_compared(broker: Broker) -> None:
    for step in range(3):
        broker.now = step / 4
        await broker.counts(CONTROL=step * 9 * MESSAGES_AT_ONCE, ENROLMENT=step * 9 * MESSAGES_AT_ONCE)
    assert broker.stored == []


@pytest.mark.parametrize("late", [0, 60])
async def test_answers_that_come_late_or_together_hold_no_honest_agent(broker: Broker, late: int) -> None:
    """An honest agent sends five messages a second. Answers are read when ingestion has time for them."""
    for second in range(600):
        broker.now = float(max(second, late))
        await broker.counts(**{"agent-a": 5 * second})
    assert not broker.held("agent-a")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"{}", b'{"server": {"id": "s"}, "data": {"account_statz": null}}', b'{"server": 1}'],
)
async def test_an_answer_that_cannot_be_read_changes_nothing(broker: Broker, body: bytes) -> None:
    await broker.says(body)
    assert broker.stored == []


async def test_an_agent_that_works_the_broker_without_messages_is_held(broker: Broker) -> None:
    for second in range(20):
        broker.now = second / 4
        await broker.lists("agent-a", f"2026-01-01T00:00:{second:02d}.5Z")
        await broker.lists("ingestion", f"2026-01-01T00:00:{second:02d}.5Z", "other")
    assert broker.held("agent-a")
    assert set(broker.stored) == {"a"}


async def test_an_agent_that_connects_again_and_again_is_held(broker: Broker) -> None:
    for _ in range(CONNECTIONS_AT_ONCE + 1):
        assert not broker.held("agent-a")
        await broker.connects("agent-a")
        await broker.connects("ingestion")
    assert broker.held("agent-a")
    assert broker.stored == ["a"]

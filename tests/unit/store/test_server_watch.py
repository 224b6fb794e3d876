"""The watch over a pool: asks late, ends sessions once, bounds the queue, and notices the answer."""

from __future__ import annotations

import asyncio

import pytest

from slackwater.model.errors import Unavailable
from slackwater.model.time import SystemClock
from slackwater.store import server_watch
from slackwater.store.server_watch import ServerWatch


class Server:
    def __init__(self, *replies: str | None) -> None:
        self._replies = list(replies)
        self.asked = 0

    async def ask(self) -> str | None:
        self.asked += 1
        return self._replies.pop(0) if self._replies else "first"


class Session:
    ended = 0

    def terminate(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(server_watch, "_PAUSE_SECONDS", 0.0)


async def wait_in_queue(watch: ServerWatch) -> None:
    with watch.used():
        async with watch.checkout():
            await asyncio.Event().wait()


async def test_a_slow_server_that_ends_uses_meanwhile_is_not_silent() -> None:
    """On a machine without CPU to spare, sessions ended for nothing, and all processes connected at once."""
    session, watch = Session(), None

    async def ask() -> None:
        assert watch is not None
        with watch.used():
            pass

    watch = ServerWatch(ask, SystemClock())
    watch.add(session, "first")
    with watch.used():
        await asyncio.sleep(0.02)
    await watch.close()
    assert session.ended == 0
    watch.require_answering()


async def test_a_silent_server_ends_the_sessions_and_the_queue_until_it_answers() -> None:
    server, session = Server(None, None, None, "first"), Session()
    watch = ServerWatch(server.ask, SystemClock())
    watch.add(session, "first")
    with pytest.raises(TimeoutError):
        await wait_in_queue(watch)
    assert session.ended == 1
    with pytest.raises(Unavailable, match="PostgreSQL does not answer"):
        watch.require_answering()
    while server.asked < 4:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    watch.require_answering()
    await watch.close()


async def test_one_attempt_without_an_answer_ends_nothing() -> None:
    server, session = Server(None, ""), Session()
    watch = ServerWatch(server.ask, SystemClock())
    watch.add(session, "first")
    with watch.used():
        while server.asked < 2:
            await asyncio.sleep(0)
    await watch.close()
    assert session.ended == 0
    watch.require_answering()


async def test_sessions_of_a_server_that_the_address_no_longer_leads_to_are_ended() -> None:
    server, former, present = Server(*["second"] * 9), Session(), Session()
    watch = ServerWatch(server.ask, SystemClock())
    watch.add(former, "first")
    watch.add(present, "second")
    with watch.used():
        while not former.ended:
            await asyncio.sleep(0)
    await watch.close()
    assert (former.ended, present.ended) == (1, 0)
    watch.require_answering()


async def test_short_uses_ask_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_watch, "PATIENCE_SECONDS", 60.0)
    server = Server()
    watch = ServerWatch(server.ask, SystemClock())
    for _ in range(3):
        with watch.used():
            await asyncio.sleep(0)
    await watch.close()
    assert server.asked == 0

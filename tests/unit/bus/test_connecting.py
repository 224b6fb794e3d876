"""Waiting for a broker ends at its timeout, also when the request to stop is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.bus.connect.nats_client import SteadyClient
from slackwater.model.errors import Unavailable

ATTEMPTS = 50


async def test_a_lost_cancellation_does_not_make_the_wait_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def deaf(client: Client) -> None:
        """An attempt that does not hear of its cancellation, as when wait_for of Python 3.11 has just got a result."""
        nonlocal attempts
        attempts += 1
        assert attempts < ATTEMPTS, "it tries for ever"
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.05)
        raise ConnectionRefusedError

    monkeypatch.setattr(Client, "_select_next_server", deaf)
    with pytest.raises(Unavailable, match=r"within 0\.12 s"):
        async with connect_bus("nats://127.0.0.1:9", name="test", declares=False, wait_seconds=0.12):
            pytest.fail("no broker is there")


async def test_a_cancellation_that_comes_with_the_answer_ends_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving a bus waited for ever for a task that went on asking: 1 of 50 leaders stopped under load."""
    client, asking = SteadyClient(), list[asyncio.Task[None]]()
    client._resp_sub_prefix = bytearray(b"_INBOX.test.")

    def answer_and_cancel() -> None:
        for future in client._resp_map.values():
            future.set_result(Msg(client))
        asking[0].cancel()

    async def publish(*_: object, **__: object) -> None:
        asyncio.get_running_loop().call_soon(answer_and_cancel)

    async def ask() -> None:
        await client.request("question", timeout=10)

    monkeypatch.setattr(client, "publish", publish)
    asking.append(asyncio.create_task(ask()))
    await asyncio.wait(asking)
    assert asking[0].cancelled()


async def test_an_attempt_whose_end_was_told_by_the_one_before_it_ends_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As nats-py ends each attempt to connect again, with the future of the newest."""

    async def attempt(client: Client) -> None:
        assert client._reconnection_task_future is not None
        client._reconnection_task_future.set_result(True)

    monkeypatch.setattr(Client, "_attempt_reconnect", attempt)
    client = SteadyClient()
    client._reconnection_task_future = asyncio.get_running_loop().create_future()
    await client._attempt_reconnect()
    await client._attempt_reconnect()


async def test_a_password_in_the_address_is_not_said() -> None:
    with pytest.raises(Unavailable) as said:
        async with connect_bus("nats://alice:hunter2@127.0.0.1:9", name="test", declares=False, wait_seconds=0.05):
            pytest.fail("no broker is there")
    assert "nats://127.0.0.1:9 within" in str(said.value)
    assert "hunter2" not in repr(said.value)


async def test_what_fails_while_it_is_closed_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker has hung up on wrong credentials, and TLS cannot say goodbye any more."""

    async def refused(client: Client, *_: object, **options: object) -> None:
        client._error_cb = options["error_cb"]
        await asyncio.sleep(60)

    async def close(client: Client) -> None:
        await client._error_cb(BrokenPipeError(32, "Broken pipe"))

    monkeypatch.setattr(Client, "connect", refused)
    monkeypatch.setattr(Client, "close", close)
    with pytest.raises(Unavailable, match=r"within 0\.05 s"):
        async with connect_bus("nats://127.0.0.1:9", name="test", declares=False, wait_seconds=0.05):
            pytest.fail("no broker is there")

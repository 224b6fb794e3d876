"""Who waits for a broker waits no longer than was said, also when the request to stop is lost on the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from nats.aio.client import Client

from slackwater.bus.nats import connect_bus
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
            pytest.fail("nobody is there")

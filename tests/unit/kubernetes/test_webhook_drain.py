"""The webhook answers for a while after it is told to stop: API servers ask a pod until they have seen that it left its
Service."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.support.clock import FakeClock

from slackwater.kubernetes.adapters.certificate_pairs import AuthorityPairs
from slackwater.kubernetes.edge.webhook import Webhook
from slackwater.kubernetes.settings import KubernetesSettings

DRAIN_SECONDS = 10.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def review(body: object) -> dict[str, Any]:
    return {"response": body}


async def test_it_serves_until_it_has_drained_and_can_be_started_again() -> None:
    clock, port = FakeClock(), free_port()
    settings = KubernetesSettings(
        webhook_host="127.0.0.1", webhook_port=port, webhook_drain_seconds=DRAIN_SECONDS, profiles="webhook"
    )
    webhook = Webhook(settings, review, clock)
    assert webhook.drain_seconds == 0, "without a certificate it does not serve"
    pair = await AuthorityPairs().issue(["localhost"], datetime.now(UTC), timedelta(days=1))
    await webhook.use(pair.certificate, pair.key)
    assert webhook.drain_seconds == DRAIN_SECONDS
    tls = ssl.create_default_context(cadata=pair.authority)

    async def answers() -> bool:
        """By a new connection, as of an API server that did not ask before."""
        async with httpx2.AsyncClient(verify=tls, trust_env=False) as client:
            answer = await client.post(f"https://localhost:{port}/profiles", json={"asked": 1})
            return bool(answer.json() == {"response": {"asked": 1}})

    for _ in range(2):
        serving = asyncio.create_task(webhook())
        assert await answers()
        serving.cancel()
        assert await answers()
        await clock.advance(DRAIN_SECONDS - 0.1)
        assert await answers()
        assert not serving.done()
        await clock.advance(0.2)
        await asyncio.wait([serving])
        assert serving.cancelled()
        with pytest.raises(httpx2.ConnectError):
            await answers()

"""What an agent shows of itself over its few lines of HTTP."""

from __future__ import annotations

import asyncio
import socket

import pytest
from prometheus_client import CollectorRegistry, Gauge
from pydantic import SecretStr

from slackwater.agent.edge.exposition import exposing
from slackwater.agent.settings import AgentSettings
from slackwater.model.errors import Misconfigured

REGISTRY = CollectorRegistry()
Gauge("slackwater_probe_seconds", "A probe.", registry=REGISTRY).set(7)


async def answer(url: str, request: bytes) -> str:
    host, _, port = url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


async def test_a_scrape_gets_the_metrics_and_a_probe_its_word() -> None:
    async with exposing(AgentSettings(metrics_port=0), REGISTRY) as url:
        assert url is not None
        page = await answer(url, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert page.startswith("HTTP/1.1 200 OK\r\ncontent-type: text/plain")
        assert page.endswith("slackwater_probe_seconds 7.0\n")
        assert (await answer(url, b"GET /livez HTTP/1.0\r\n\r\n")).endswith("\r\n\r\nok\n")
        assert (await answer(url, b"HEAD /metrics HTTP/1.0\r\n\r\n")).endswith("\r\n\r\n")
        assert "404" in (await answer(url, b"GET / HTTP/1.0\r\n\r\n")).splitlines()[0]
        assert "405" in (await answer(url, b"POST /metrics HTTP/1.0\r\n\r\n")).splitlines()[0]
        assert await answer(url, b"x" * 20000) == ""


async def test_with_a_token_only_its_bearer_reads_the_metrics() -> None:
    async with exposing(AgentSettings(metrics_port=0, metrics_token=SecretStr("s3cret")), REGISTRY) as url:
        assert url is not None
        assert "401" in (await answer(url, b"GET /metrics HTTP/1.0\r\n\r\n")).splitlines()[0]
        wrong = await answer(url, b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer other\r\n\r\n")
        assert "401" in wrong.splitlines()[0]
        right = await answer(url, b"GET /metrics HTTP/1.0\r\nAuthorization: Bearer s3cret\r\n\r\n")
        assert "slackwater_probe_seconds 7.0" in right
        assert "200" in (await answer(url, b"GET /livez HTTP/1.0\r\n\r\n")).splitlines()[0]


async def test_it_listens_nowhere_unless_told_and_not_to_everybody_without_a_token() -> None:
    async with exposing(AgentSettings()) as url:
        assert url is None
    with pytest.raises(Misconfigured, match="METRICS_TOKEN"):
        async with exposing(AgentSettings(metrics_host="0.0.0.0", metrics_port=0)):  # noqa: S104 - refused
            pass


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Misconfigured, match="METRICS_PORT"):
            async with exposing(AgentSettings(metrics_port=taken.getsockname()[1])):
                pass

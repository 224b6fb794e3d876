"""The proxy does to a connection what it says, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.faults.proxy import Behaviour, Proxy, proxying


@asynccontextmanager
async def echo() -> AsyncIterator[Proxy]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with proxying(server.sockets[0].getsockname()[1]) as proxy:
        yield proxy
    server.close()


async def said(reader: asyncio.StreamReader, seconds: float) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(100), seconds)
    except TimeoutError:
        return b""


async def test_what_is_held_arrives_when_the_network_is_back() -> None:
    async with echo() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        assert await said(reader, 20) == b"one"
        for cut in (proxy.partition, proxy.half_open):
            cut()
            writer.write(b"two")
            assert await said(reader, 0.2) == b""
            proxy.heal()
            assert await said(reader, 20) == b"two"
        writer.close()


async def test_latency_delays_and_keeps_the_order() -> None:
    async with echo() as proxy:
        proxy.behaviour = Behaviour(latency_seconds=0.05, jitter_seconds=0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        began = asyncio.get_running_loop().time()
        for number in range(20):
            writer.write(b"%02d" % number)
            await writer.drain()
            await asyncio.sleep(0.001)
        whole = await asyncio.wait_for(reader.readexactly(40), 20)
        assert whole == b"".join(b"%02d" % number for number in range(20))
        assert asyncio.get_running_loop().time() - began >= 0.1
        writer.close()


async def test_a_reset_is_felt() -> None:
    async with echo() as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"one")
        await said(reader, 20)
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(10), 20)
        writer.close()

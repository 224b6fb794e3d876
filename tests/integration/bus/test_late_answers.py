"""A late answer to a ping ends nothing."""

from __future__ import annotations

import asyncio

from nats.aio.msg import Msg

from slackwater.bus.connect.connections import Connector


async def test_a_flush_that_was_given_up_does_not_deafen_its_connection(nats_url: str) -> None:
    client = await Connector(nats_url, "test", {}, 60.0).dial()
    try:
        given_up: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        await client._send_ping(given_up)
        given_up.cancel()
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def hear(message: Msg) -> None:
            heard.put_nowait(message.data)

        await client.subscribe("late.answers", cb=hear)
        await client.publish("late.answers", b"still here")
        async with asyncio.timeout(60):
            assert await heard.get() == b"still here"
            await client.flush()
    finally:
        await client.close()

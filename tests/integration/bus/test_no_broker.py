"""A server that says nothing that a broker says, as one that is being killed; a broker that ends the connection."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlparse

from nats.aio.client import Srv
from nats.errors import Error as NatsError

from slackwater.bus.connect.nats_client import SteadyClient


async def test_no_attempt_leaves_the_socket_of_the_one_before_open() -> None:
    accepted: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(writer)

    client = SteadyClient()
    client.options["connect_timeout"] = 30
    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listener:
        server = Srv(urlparse(f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"))
        attempts = []
        for _ in range(2):
            await client._connect_to_server(server)
            attempts.append(client._transport._io_writer)  # type: ignore[union-attr]  # as nats-py names it
        assert [writer.is_closing() for writer in attempts] == [True, False]
        for writer in (attempts[1], *accepted):
            writer.close()


async def test_a_connection_that_the_broker_ends_for_what_was_sent_is_made_again(nats_url: str) -> None:
    client, errors = SteadyClient(), list[str]()

    async def note(error: Exception) -> None:
        errors.append(str(error))

    await client.connect(nats_url, error_cb=note, reconnect_time_wait=0, max_reconnect_attempts=-1)
    try:
        client._max_payload = 2**30  # the plain client would refuse it
        await client.publish("sw.any", bytes(2**21))
        async with asyncio.timeout(30):
            while client.stats["reconnects"] == 0:
                await asyncio.sleep(0.05)
            with contextlib.suppress(NatsError):
                await client.flush()
            assert any("maximum payload" in error.lower() for error in errors)
            subscription = await client.subscribe("sw.any")
            await client.publish("sw.any", b"small")
            assert (await subscription.next_msg(timeout=10)).data == b"small"
    finally:
        await client.close()

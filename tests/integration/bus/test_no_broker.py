"""A server that accepts a connection and says nothing that a broker says, as one does that is being killed."""

from __future__ import annotations

import asyncio
from urllib.parse import urlparse

from nats.aio.client import Srv

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

"""A process that a signal ends closes its connection before its broker stops: no loss is logged."""

from __future__ import annotations

import anyio

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.nats_bus import connect_bus


async def test_a_cancelled_block_closes_its_connection(nats_url: str) -> None:
    with anyio.CancelScope() as scope:
        async with connect_bus(nats_url, name="test", topology=load()) as bus:
            client = bus._client
            assert client.is_connected
            scope.cancel()
            await anyio.sleep_forever()
    assert client.is_closed
    assert client._transport is None or client._transport.at_eof() or client._io_writer.is_closing()

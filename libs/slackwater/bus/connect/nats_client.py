"""A NATS client that survives late answers and malformed bytes."""

from __future__ import annotations

import asyncio
from typing import Any

from nats.aio.client import Client


class SteadyClient(Client):
    """Keeps reading where the plain client (nats-py 2.16) raises and the connection stops
    receiving.

    That happens for a pong without a waiting ping (a cancelled flush or drain), and for subjects
    and header blocks that are not UTF-8: a client that may publish on one subject with a wildcard
    part could silence every reader, again at each redelivery. Such bytes are read as `?`; decoding
    then refuses the message.
    """

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except UnicodeDecodeError:
            return await super()._process_headers(_readable(headers))

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Any:
        if not subject.isascii():
            subject = _readable(subject)
        return super()._build_message(sid, subject, reply, data, headers)


def _readable(text: bytes) -> bytes:
    return bytes(text).decode("ascii", "replace").encode("ascii", "replace")

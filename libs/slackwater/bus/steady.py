"""A NATS client that goes on reading whatever comes: late answers, and bytes that no client of ours would send."""

from __future__ import annotations

import asyncio
from typing import Any

from nats.aio.client import Client


class SteadyClient(Client):
    """What the plain client (nats-py 2.16) raises in the middle of its reading ends the reading, and the connection is
    deaf from then on. It does so for an answer to a ping that nobody waits for any more (a flush or a drain that was
    given up), and for subjects and header blocks that are no UTF-8: whoever may publish on one subject with a free part
    would silence every reader of it, again at each redelivery. Such bytes are read as `?`; the message is refused where
    it is decoded."""

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

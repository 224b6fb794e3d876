"""A NATS client that goes on reading when an answer comes that nobody waits for any more."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client


class SteadyClient(Client):
    """Whoever waits for a flush, or for a subscription to drain, may give up: the ping is out, and its answer comes.
    The plain client (nats-py 2.16) raises then in the middle of its reading and reads no more; only half a minute
    later, when pings of its own have gone unanswered, it connects again."""

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

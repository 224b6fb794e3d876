"""Holds agents off the broker that flood it.

The broker has no rates of accounts. It says what each has sent ($SYS.REQ.ACCOUNT.PING.STATZ): that is asked for several
times a second, and an account that sends more than any agent has reason to may have no connection for a while.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from pydantic_core import from_json

from slackwater.bus.access.authority import ACCOUNTS_TRAFFIC, SYSTEM_USER
from slackwater.bus.access.floods import FloodWatch, Holds, Traffic
from slackwater.bus.codec.cloudevents import text_of_token
from slackwater.bus.connect.access import agent_user, inbox_of
from slackwater.bus.connect.connections import stopped
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

ASK_SECONDS, ASK_SECONDS_PER_ACCOUNT = 0.25, 0.001
"""Between two questions. With 10,000 connected accounts an answer has 4 MB, read in 75 ms (in 165 ms by `json`)."""
_PREFIX = agent_user("")
_log = get_logger(__name__)


class FloodGuard:
    """Asks through `system`, a connection of the broker's system account. `store` changes the account of a node's agent
    according to `holds`; it raises Unavailable.
    """

    def __init__(
        self,
        system: Client,
        holds: Holds,
        store: Callable[[str], Awaitable[None]],
        metrics: BusMetrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._system = system
        self._holds = holds
        self._store = store
        self._metrics = metrics
        self._now = now
        self._watch = FloodWatch()
        self._accounts = 0
        self._inbox = f"{inbox_of(SYSTEM_USER)}.traffic"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask, hold and let in again while the context is open."""
        subscription = await self._system.subscribe(self._inbox, cb=self._read)
        task = asyncio.create_task(self._ask())
        try:
            yield
        finally:
            await stopped(task)
            with suppress(NatsError, OSError):
                await subscription.unsubscribe()

    async def _ask(self) -> None:
        while True:
            with suppress(NatsError, OSError):  # connects again by itself
                await self._system.publish(ACCOUNTS_TRAFFIC, b"{}", reply=self._inbox)
            for account in self._holds.over(self._now()):
                if await self._changed(account):
                    self._holds.let_in(account)
                    self._watch.drop(account)
                    _log.info("an agent may connect again", node=_node_of(account))
            await asyncio.sleep(max(ASK_SECONDS, ASK_SECONDS_PER_ACCOUNT * self._accounts))

    async def _read(self, message: Msg) -> None:
        """Handle the answer of one server: each of a cluster counts its own clients."""
        try:
            answer = from_json(message.data)
            server = answer["server"]["id"]
            counted = {
                account["name"]: Traffic(account["received"]["msgs"], account["received"]["bytes"])
                for account in answer["data"]["account_statz"] or ()
                if account["name"].startswith(_PREFIX)
            }
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("the broker does not say what agents send", error=repr(error))
            return
        self._accounts = len(counted)
        for flood in self._watch.floods(server, counted, self._now()):
            node, is_new = _node_of(flood.account), self._holds.of(flood.account, self._now()) is None
            hold = self._holds.begin(flood, self._now())
            if is_new:
                self._metrics.held.labels(self._metrics.node_label(node)).inc()
                _log.warning(
                    "an agent floods and is held off the broker", node=node, seconds=hold.seconds, sent=hold.reason
                )
            await self._changed(flood.account)

    async def _changed(self, account: str) -> bool:
        try:
            await self._store(_node_of(account))
        except Unavailable as error:
            _log.warning("access of an agent not changed yet", node=_node_of(account), error=error.message)
            return False
        return True


def _node_of(account: str) -> str:
    return text_of_token(account.removeprefix(_PREFIX))

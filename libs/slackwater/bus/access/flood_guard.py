"""Holds agents off the broker that flood it, or keep it busy without messages.

The broker has no rates of accounts. It says what each has sent ($SYS.REQ.ACCOUNT.PING.STATZ), which of its connections
have most to send and were active last ($SYS.REQ.SERVER.PING.CONNZ), and each new connection: that is asked for several
times a second, and an account that does more than any agent has reason to may have no connection for a while.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from pydantic_core import from_json

from slackwater.bus.access.authority import ACCOUNTS_TRAFFIC, CONNECTIONS, NEW_CONNECTIONS, SYSTEM_USER
from slackwater.bus.access.churn import AgentConnection, ChurnWatch
from slackwater.bus.access.floods import FloodWatch, HoldCause, Holds, Traffic
from slackwater.bus.codec.cloudevents import text_of_token
from slackwater.bus.connect.access import agent_user, inbox_of
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

ASK_SECONDS, ASK_SECONDS_PER_ACCOUNT = 0.25, 0.001
"""Between two questions. With 10,000 connected accounts an answer has 4 MB, read in 75 ms (in 165 ms by `json`)."""
_MOST_LISTED: Final = 32
"""Connections in an answer: those of an account that does work without messages are among the first."""
_QUESTIONS: Final = tuple(
    json.dumps({"sort": order, "limit": _MOST_LISTED, "auth": True}).encode() for order in ("pending", "last")
)
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
        self._churn = ChurnWatch()
        self._accounts = 0
        self._inbox = f"{inbox_of(SYSTEM_USER)}.traffic"
        self._listed = f"{inbox_of(SYSTEM_USER)}.connections"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask, hold and let in again while the context is open."""
        async with AsyncExitStack() as stack:
            for subject, read in (
                (self._inbox, self._read),
                (self._listed, self._read_connections),
                (NEW_CONNECTIONS, self._read_connected),
            ):
                subscription = await self._system.subscribe(subject, cb=read)
                stack.push_async_callback(_ended, subscription)
            task = asyncio.create_task(self._ask())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.wait([task])

    async def _ask(self) -> None:
        while True:
            with suppress(NatsError, OSError):  # connects again by itself
                await self._system.publish(ACCOUNTS_TRAFFIC, b"{}", reply=self._inbox)
                for question in _QUESTIONS:
                    await self._system.publish(CONNECTIONS, question, reply=self._listed)
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
                account["name"]: Traffic(
                    account["received"]["msgs"], account["received"]["bytes"] + account["sent"]["bytes"]
                )
                for account in answer["data"]["account_statz"] or ()
                if account["name"].startswith(_PREFIX)
            }
        except (ValueError, KeyError, TypeError) as error:
            _log.warning("the broker does not say what agents send", error=repr(error))
            return
        self._accounts = len(counted)
        for flood in self._watch.floods(server, counted, self._now()):
            await self._hold(flood)

    async def _read_connections(self, message: Msg) -> None:
        """Handle the answer of one server: the connections that have most to send, or were active last."""
        try:
            answer = from_json(message.data)
            server = answer["server"]["id"]
            connections = [
                _connection(connection)
                for connection in answer["data"]["connections"] or ()
                if connection.get("name_tag", "").startswith(_PREFIX)
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("the broker does not say what its connections do", error=repr(error))
            return
        for churn in self._churn.churning(server, connections, self._now()):
            await self._hold(churn)

    async def _read_connected(self, message: Msg) -> None:
        """Count a new connection."""
        try:
            account = from_json(message.data)["client"]["name_tag"]
        except (ValueError, KeyError, TypeError):
            return  # of an account without a name
        churn = self._churn.connected(account, self._now()) if account.startswith(_PREFIX) else None
        if churn is not None:
            await self._hold(churn)

    async def _hold(self, cause: HoldCause) -> None:
        node, is_new = _node_of(cause.account), self._holds.of(cause.account, self._now()) is None
        hold = self._holds.begin(cause, self._now())
        if is_new:
            self._metrics.held.labels(self._metrics.node_label(node)).inc()
            _log.warning(
                "an agent floods and is held off the broker", node=node, seconds=hold.seconds, reason=hold.reason
            )
        await self._changed(cause.account)

    async def _changed(self, account: str) -> bool:
        try:
            await self._store(_node_of(account))
        except Unavailable as error:
            _log.warning("access of an agent not changed yet", node=_node_of(account), error=error.message)
            return False
        return True


def _connection(connection: Mapping[str, Any]) -> AgentConnection:
    return AgentConnection(
        connection["cid"],
        connection["name_tag"],
        connection["in_msgs"],
        connection["out_msgs"],
        connection["out_bytes"],
        connection["pending_bytes"],
        datetime.fromisoformat(connection["last_activity"]),
    )


async def _ended(subscription: Subscription) -> None:
    with suppress(NatsError, OSError):
        await subscription.unsubscribe()


def _node_of(account: str) -> str:
    return text_of_token(account.removeprefix(_PREFIX))

"""Bounds what one ticket takes of the account of agents without access, which all tickets share.

The broker has no limits of single users. It is asked each second which connections the account has: a ticket with too
many is revoked for a minute, which ends them, and a connection of a cluster's ticket is closed. When a revocation ends
is its time at the broker, so that each replica of the issuer, and one that starts, knows it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from pydantic_core import from_json

from slackwater.bus.access.accounts import ENROLMENT
from slackwater.bus.access.authority import (
    SYSTEM_USER,
    AccessAuthority,
    account_connections,
    claims_lookup,
    kick,
)
from slackwater.bus.access.issuer import UPDATE_SECONDS, store_account
from slackwater.bus.access.ticket_floods import TicketConnection, excess_of
from slackwater.bus.access.tokens import claims_of
from slackwater.bus.codec.cloudevents import text_of_token
from slackwater.bus.connect.access import inbox_of
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.telemetry.logs import get_logger

ASK_SECONDS = 1.0
HOLD_SECONDS = 60.0
_QUESTION = json.dumps({"auth": True}).encode()
_log = get_logger(__name__)


class TicketGuard:
    """Asks through `system`, a connection of the broker's system account. Each change of the account is made from the
    one before: `changes` is held meanwhile.
    """

    def __init__(
        self,
        authority: AccessAuthority,
        system: Client,
        metrics: BusMetrics,
        changes: asyncio.Lock,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._authority = authority
        self._system = system
        self._metrics = metrics
        self._now = now
        self._account = authority.account(ENROLMENT).public
        self._inbox = f"{inbox_of(SYSTEM_USER)}.tickets"
        self._ignored = f"{inbox_of(SYSTEM_USER)}.ignored"
        self._ends_at: float | None = 0.0
        """When the first revocation ends; None: there is none. At the start a former process may have left some."""
        self._changes = changes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ask, revoke and let in again while the context is open."""
        subscription = await self._system.subscribe(self._inbox, cb=self._read)
        task = asyncio.create_task(self._ask())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            with suppress(NatsError, OSError):
                await subscription.unsubscribe()

    async def _ask(self) -> None:
        while True:
            with suppress(NatsError, OSError):  # connects again by itself
                await self._system.publish(account_connections(self._account), _QUESTION, reply=self._inbox)
            if self._ends_at is not None and self._ends_at <= self._now():
                async with self._changes:
                    await self._store({})
            await asyncio.sleep(ASK_SECONDS)

    async def _read(self, message: Msg) -> None:
        """Handle the answer of one server."""
        try:
            answer = from_json(message.data)
            server, data = answer["server"]["id"], answer["data"]
            at = datetime.fromisoformat(data["now"])
            excess = excess_of([_connection(connection, at) for connection in data["connections"]])
        except (ValueError, KeyError, TypeError, Misconfigured) as error:
            _log.warning("the broker does not say which connections have tickets", error=repr(error))
            return
        if excess.tickets:
            await self._refuse(excess.tickets)
        with suppress(NatsError, OSError):
            for number in excess.connections:
                body = json.dumps({"cid": number}).encode()
                await self._system.publish(kick(server), body, reply=self._ignored)  # without one nothing is done

    async def _refuse(self, tickets: Mapping[str, tuple[str, str]]) -> None:
        until = int(self._now() + HOLD_SECONDS)
        async with self._changes:
            is_stored = await self._store(dict.fromkeys(tickets, until))
        for name, reason in tickets.values() if is_stored else ():
            node = text_of_token(name)
            self._metrics.held.labels(self._metrics.node_label(node)).inc()
            _log.warning("a ticket is refused for a while", node=node, seconds=HOLD_SECONDS, reason=reason)

    async def _store(self, tickets: Mapping[str, int]) -> bool:
        """Revoke these tickets, too, and let those in whose time is over. Returns whether the broker has it so."""
        try:
            stored = await self._system.request(claims_lookup(self._account), timeout=UPDATE_SECONDS)
            account = stored.data.decode("ascii", "replace")
            changed = self._authority.with_refused_tickets(account, tickets)
            revoked = claims_of(changed)["nats"].get("revocations") or {}
            if changed != account:
                await store_account(self._system, changed)
        except (Unavailable, Misconfigured, NatsError, TimeoutError, OSError) as error:
            _log.warning("access with tickets is not changed yet", error=repr(error))
            return False
        self._ends_at = min(revoked.values(), default=None)
        return True


def _connection(connection: Mapping[str, Any], at: datetime) -> TicketConnection:
    ticket = claims_of(connection["jwt"])
    opened = (at - datetime.fromisoformat(connection["start"])).total_seconds()
    address, messages = connection["ip"], connection["in_msgs"]
    return TicketConnection(connection["cid"], ticket["sub"], ticket["name"], address, messages, opened)

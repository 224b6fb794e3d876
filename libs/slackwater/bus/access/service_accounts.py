"""Puts in force what a running nats-server has read from its configuration.

On SIGHUP the server stores the accounts of its configuration, and goes on with those it has in memory: only an update
through its system account changes these, and only where it differs from what is stored.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client
from nats.errors import Error as NatsError

from slackwater.bus.access.accounts import ENROLMENT
from slackwater.bus.access.authority import AccessAuthority, account_info, claims_lookup
from slackwater.bus.access.issuer import store_account
from slackwater.bus.access.tokens import claims_of
from slackwater.bus.admin.permissions import CONTROL
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.telemetry.logs import get_logger

CHECK_SECONDS = 5.0
_log = get_logger(__name__)


class ServiceAccounts:
    """Compares the stored accounts of services and enrolments with those the broker has in memory, through its system
    account. `changes` is held meanwhile: a ticket refused between the two answers would be let in again.
    """

    def __init__(self, authority: AccessAuthority, system: Client, changes: asyncio.Lock) -> None:
        self._authority = authority
        self._system = system
        self._changes = changes

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Compare while the context is open."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            await self.put_in_force()
            await asyncio.sleep(CHECK_SECONDS)

    async def put_in_force(self) -> None:
        """Compare once. Errors are logged."""
        for name in (CONTROL, ENROLMENT):
            try:
                async with self._changes:
                    await self._put_in_force(name)
            except (Unavailable, NatsError, TimeoutError, OSError, ValueError, KeyError) as error:
                _log.info("accounts of services are not compared", account=name, error=repr(error))
            except Misconfigured as error:
                _log.error("the broker has an account that its authority did not sign", reason=error.message)

    async def _put_in_force(self, name: str) -> None:
        account = self._authority.account(name).public
        stored = await self._system.request(claims_lookup(account), timeout=CHECK_SECONDS)
        answer = await self._system.request(account_info(account), timeout=CHECK_SECONDS)
        token, in_memory = stored.data.decode("ascii", "replace"), json.loads(answer.data)["data"]
        if in_memory is None:  # read when its first user connects
            return
        if claims_of(token)["nats"] != claims_of(in_memory["jwt"])["nats"]:  # each update interrupts the clients
            await store_account(self._system, self._authority.signed_again(token))
            _log.info("account of the broker is in force", account=name)

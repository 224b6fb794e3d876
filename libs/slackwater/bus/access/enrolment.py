"""How an agent gets credentials of its own and renews them. The key never leaves its machine."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError

from slackwater.bus.access.accounts import CLUSTER, enrolment_inbox
from slackwater.bus.access.keys import KeyKind, NatsKey
from slackwater.bus.access.requests import AccessRequest, parse_answer
from slackwater.bus.access.tokens import UserCredentials
from slackwater.bus.admin.permissions import ENROL, REVIEW
from slackwater.bus.connect.access import AGENT_API_PREFIX, NatsAccess, read_credentials
from slackwater.bus.connect.connections import Connector, ended
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.events.envelope import subject_token
from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.runtime.owned_files import write_atomically
from slackwater.telemetry.logs import get_logger

REQUEST_SECONDS = 5.0
CHECK_SECONDS = 10.0
FILE = "nats.creds"
_log = get_logger(__name__)


class Enrolment:
    """Credentials of one agent, kept in its state directory."""

    def __init__(
        self,
        access: NatsAccess,
        url: str,
        node: str,
        state_dir: Path,
        *,
        now: Callable[[], float] = time.time,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        self._given = access
        self._url = url
        self._node = node
        self._file = state_dir / FILE
        self._now = now
        self._check_seconds = check_seconds
        own = {"credentials_file": self._file, "enrolment_file": None, "api_prefix": AGENT_API_PREFIX}
        self.access = access.model_copy(update=own)
        """The access with the agent's own credentials; valid after `obtain`."""

    def check(self) -> None:
        """Raises Misconfigured for an enrolment that cannot work."""
        self._enrolment_access().options(self._url)

    async def obtain(self) -> None:
        """Get new credentials. If that is not possible now, the last ones are used while they are valid.

        Raises Unavailable without any, Misconfigured.
        """
        try:
            await self._enrol()
        except Unavailable as error:
            last = self._last()
            if last is None or (last.expires_at or 0) <= self._now():
                raise
            _log.warning("credentials are not renewed yet", error=error.message)

    async def renew(self, client: Client) -> None:
        """Renew the credentials through the agent's own connection. Raises Unavailable."""
        await self._request(client, f"{ENROL}.{subject_token(self._node)}", "")

    @asynccontextmanager
    async def renewing(self, client: Client) -> AsyncIterator[None]:
        """Renew what is due while the context is open. A connection that stays away asks again as at the start."""
        task = asyncio.create_task(self._keep(client))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _keep(self, client: Client) -> None:
        while True:
            await asyncio.sleep(self._check_seconds * random.uniform(0.5, 1.5))
            try:
                if not client.is_connected:
                    await self._enrol()
                elif self._is_due():
                    await self.renew(client)
            except (Unavailable, Misconfigured) as error:
                _log.warning("credentials are not renewed yet", error=error.message)

    def _is_due(self) -> bool:
        last = self._last()
        if last is None or last.expires_at is None:
            return True
        return self._now() > last.issued_at + (last.expires_at - last.issued_at) / 3

    def _last(self) -> UserCredentials | None:
        try:
            last = read_credentials(self._file)
        except Misconfigured:
            return None
        return last

    def _enrolment_access(self) -> NatsAccess:
        return self._given.model_copy(update={"credentials_file": self._given.enrolment_file, "enrolment_file": None})

    async def _enrol(self) -> None:
        access = self._enrolment_access()
        name = read_credentials(access.credentials_file, "SLACKWATER_NATS_ENROLMENT_FILE").name  # type: ignore[arg-type]
        proof = access.options(self._url) | {"inbox_prefix": enrolment_inbox(name)}
        client = await Connector(self._url, f"enrolment-{self._node}", proof, REQUEST_SECONDS).dial()
        try:
            if name == CLUSTER:
                await self._request(client, REVIEW, self._identity())
            else:
                await self.renew(client)
        finally:
            await ended(client)

    def _identity(self) -> str:
        file = self._given.identity_file
        if file is None:
            raise Misconfigured("SLACKWATER_NATS_IDENTITY_FILE: is needed with this enrolment", field="identity_file")
        try:
            return file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"SLACKWATER_NATS_IDENTITY_FILE: {file}: {error}") from None

    async def _request(self, client: Client, subject: str, identity: str) -> None:
        key = NatsKey.generate(KeyKind.USER)
        request = AccessRequest(node=self._node, public_key=key.public, identity=identity)
        try:
            answered = await client.request(subject, request.model_dump_json().encode(), timeout=REQUEST_SECONDS)
        except (NatsError, TimeoutError) as error:
            raise Unavailable(f"no service issues credentials: {str(error) or repr(error)}") from error
        answer = parse_answer(answered.data)
        if not answer.token:
            raise Unavailable(f"no credentials for the agent of {self._node}: {answer.error}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._file, UserCredentials(answer.token, key).text)
        except OSError as error:  # a full disk must not end the renewals
            raise Unavailable(f"credentials cannot be kept in {self._file}: {error.strerror}") from error


@asynccontextmanager
async def connect_enrolled(enrolment: Enrolment, url: str, *, name: str, wait_seconds: float) -> AsyncIterator[NatsBus]:
    """Yields an agent's bus with credentials that are renewed. Raises Unavailable, Misconfigured."""
    await enrolment.obtain()
    async with (
        connect_bus(url, name=name, declares=False, wait_seconds=wait_seconds, access=enrolment.access) as bus,
        enrolment.renewing(bus.client),
    ):
        yield bus

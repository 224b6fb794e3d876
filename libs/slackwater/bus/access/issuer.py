"""Gives agents signed credentials, and revokes those of agents that are blocked, or held for a flood.

Each request stores the account of its agent at the broker, so that a broker that lost its store, and an agent whose
subjects have changed, get the present one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from slackwater.bus.access.authority import CLAIMS_UPDATE, SYSTEM_USER, AccessAuthority
from slackwater.bus.access.floods import MOST_ACCOUNTS, Holds
from slackwater.bus.access.requests import AccessAnswer, parse_request
from slackwater.bus.admin.permissions import ENROL, PartSubjects
from slackwater.bus.connect.access import NatsAccess, agent_user, inbox_of
from slackwater.bus.connect.connections import CONNECT_SECONDS, Connector, ended
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.token_buckets import TokenBuckets
from slackwater.events.envelope import subject_token
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.telemetry.logs import get_logger

REVOKE_SECONDS = 1.0
UPDATE_SECONDS = 5.0
QUEUE = "issuer"
MOST_WAITING = 16_384
"""Requests that wait for their turn; 10,000 agents may ask at once after an outage. What is above has no answer."""
REQUESTS_AT_ONCE, REQUEST_SECONDS = 10, 5.0
"""Per node: the burst, then one request in REQUEST_SECONDS; what is above has no answer. An agent asks at its start,
each day, and once in ten seconds while it is not connected. A request costs a signature and an account at the broker.
"""
_log = get_logger(__name__)


@asynccontextmanager
async def connect_system(url: str, access: NatsAccess, authority: AccessAuthority) -> AsyncIterator[Client]:
    """Yields a connection that may change accounts of the broker. Raises Unavailable, Misconfigured."""
    credentials = authority.issuer_credentials()
    proof = access.options(url) | {
        "user_jwt_cb": lambda: bytearray(credentials.token.encode()),
        "signature_cb": credentials.answer,
        "inbox_prefix": inbox_of(SYSTEM_USER),
    }
    client = await Connector(url, "issuer", proof, CONNECT_SECONDS).dial()
    try:
        yield client
    finally:
        await ended(client)


async def store_account(system: Client, account: str, timeout_seconds: float = UPDATE_SECONDS) -> None:
    """Store a signed account at the broker. Raises Unavailable without an answer, or with one that refuses it."""
    try:
        answer = json.loads((await system.request(CLAIMS_UPDATE, account.encode(), timeout=timeout_seconds)).data)
    except (NatsError, TimeoutError, OSError, ValueError) as error:
        raise Unavailable(f"the broker does not answer: {error!r}") from error
    if "error" in answer:
        raise Unavailable(f"the broker refused an account: {answer['error'].get('description')}")


class AccessIssuer:
    """Answers on `client`, and changes accounts through `system`, a connection of the broker's system account."""

    def __init__(
        self,
        authority: AccessAuthority,
        agent: PartSubjects,
        client: Client,
        system: Client,
        blocks: Callable[[], Blocks],
        holds: Holds,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authority = authority
        self._agent = agent
        self._client = client
        self._system = system
        self._blocks = blocks
        self._holds = holds
        self._now = now
        self._requests = TokenBuckets[str](REQUESTS_AT_ONCE, REQUEST_SECONDS, MOST_ACCOUNTS)
        self._stored: dict[str, datetime] = {}
        """When the block changed that the stored account of a node has."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests and revoke access while the context is open."""
        subscription = await self._client.subscribe(
            f"{ENROL}.*", queue=QUEUE, cb=self._answer, pending_msgs_limit=MOST_WAITING
        )
        task = asyncio.create_task(self._revoke())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            with suppress(NatsError, OSError):
                await subscription.unsubscribe()

    async def _answer(self, message: Msg) -> None:
        if not self._requests.acquire(message.subject, self._now()):  # the subject proves the node
            refused = self._requests.refused(message.subject)
            if refused is not None and refused.count == 1:
                _log.warning("an agent asks for access too often", subject=message.subject)
            return
        self._requests.settle(message.subject)
        try:
            answer = AccessAnswer(token=await self.issue(message.subject, message.data))
        except (InvalidInput, Unavailable) as error:
            _log.warning("no credentials for an agent", subject=message.subject, error=error.message)
            answer = AccessAnswer(error=error.message[:500])
        if message.reply:
            with suppress(NatsError):
                await message.respond(answer.model_dump_json().encode())

    async def issue(self, subject: str, body: bytes) -> str:
        """Returns a token for the node that the subject proves.

        Raises InvalidInput for a request of another node, a blocked or a held one, Unavailable if the account is not
        stored.
        """
        request = parse_request(body)
        if subject != f"{ENROL}.{subject_token(request.node)}":
            raise InvalidInput("node: is not the one that the request proves", field="node")
        block = self._blocks().last(request.node)
        if block is not None and block.blocked:
            raise InvalidInput(f"the agent of {request.node} is blocked: {block.reason}", field="node")
        hold = self._holds.of(agent_user(request.node), self._now())
        if hold is not None:
            raise InvalidInput(
                f"the agent of {request.node} is held off the broker for {hold.until - self._now():.0f} s: it sent "
                f"{hold.reason}",
                field="node",
            )
        await self.store(request.node)
        return self._authority.agent_token(request.node, request.public_key)

    async def _revoke(self) -> None:
        while True:
            for node in self._blocks().nodes():
                block = self._blocks().last(node)
                if block is not None and self._stored.get(node) != block.since:
                    try:
                        await self.store(node)
                    except Unavailable as error:
                        _log.warning("access of an agent not changed yet", node=node, error=error.message)
            await asyncio.sleep(REVOKE_SECONDS)

    async def store(self, node: str) -> None:
        """Store the present account of the agent of a node. Raises Unavailable."""
        block = self._blocks().last(node)
        is_held = self._holds.of(agent_user(node), self._now()) is not None
        account = self._authority.agent_account(self._agent, node, block, is_held=is_held)
        await store_account(self._system, account)
        if block is not None:
            self._stored[node] = block.since

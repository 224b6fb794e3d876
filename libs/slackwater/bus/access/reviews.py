"""Proves the node of an agent by a token of its cluster, and has credentials issued for that node alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from slackwater.bus.access.accounts import ENROLMENT_CONNECTIONS
from slackwater.bus.access.requests import AccessAnswer, AccessRequest, parse_request
from slackwater.bus.admin.permissions import ENROL, REVIEW
from slackwater.events.envelope import subject_token
from slackwater.model.errors import InvalidInput, SlackwaterError
from slackwater.telemetry.logs import get_logger

ISSUE_SECONDS = 5.0
QUEUE = "review"
MOST_WAITING = ENROLMENT_CONNECTIONS
"""Requests that wait for their turn: one for each connection of agents without access. What is above has no answer, so
that a flood delays others by these alone: a review asks the API server.
"""
Review = Callable[[str], Awaitable[str]]
"""Returns the node of a pod's token. Raises InvalidInput for one that is not an agent's, Unavailable."""
_log = get_logger(__name__)


class AgentReviews:
    """Answers requests of agents whose node a cluster proves."""

    def __init__(self, client: Client, review: Review) -> None:
        self._client = client
        self._review = review

    async def __call__(self) -> None:
        """Answer until it is cancelled."""
        subscription = await self._client.subscribe(
            REVIEW, queue=QUEUE, cb=self._answer, pending_msgs_limit=MOST_WAITING
        )
        try:
            await asyncio.Event().wait()
        finally:
            with suppress(NatsError, OSError):
                await subscription.unsubscribe()

    async def _answer(self, message: Msg) -> None:
        try:
            answer = await self._issued(parse_request(message.data))
        except (SlackwaterError, NatsError, TimeoutError) as error:
            _log.warning("an agent is not proved", error=str(error) or repr(error))
            text = str(error) if isinstance(error, SlackwaterError) else "no service issues access"
            answer = AccessAnswer(error=text[:500]).model_dump_json().encode()
        if message.reply:
            with suppress(NatsError):
                await message.respond(answer)

    async def _issued(self, request: AccessRequest) -> bytes:
        node = await self._review(request.identity)
        if node != request.node:
            raise InvalidInput("node: is not the one of the pod", field="node")
        body = request.model_copy(update={"identity": ""}).model_dump_json().encode()
        answer = await self._client.request(f"{ENROL}.{subject_token(node)}", body, timeout=ISSUE_SECONDS)
        return answer.data

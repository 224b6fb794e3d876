"""Watches which agents are blocked, for all consumers of one connection."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.deliveries import ReadDelivery
from slackwater.bus.consume.reader_tasks import ReaderTasks
from slackwater.bus.read.ordered_reader import OrderedReader, Start
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.envelope import Payload, subjects_of
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

BATCH = 500
LOAD_SECONDS = 30.0


class BlockWatch:
    """Loads the last block of every node and then follows changes into `blocks`. The first consumer
    that needs it starts it.
    """

    def __init__(
        self, client: Client, js: JetStreamContext, rounds: ReaderTasks, blocks: Blocks, unread: UnreadSubjects
    ) -> None:
        self._unread = unread
        self._js = js
        self._rounds = rounds
        self._blocks = blocks
        self._subjects = subjects_of(AgentBlockChanged)
        self._reader = OrderedReader(client, js, AgentBlockChanged.STREAM, [self._subjects], Start(None), BATCH)
        self._stack = AsyncExitStack()
        self._loaded = asyncio.Event()
        self._is_open = False

    async def load(self, payload: type[Payload]) -> None:
        """Start for a type that agents publish, and wait until the last values are known: no message of it may be
        handled earlier. Raises Unavailable.
        """
        if not payload.FROM_AGENT:
            return
        if not self._is_open:
            self._is_open = True
            await self._stack.enter_async_context(
                self._rounds.reading(f"watch of {AgentBlockChanged.TYPE}", self._work, self._reader)
            )
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await self._loaded.wait()
        except TimeoutError:
            raise Unavailable("which agents are blocked is not known: the broker does not answer") from None

    async def close(self) -> None:
        await self._stack.aclose()

    async def _work(self) -> bool:
        if not self._loaded.is_set() and not await self._is_any():
            self._loaded.set()
        messages = await self._reader.next()
        for message in messages:
            self._note(message)
        if self._reader.idle or (messages and ReadDelivery(messages[-1]).pending == 0):
            self._loaded.set()
        return bool(messages)

    async def _is_any(self) -> bool:
        """Returns whether the stream holds a value of any node. Without one, the first read would
        wait for a long time.
        """
        try:
            info = await self._js.stream_info(AgentBlockChanged.STREAM, subjects_filter=self._subjects)
        except NotFoundError:
            return False
        return bool(info.state.subjects)

    def _note(self, message: Msg) -> None:
        found = Message(message.subject, message.headers or {}, message.data)
        event = self._unread.decoded(AgentBlockChanged, found)
        if event is None:
            return
        self._blocks.note(event.data)
        log.info("agent block", node=event.data.node, blocked=event.data.blocked, by=event.data.changed_by)

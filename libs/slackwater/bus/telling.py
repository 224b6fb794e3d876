"""What is told and kept by nobody: it is heard by those who listen at that moment, and decoded once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from slackwater.bus.decoding import decode_message
from slackwater.bus.encoding import Message, Undecodable, encode
from slackwater.events.envelope import Event, Told, told_subjects
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

T = TypeVar("T", bound=Told)
Handler = Callable[[Event[T]], Awaitable[None]]

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class Ear(Generic[T]):
    """All who listen to one subject in this process."""

    payload: type[T]
    handlers: dict[object, Handler[T]] = field(default_factory=dict)

    async def take(self, message: Message) -> None:
        """Everybody hears it, whatever becomes of it with another. What cannot be read reaches nobody."""
        try:
            event = decode_message(message.subject, self.payload, message.headers, message.body)
        except (Undecodable, Unavailable) as error:
            log.warning("told message skipped", type=self.payload.TYPE, subject=message.subject, error=error.message)
            return
        for handler in tuple(self.handlers.values()):
            try:
                await handler(event)
            except Exception:
                log.exception("who was told failed", type=self.payload.TYPE, subject=message.subject)

    async def received(self, message: Msg) -> None:
        """The same as the client hands it out."""
        await self.take(Message(message.subject, message.headers or {}, message.data))


class Telling:
    """Telling and hearing over one connection. A subscription outlives reconnects; what is told meanwhile is missed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ears: dict[str, tuple[Ear[Any], Subscription]] = {}
        self._listening = asyncio.Lock()

    async def tell(self, event: Event[Any]) -> None:
        """Raises Unavailable without a connection: what is said later would not be true any more."""
        message = encode(event)
        if not self._client.is_connected:
            raise Unavailable(f"not connected to NATS: {message.subject} was not told")
        try:
            await self._client.publish(message.subject, message.body, headers=dict(message.headers))
        except NatsError as error:
            raise Unavailable(f"{message.subject} was not told: {error!r}") from error

    @asynccontextmanager
    async def hear(self, payload: type[T], handler: Handler[T], partition: int) -> AsyncIterator[None]:
        """Raises Unavailable where the connection is closed for good."""
        subject = told_subjects(payload, partition)
        async with self._listening:
            if subject not in self._ears:
                self._ears[subject] = await self._listen(payload, subject)
            ear, subscription = self._ears[subject]
            me = object()
            ear.handlers[me] = handler
        try:
            yield
        finally:
            del ear.handlers[me]
            if not ear.handlers:
                del self._ears[subject]
                with suppress(NatsError):  # closed meanwhile
                    await subscription.unsubscribe()

    async def _listen(self, payload: type[T], subject: str) -> tuple[Ear[T], Subscription]:
        ear = Ear(payload)
        try:
            return ear, await self._client.subscribe(subject, cb=ear.received)
        except NatsError as error:
            raise Unavailable(f"{subject} cannot be heard: {error!r}") from error

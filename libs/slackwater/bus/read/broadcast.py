"""Broadcasts that are not stored: delivered to current subscribers, decoded once per process."""

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

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.events.envelope import BroadcastPayload, Event, broadcast_subjects
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

T = TypeVar("T", bound=BroadcastPayload)
Handler = Callable[[Event[T]], Awaitable[None]]

log = get_logger(__name__)


@dataclass(slots=True, eq=False)
class BroadcastSubscription(Generic[T]):
    """All local subscribers of one subject."""

    payload: type[T]
    unread: UnreadSubjects
    handlers: dict[object, Handler[T]] = field(default_factory=dict)

    async def deliver(self, message: Message) -> None:
        """Deliver a message to every subscriber; one that fails does not affect the others. An
        undecodable message is skipped.
        """
        try:
            event = self.unread.decoded(self.payload, message)
        except Unavailable as error:
            log.warning("broadcast skipped", type=self.payload.TYPE, subject=message.subject, error=error.message)
            return
        if event is None:
            return
        for handler in tuple(self.handlers.values()):
            try:
                await handler(event)
            except Exception:
                log.exception("broadcast subscriber failed", type=self.payload.TYPE, subject=message.subject)

    async def received(self, message: Msg) -> None:
        """Deliver a message of the NATS client."""
        await self.deliver(Message(message.subject, message.headers or {}, message.data))


class Broadcasts:
    """Broadcast and subscribe over one connection. A subscription survives reconnects but misses
    messages sent meanwhile.
    """

    def __init__(self, client: Client, unread: UnreadSubjects) -> None:
        self._client = client
        self._unread = unread
        self._subscriptions: dict[str, tuple[BroadcastSubscription[Any], Subscription]] = {}
        self._lock = asyncio.Lock()

    async def broadcast(self, event: Event[Any]) -> None:
        """Broadcast an event. Raises Unavailable without a connection: a later broadcast would be
        stale.
        """
        message = encode(event)
        if not self._client.is_connected:
            raise Unavailable(f"not connected to NATS: {message.subject} was not broadcast")
        try:
            await self._client.publish(message.subject, message.body, headers=dict(message.headers))
        except NatsError as error:
            raise Unavailable(f"{message.subject} was not broadcast: {error!r}") from error

    @asynccontextmanager
    async def subscribe(self, payload: type[T], handler: Handler[T], partition: int) -> AsyncIterator[None]:
        """Subscribe while the context is open. Raises Unavailable when the connection is closed for
        good.
        """
        subject = broadcast_subjects(payload, partition)
        async with self._lock:
            if subject not in self._subscriptions:
                self._subscriptions[subject] = await self._subscribe(payload, subject)
            local, subscription = self._subscriptions[subject]
            key = object()
            local.handlers[key] = handler
        try:
            yield
        finally:
            del local.handlers[key]
            if not local.handlers:
                del self._subscriptions[subject]
                with suppress(NatsError):  # closed meanwhile
                    await subscription.unsubscribe()

    async def _subscribe(self, payload: type[T], subject: str) -> tuple[BroadcastSubscription[T], Subscription]:
        local = BroadcastSubscription(payload, self._unread)
        try:
            return local, await self._client.subscribe(subject, cb=local.received)
        except NatsError as error:
            raise Unavailable(f"cannot subscribe to {subject}: {error!r}") from error

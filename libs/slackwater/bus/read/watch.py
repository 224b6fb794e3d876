"""Delivers watched messages: decodes each and calls the handler; a failure affects this message only, and a blocked
agent's waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.events.envelope import Event, Payload, subjects_of
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)


def subjects_below(payload: type[Payload], key: str | None) -> str:
    """Returns the subject filter of a type, restricted to keys that equal `key` or begin with it,
    token by token.
    """
    if key is None:
        return subjects_of(payload)
    missing = payload.KEY_PARTS - len(key.split("/"))
    return subjects_of(payload, key).removesuffix(".>") + ".*" * missing


class WatchDelivery(Generic[P]):
    """Delivers the messages of one watch to its handler. What a blocked agent sent waits, one message for each subject,
    as long as the block is in force; in a stream that does not keep the last value it is left unread for good.
    """

    def __init__(
        self,
        payload: type[P],
        handler: Callable[[Event[P]], Awaitable[None]],
        blocks: Callable[[], Blocks],
        unread: UnreadSubjects,
        *,
        keeps_last: bool,
    ) -> None:
        self._payload = payload
        self._unread = unread
        self._handler = handler
        self._blocks = blocks
        self._keeps_last = keeps_last
        self._withheld: dict[str, Message] = {}

    async def deliver(self, messages: Iterable[Message]) -> None:
        """Call the handler with what agents sent that are no longer blocked, then with each message unless its agent is
        blocked. Raises nothing but cancellation.
        """
        released = [message for message in self._withheld.values() if not self._is_hidden(message)]
        for message in (*released, *messages):
            await self._deliver(message)

    async def _deliver(self, message: Message) -> None:
        self._withheld.pop(message.subject, None)
        if self._is_hidden(message):
            if self._keeps_last:
                self._withheld[message.subject] = message
            return
        await self._handle(message)

    def _is_hidden(self, message: Message) -> bool:
        return self._blocks().hides(self._payload, message.subject)

    async def _handle(self, message: Message) -> None:
        try:
            event = self._unread.decoded(self._payload, message)
        except Unavailable as error:
            log.warning(
                "watched message skipped", type=self._payload.TYPE, subject=message.subject, error=error.message
            )
            return
        if event is None:
            return
        try:
            await self._handler(event)
        except Exception:
            log.exception("watch handler failed", type=self._payload.TYPE, subject=message.subject)

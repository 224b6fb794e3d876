"""Delivers watched messages: decodes each and calls the handler; a failure affects this message only, and those of an
agent that is blocked, or too fast, wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.consume.agent_blocks import Blocks
from slackwater.bus.consume.agent_rates import AgentRates
from slackwater.bus.consume.cooperative import is_flood
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.events.envelope import Event, Payload, subjects_of
from slackwater.events.rosters import RosterMissing
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
    as long as the block is in force; so does what an agent sends above its rate, until that allows one. In a stream
    that does not keep the last value both are left unread for good.
    """

    def __init__(
        self,
        payload: type[P],
        handler: Callable[[Event[P]], Awaitable[None]],
        blocks: Callable[[], Blocks],
        unread: UnreadSubjects,
        rates: AgentRates,
        rosters: KnownRosters,
        *,
        keeps_last: bool,
    ) -> None:
        self._rosters = rosters
        self._payload = payload
        self._unread = unread
        self._rates = rates
        self._handler = handler
        self._blocks = blocks
        self._keeps_last = keeps_last
        self._withheld: dict[str, Message] = {}

    async def deliver(self, messages: Sequence[Message], now_seconds: float) -> bool:
        """Call the handler with what waited and may be read now, then with each message that need not wait.
        `now_seconds` is monotonic: no stream keeps more messages of a subject than an agent may send at once, so a
        backlog is no flood. Returns whether most was left unread. Raises nothing but cancellation.
        """
        unread = 0
        for message in tuple(self._withheld.values()):
            if self._is_readable(message, now_seconds):
                await self._handle(message, now_seconds)
        for message in messages:
            if self._is_readable(message, now_seconds):
                await self._handle(message, now_seconds)
                continue
            unread += 1
            if self._keeps_last:
                self._withheld[message.subject] = message
        return is_flood(unread, len(messages))

    def _is_readable(self, message: Message, now_seconds: float) -> bool:
        if self._is_hidden(message):
            return False
        if self._rates.allows(message.subject, now_seconds, len(message.body)):
            self._withheld.pop(message.subject, None)
            return True
        if self._withheld.get(message.subject) is not message:
            self._rates.note(message.subject, now_seconds)
        return False

    def _is_hidden(self, message: Message) -> bool:
        return self._blocks().hides(self._payload, message.subject)

    async def _decoded(self, message: Message) -> Event[P] | None:
        """Returns the event, joined with its roster. Raises RosterMissing, Unavailable."""
        try:
            return self._unread.decoded(self._payload, message, self._rosters.find)
        except RosterMissing as missing:
            await self._rosters.load([missing])
        return self._unread.decoded(self._payload, message, self._rosters.find)

    async def _handle(self, message: Message, now_seconds: float) -> None:
        try:
            event = await self._decoded(message)
        except RosterMissing:  # a newer report of the node follows, or its agent publishes the roster again
            self._rosters.missed(self._payload.TYPE)
            return
        except Unavailable as error:
            log.warning(
                "watched message skipped", type=self._payload.TYPE, subject=message.subject, error=error.message
            )
            return
        if event is None:
            self._rates.charge(message.subject, now_seconds)
            return
        try:
            await self._handler(event)
        except Exception:
            log.exception("watch handler failed", type=self._payload.TYPE, subject=message.subject)

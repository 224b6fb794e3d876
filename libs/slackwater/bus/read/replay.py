"""Replay: feeds batches in order to a handler that keeps the position itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.handlers import Bury, Handling, Readable
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import BatchHandler, Received, Reject, Retry
from slackwater.bus.rosters.known_rosters import KnownRosters
from slackwater.events.envelope import Payload
from slackwater.events.rosters import RosterMissing, no_roster
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)

MOST_TRIES = 5
"""Tries after which a message that must be retried, for a reason other than an outage, is given
up.
"""


class Replayer(Generic[P]):
    """Handles messages in order: a message to retry holds back all later ones, a message given up
    does not.
    """

    def __init__(
        self,
        payload: type[P],
        name: str,
        handler: BatchHandler[P],
        bury: Bury,
        counters: Counters,
        rosters: KnownRosters | None = None,
    ) -> None:
        self._name = name
        find = no_roster if rosters is None else rosters.find
        self._handling = Handling(payload, name, handler, bury, counters, find=find)
        self._rosters = rosters if issubclass(payload, UsageReported) else None
        self._counters = counters
        self._letters: list[DeadLetter] = []
        """Dead letters not stored yet. The messages after them were handled and are not read
        again.
        """
        self._retried = (0, 0)
        """The position retried last, and how often in a row."""

    async def handle(self, batch: Sequence[Readable]) -> int | None:
        """Returns None when all is handled, else the position after which reading must start again."""
        if not batch:
            return None
        before = batch[0].stream_sequence - 1
        try:
            await self._bury_letters()  # of the batch before: the handler has not seen anything of this one
        except Unavailable as error:
            log.warning("replay tries again", reader=self._name, error=error.message)
            return before
        self._counters.delivered += len(batch)
        self._counters.pending = batch[-1].pending
        if self._rosters is not None:
            await self._rosters.prepare(message.body for message in batch)
        try:
            readable = [pair for message in batch if (pair := self._read(message)) is not None]
        except Unavailable as error:
            log.warning("replay tries again", reader=self._name, error=error.message)
            self._letters.clear()  # they are read again
            return before
        again_after = await self._handle(readable) if readable else None
        if again_after is not None:
            self._letters = [letter for letter in self._letters if letter.stream_sequence <= again_after]
        with suppress(Unavailable):  # before the next batch, then
            await self._bury_letters()
        return again_after

    async def _handle(self, readable: Sequence[tuple[Readable, Received[P]]]) -> int | None:
        """As `handle`, for decoded messages."""
        verdicts = await self._handling.verdicts([received for _, received in readable], in_order=True)
        for (message, _), verdict in zip(readable, verdicts, strict=True):
            match verdict:
                case Retry(reason, away=away):
                    if not away and self._tries(message.stream_sequence) >= MOST_TRIES:
                        self._counters.exhausted += 1
                        self._add_letter(message, "max_deliver", f"tried {MOST_TRIES} times; last: {reason}")
                        return message.stream_sequence  # nothing behind it has been tried
                    self._counters.retried += 1
                    return message.stream_sequence - 1
                case Reject(reason, detail):
                    self._counters.rejected += 1
                    self._add_letter(message, reason, detail)
                case _:
                    self._counters.done += 1
        return None

    def _tries(self, position: int) -> int:
        """Returns how often in a row the message at a position had to be retried, this time
        included.
        """
        at, before = self._retried
        self._retried = position, before + 1 if at == position else 1
        return self._retried[1]

    def _read(self, message: Readable) -> tuple[Readable, Received[P]] | None:
        """Returns the message with its event; None if it cannot be decoded, or its roster is not there. Raises
        Unavailable when the machine cannot decode now.
        """
        try:
            decoded = self._handling.decode(message)
        except RosterMissing as missing:
            log.warning("report without its roster", reader=self._name, node=missing.node)
            if self._rosters is not None:
                self._rosters.missed(self._name)
            return None
        if isinstance(decoded, Reject):
            self._add_letter(message, decoded.reason, decoded.detail)
            return None
        return message, decoded

    def _add_letter(self, message: Readable, reason: str, detail: str) -> None:
        self._letters.append(self._handling.letter(message, reason, detail))

    async def _bury_letters(self) -> None:
        """Store pending dead letters; those not stored are kept. Raises Unavailable."""
        while self._letters:
            await self._handling.bury(self._letters[0])
            del self._letters[0]

"""Replay: batches in order to a handler that keeps the position itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from slackwater.bus.deadletters import DeadLetter
from slackwater.bus.decoding import decode_message
from slackwater.bus.encoding import Undecodable, subject_key
from slackwater.bus.isolation import Isolation
from slackwater.bus.metrics import BusMetrics
from slackwater.bus.port import BatchHandler, Received, Reject, Retry
from slackwater.bus.settling import Bury
from slackwater.bus.stats import Counters
from slackwater.events.envelope import Payload
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)

MOST_TRIES = 5
"""So often a message is tried that must be retried for another reason than an outage; then it is given up."""


class Readable(Protocol):
    """A message at a position."""

    @property
    def subject(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def stream_sequence(self) -> int: ...
    @property
    def pending(self) -> int: ...


class Replayer(Generic[P]):
    """Order is the promise: what must be retried holds back everything after it, what is given up does not."""

    def __init__(self, payload: type[P], name: str, handler: BatchHandler[P], bury: Bury, counters: Counters) -> None:
        self._payload = payload
        self._name = name
        self._handler = Isolation(name, handler, counters)
        self._bury = bury
        self._counters = counters
        self._meter = BusMetrics(process_meters()).of(name)
        self._given_up: list[DeadLetter] = []
        """Letters that are not stored yet: what came after them has been handled, so they are not read again."""
        self._retried = (0, 0)
        """The position that was retried last, and how often in a row."""

    async def handle(self, batch: Sequence[Readable]) -> int | None:
        """Returns None when all is handled, else the position after which reading must start again."""
        if not batch:
            return None
        before = batch[0].stream_sequence - 1
        try:
            await self._bury_given_up()  # of the batch before: the handler has not seen anything of this one
        except Unavailable as error:
            log.warning("replay tries again", reader=self._name, error=error.message)
            return before
        self._counters.delivered += len(batch)
        self._counters.pending = batch[-1].pending
        try:
            readable = [pair for message in batch if (pair := self._read(message)) is not None]
        except Unavailable as error:
            log.warning("replay tries again", reader=self._name, error=error.message)
            self._given_up.clear()  # they are read again
            return before
        again_after = await self._handle(readable) if readable else None
        if again_after is not None:
            self._given_up = [letter for letter in self._given_up if letter.stream_sequence <= again_after]
        with suppress(Unavailable):  # before the next batch, then
            await self._bury_given_up()
        return again_after

    async def _handle(self, readable: Sequence[tuple[Readable, Received[P]]]) -> int | None:
        """As `handle`, of what could be read."""
        begun = time.perf_counter()
        verdicts = await self._handler.verdicts([received for _, received in readable], in_order=True)
        self._meter.handled(time.perf_counter() - begun, verdicts)
        for (message, _), verdict in zip(readable, verdicts, strict=True):
            match verdict:
                case Retry(reason, away=away):
                    if not away and self._tries(message.stream_sequence) >= MOST_TRIES:
                        self._counters.exhausted += 1
                        self._give_up(message, "max_deliver", f"tried {MOST_TRIES} times; last: {reason}")
                        return message.stream_sequence  # nothing behind it has been tried
                    self._counters.retried += 1
                    return message.stream_sequence - 1
                case Reject(reason, detail):
                    self._counters.rejected += 1
                    self._give_up(message, reason, detail)
                case _:
                    self._counters.done += 1
        return None

    def _tries(self, position: int) -> int:
        """How often in a row the message at a position had to be retried, this time included."""
        at, before = self._retried
        self._retried = position, before + 1 if at == position else 1
        return self._retried[1]

    def _read(self, message: Readable) -> tuple[Readable, Received[P]] | None:
        """None for what cannot be read. Raises Unavailable when the machine cannot read it now."""
        try:
            event = decode_message(message.subject, self._payload, message.headers, message.body)
        except Undecodable as error:
            self._counters.undecodable += 1
            self._meter.undecodable()
            self._give_up(message, error.code, error.message)
            return None
        return message, Received(event, message.stream_sequence, 1, subject_key(message.subject))

    def _give_up(self, message: Readable, reason: str, detail: str) -> None:
        letter = DeadLetter(
            self._name, reason, detail, message.subject, message.headers, message.body, message.stream_sequence
        )
        self._given_up.append(letter)

    async def _bury_given_up(self) -> None:
        """Raises Unavailable; what was not stored is kept."""
        while self._given_up:
            letter = self._given_up[0]
            is_stored = await self._bury(letter)
            del self._given_up[0]
            self._meter.buried(letter.reason)
            self._counters.letters_dropped += not is_stored
            log.warning(
                "dead letter", consumer=self._name, reason=letter.reason, subject=letter.subject, detail=letter.detail
            )

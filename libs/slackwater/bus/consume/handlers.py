"""From messages to verdicts: decoding, the handler, and what an exception of either means. These rules are only here.

A handler is a function of one event (`each`) or of a batch in one transaction (`all_or_split`):

| raised                    | `each`                           | `all_or_split`                             |
|---------------------------|----------------------------------|--------------------------------------------|
| InvalidInput              | Reject                           | handled again one by one; alone: Reject    |
| Conflict                  | Retry in 50 ms, counts           | Retry after a pause, does not count        |
| Unavailable               | Retry after a pause, does not count | the same                                |
| anything else             | once more; then Reject `handler_failed` | handled again one by one; alone: the same |
| the same, of the machine  | once more; then Retry, counts    | handled again one by one; alone: the same  |

So no message is tried more than twice, and none pays for another one. A try that failed by a defect may have been
committed before it failed: the second one counts as one more delivery.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Generic, Protocol

from slackwater.bus.codec.cloudevents import subject_key
from slackwater.bus.codec.decoder import decode_message
from slackwater.bus.codec.failures import HANDLER_FAILED, detail_of, is_of_machine, place_of
from slackwater.bus.consume.cooperative import yield_between
from slackwater.bus.consume.dead_letters import DeadLetter
from slackwater.bus.consume.handler_spans import traced_batch, traced_each
from slackwater.bus.consume.metrics import BusMetrics
from slackwater.bus.consume.stats import Counters
from slackwater.bus.consume.token_buckets import TokenBuckets
from slackwater.bus.port import (
    BatchHandler,
    Bus,
    Consumption,
    Done,
    Holds,
    P,
    Received,
    Reject,
    Retry,
    Settlement,
    Worth,
)
from slackwater.events.codec.body import Undecodable
from slackwater.events.rosters import FindRoster, no_roster
from slackwater.model.errors import Conflict, Fenced, InvalidInput, Unavailable
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

log = get_logger(__name__)

TRIES = 2
CONFLICT_SECONDS = 0.05
HOLD_SECONDS = 0.25
TRACES_AT_ONCE, TRACE_SECONDS = 5, 60.0
"""Stack traces logged per code location: the burst, then one in TRACE_SECONDS."""

Bury = Callable[[DeadLetter], Awaitable[bool]]
"""Stores a dead letter; returns False when the message is given up without one. Raises Unavailable.
See DeadLetterOffice.
"""


class InvalidVerdicts(Exception):
    """A handler returned anything other than one verdict per message."""


@record(frozen=True, slots=True)
class Each(Generic[P]):
    """A batch handler built from a handler of one event."""

    handle: Callable[[Received[P]], Awaitable[Settlement | None]]

    async def judge(self, received: Received[P]) -> Settlement:
        """Returns the verdict on one event."""
        try:
            return await self.handle(received) or Done()
        except InvalidInput as error:
            return Reject(error.code, error.message)
        except Conflict as error:
            return Retry(error.message, delay_seconds=CONFLICT_SECONDS)
        except Unavailable as error:
            return _retry(error)

    async def __call__(self, batch: Sequence[Received[P]]) -> Sequence[Settlement]:
        return [await self.judge(received) for received in batch]


def each(handle: Callable[[Received[P]], Awaitable[Settlement | None]]) -> Each[P]:
    """Returns a batch handler from a function of one event. None means Done; exceptions: see the
    table above.
    """
    return Each(handle)


def all_or_split(handle: Callable[[Sequence[Received[P]]], Awaitable[None]]) -> BatchHandler[P]:
    """Returns a batch handler from a function that handles a batch in one transaction. Exceptions:
    see the table above.
    """

    async def handle_batch(batch: Sequence[Received[P]]) -> Sequence[Settlement]:
        await handle(batch)
        return [Done()] * len(batch)

    return handle_batch


class Holding(Generic[P]):
    """A batch handler that keeps its batch while the store is unavailable; later messages wait in
    the stream, in order.
    """

    def __init__(self, handle: BatchHandler[P], clock: Clock) -> None:
        self._handle = handle
        self._clock = clock
        self._leaving = False

    def leave(self) -> None:
        """Stop keeping batches: what cannot be stored now goes back to the bus at once."""
        self._leaving = True

    async def __call__(self, batch: Sequence[Received[P]]) -> Sequence[Settlement]:
        while True:
            try:
                return await self._handle(batch)
            except (Conflict, Unavailable) as error:
                if self._leaving or isinstance(error, Fenced):
                    return [Retry(error.message, delay_seconds=0.0, away=True)] * len(batch)
            # The commit may have come through before the store was gone: what is there already is no replay.
            batch = [_once_more(received) for received in batch]
            await self._clock.sleep(HOLD_SECONDS)


@record(frozen=True, slots=True)
class Consumer(Generic[P]):
    """A durable consumer of contracts/streams.yaml with its message handler. See Bus.consume."""

    payload: type[P]
    name: str
    handler: BatchHandler[P]
    batch: int = 100
    worth: Worth | None = None

    def open(self, bus: Bus, holds: Holds | None = None) -> AbstractAsyncContextManager[Consumption]:
        """Consume while the context is open; with `holds`, only the partitions taken."""
        return bus.consume(self.payload, self.name, self.handler, batch=self.batch, holds=holds, worth=self.worth)


class Readable(Protocol):
    """A message at a position of a stream."""

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


class Verdicts(Generic[P]):
    """Runs one handler and returns its verdicts. Raises nothing but cancellation."""

    def __init__(self, consumer: str, handler: BatchHandler[P], counters: Counters) -> None:
        self._consumer = consumer
        self._is_each = isinstance(handler, Each)
        self._handle: BatchHandler[P] = (
            traced_each(consumer, handler.judge) if isinstance(handler, Each) else traced_batch(consumer, handler)
        )
        self._counters = counters
        self._traces = TokenBuckets[str](TRACES_AT_ONCE, TRACE_SECONDS)

    async def __call__(self, batch: Sequence[Received[P]], *, in_order: bool = False) -> Sequence[Settlement]:
        """Returns one verdict per message. With `in_order`, no message after one that must be
        retried is handled.
        """
        if self._is_each or len(batch) == 1:
            return await self._split(batch, TRIES, in_order=in_order)
        outcome = await self._attempt(batch)
        if isinstance(outcome, (Conflict, Unavailable)):
            return [_retry(outcome)] * len(batch)
        if not isinstance(outcome, BaseException):
            return outcome
        if not isinstance(outcome, InvalidInput):  # a refusal comes before the commit
            batch = [_once_more(received) for received in batch]
        return await self._split(batch, TRIES - 1, in_order=in_order)

    async def _split(self, batch: Sequence[Received[P]], tries: int, *, in_order: bool) -> list[Settlement]:
        verdicts: list[Settlement] = []
        for number, received in enumerate(batch, 1):
            outcome = await self._try(received, tries)
            verdicts.append(_verdict(outcome))
            if isinstance(verdicts[-1], Retry) and (in_order or isinstance(outcome, Unavailable)):
                return verdicts + [verdicts[-1]] * (len(batch) - number)
            if not self._is_each:  # those pause before each message already
                await yield_between(number)
        return verdicts

    async def _try(self, received: Received[P], tries: int) -> Settlement | BaseException:
        """Returns the outcome of one message handled alone, within its remaining tries."""
        while True:
            outcome = await self._attempt([received])
            if not isinstance(outcome, BaseException):
                return outcome[0]
            tries -= 1
            if isinstance(outcome, (Conflict, InvalidInput, Unavailable)) or tries == 0:
                return outcome
            received = _once_more(received)

    async def _attempt(self, batch: Sequence[Received[P]]) -> Sequence[Settlement] | BaseException:
        """Returns the verdicts, or the exception raised."""
        try:
            return _checked(await self._handle(batch), batch)
        except (Conflict, InvalidInput, Unavailable) as error:
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._failed(error, batch)  # of something that the handler waited for: this task goes on
        except Exception as error:  # noqa: BLE001 - it is logged, and the message at fault is dead-lettered with it
            return self._failed(error, batch)

    def _failed(self, error: BaseException, batch: Sequence[Received[P]]) -> BaseException:
        self._counters.handler_failures += 1
        if self._traces.acquire(place_of(error), time.monotonic()):
            log.error(
                "handler failed",
                consumer=self._consumer,
                batch_size=len(batch),
                key=batch[0].subject_key if len(batch) == 1 else None,
                exc_info=error,
            )
        return error


class Handling(Generic[P]):
    """Decoding, verdicts, dead letters and their counters, shared by consumers and replays."""

    def __init__(
        self,
        payload: type[P],
        name: str,
        handler: BatchHandler[P],
        bury: Bury,
        counters: Counters,
        *,
        find: FindRoster = no_roster,
    ) -> None:
        self._find = find
        self._payload = payload
        self._name = name
        self._verdicts = Verdicts(name, handler, counters)
        self._store_letter = bury
        self.counters = counters
        self.meter = BusMetrics(process_meters()).of(name)

    def decode(self, message: Readable, *, deliveries: int = 1, stored_at_seconds: float = 0.0) -> Received[P] | Reject:
        """Returns the event of a message, or the Reject. Raises RosterMissing; Unavailable when the machine cannot
        decode it now.
        """
        try:
            event = decode_message(message.subject, self._payload, message.headers, message.body, find=self._find)
        except Undecodable as error:
            return self.undecodable(error.code, error.message)
        return Received(event, message.stream_sequence, deliveries, subject_key(message.subject), stored_at_seconds)

    def undecodable(self, reason: str, detail: str) -> Reject:
        """Returns the verdict on a message that cannot be decoded."""
        self.counters.undecodable += 1
        self.meter.undecodable()
        return Reject(reason, detail)

    async def verdicts(self, batch: Sequence[Received[P]], *, in_order: bool = False) -> Sequence[Settlement]:
        """As Verdicts, with the handler's duration measured."""
        begun = time.perf_counter()
        verdicts = await self._verdicts(batch, in_order=in_order)
        self.meter.handled(time.perf_counter() - begun, verdicts)
        return verdicts

    def letter(self, message: Readable, reason: str, detail: str) -> DeadLetter:
        """Returns the dead letter of a message."""
        return DeadLetter(
            self._name, reason, detail, message.subject, message.headers, message.body, message.stream_sequence
        )

    async def bury(self, letter: DeadLetter) -> bool:
        """Store a dead letter, or drop it when its sender exceeds the limit. Returns whether it is stored. Raises
        Unavailable."""
        is_stored = await self._store_letter(letter)
        self.meter.buried(letter.reason)
        if not is_stored:
            self.counters.letters_dropped += 1
            return False
        log.warning(
            "dead letter",
            consumer=self._name,
            reason=letter.reason,
            subject=letter.subject,
            detail=letter.detail,
            traceparent=letter.headers.get("traceparent"),
        )
        return True


def _retry(error: Conflict | Unavailable) -> Retry:
    """Returns a Retry that does not use up deliveries for failures outside the message."""
    return Retry(error.message, away=True, outage=isinstance(error, Unavailable))


def _verdict(outcome: Settlement | BaseException) -> Settlement:
    """Returns the verdict on a message that was tried alone."""
    match outcome:
        case Done() | Retry() | Reject():
            return outcome
        case Conflict() | Unavailable():
            return _retry(outcome)
        case InvalidInput():
            return Reject(outcome.code, outcome.message)
    if is_of_machine(outcome):
        return Retry(f"handler failed: {detail_of(outcome)}")
    return Reject(HANDLER_FAILED, detail_of(outcome))


def _once_more(received: Received[P]) -> Received[P]:
    return replace(received, deliveries=received.deliveries + 1)


def _checked(verdicts: Sequence[Settlement], batch: Sequence[Received[P]]) -> Sequence[Settlement]:
    """Returns the verdicts if there is one per message. Raises InvalidVerdicts."""
    if not isinstance(verdicts, Sequence) or len(verdicts) != len(batch):
        count = len(verdicts) if isinstance(verdicts, Sequence) else type(verdicts).__name__
        raise InvalidVerdicts(f"handler gave {count} verdicts for {len(batch)} messages")
    for verdict in verdicts:
        if not isinstance(verdict, (Done, Retry, Reject)):
            raise InvalidVerdicts(f"handler gave a {type(verdict).__name__} as a verdict")
    return verdicts

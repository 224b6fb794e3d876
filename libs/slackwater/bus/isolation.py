"""Handlers whose failures cost the message at fault: a batch that fails is handled again at once, message by message.

So each message is tried at most twice: with its batch, and alone. The second time it counts as delivered once more,
because the first try may have been committed before it failed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from slackwater.bus.breathing import breathe
from slackwater.bus.failures import HANDLER_FAILED, detail_of, is_of_machine, place_of
from slackwater.bus.port import CONFLICT_SECONDS, BatchHandler, Done, OneByOne, P, Received, Reject, Retry, Settlement
from slackwater.bus.stats import Counters
from slackwater.bus.token_buckets import TokenBuckets
from slackwater.bus.tracing import traced
from slackwater.model.errors import Conflict, InvalidInput, Unavailable
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

TRIES = 2
TRACES_AT_ONCE, TRACE_SECONDS = 5, 60.0
"""Stack traces of one place of the code in the log: so many at once, then one in so many seconds."""


class InvalidVerdicts(Exception):
    """A handler returned something else than one verdict per message."""


class Isolation(Generic[P]):
    """One consumer's handler. `verdicts` raises nothing but cancellation."""

    def __init__(self, consumer: str, handler: BatchHandler[P], counters: Counters) -> None:
        self._consumer = consumer
        self._is_one_by_one = isinstance(handler, OneByOne)
        self._handle = traced(consumer, handler)
        self._counters = counters
        self._traces = TokenBuckets[str](TRACES_AT_ONCE, TRACE_SECONDS)

    async def verdicts(self, batch: Sequence[Received[P]], *, in_order: bool = False) -> Sequence[Settlement]:
        """One per message. With `in_order` nothing is tried behind a message that must be retried."""
        if len(batch) == 1 or self._is_one_by_one:
            return await self._each(batch, TRIES, in_order=in_order)
        found = await self._attempt(batch)
        if not isinstance(found, BaseException):
            return found
        again = [replace(received, deliveries=received.deliveries + 1) for received in batch]
        return await self._each(again, TRIES - 1, in_order=in_order, stops_when_away=True)

    async def _each(
        self, batch: Sequence[Received[P]], tries: int, *, in_order: bool, stops_when_away: bool = False
    ) -> list[Settlement]:
        verdicts: list[Settlement] = []
        for number, received in enumerate(batch, 1):
            verdict = await self._alone(received, tries)
            verdicts.append(verdict)
            if isinstance(verdict, Retry) and (in_order or (stops_when_away and verdict.away)):
                return verdicts + [verdict] * (len(batch) - number)
            if not self._is_one_by_one:  # the others pause before each message already
                await breathe(number)
        return verdicts

    async def _alone(self, received: Received[P], tries: int) -> Settlement:
        found = await self._attempt([received])
        for _ in range(tries - 1):
            if not isinstance(found, BaseException):
                break
            received = replace(received, deliveries=received.deliveries + 1)
            found = await self._attempt([received])
        if not isinstance(found, BaseException):
            return found[0]
        if is_of_machine(found):
            return Retry(f"handler failed: {detail_of(found)}")
        return Reject(HANDLER_FAILED, detail_of(found))

    async def _attempt(self, batch: Sequence[Received[P]]) -> Sequence[Settlement] | BaseException:
        """The verdicts, or what was raised if it may speak against one of the messages."""
        try:
            return _checked(await self._handle(batch), batch)
        except Conflict as error:
            return [Retry(error.message, delay_seconds=CONFLICT_SECONDS)] * len(batch)
        except Unavailable as error:
            return [Retry(error.message, away=True)] * len(batch)
        except InvalidInput as error:
            return error if len(batch) > 1 else [Reject(error.code, error.message)]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._failed(error, batch)  # of something that the handler waited for: nobody has cancelled us
        except Exception as error:  # noqa: BLE001 - it is logged, and the message at fault is dead-lettered with it
            return self._failed(error, batch)

    def _failed(self, error: BaseException, batch: Sequence[Received[P]]) -> BaseException:
        self._counters.handler_failures += 1
        if self._traces.take(place_of(error), time.monotonic()):
            log.error(
                "handler failed",
                consumer=self._consumer,
                batch_size=len(batch),
                key=batch[0].subject_key if len(batch) == 1 else None,
                exc_info=error,
            )
        return error


def _checked(verdicts: Sequence[Settlement], batch: Sequence[Received[P]]) -> Sequence[Settlement]:
    """Raises InvalidVerdicts."""
    if not isinstance(verdicts, Sequence) or len(verdicts) != len(batch):
        count = len(verdicts) if isinstance(verdicts, Sequence) else type(verdicts).__name__
        raise InvalidVerdicts(f"handler gave {count} verdicts for {len(batch)} messages")
    for verdict in verdicts:
        if not isinstance(verdict, (Done, Retry, Reject)):
            raise InvalidVerdicts(f"handler gave a {type(verdict).__name__} as a verdict")
    return verdicts

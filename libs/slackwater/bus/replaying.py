"""Replay: batches in order to a handler that keeps the position itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from slackwater.bus.deadletters import DeadLetter
from slackwater.bus.encoding import Undecodable, decode_on, subject_key
from slackwater.bus.metrics import BusMetrics
from slackwater.bus.port import BatchHandler, Received, Reject, Retry
from slackwater.bus.settling import Bury
from slackwater.bus.stats import Counters
from slackwater.bus.tracing import traced
from slackwater.events.envelope import Payload
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

P = TypeVar("P", bound=Payload)

log = get_logger(__name__)


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
    """Order is the promise: what must be retried holds back everything after it."""

    def __init__(self, payload: type[P], name: str, handler: BatchHandler[P], bury: Bury, counters: Counters) -> None:
        self._payload = payload
        self._name = name
        self._handler = traced(name, handler)
        self._bury = bury
        self._counters = counters
        self._meter = BusMetrics(process_meters()).of(name)

    async def handle(self, batch: Sequence[Readable]) -> int | None:
        """Returns None when all is handled, else the position after which reading must start again."""
        if not batch:
            return None
        self._counters.delivered += len(batch)
        self._counters.pending = batch[-1].pending
        before = batch[0].stream_sequence - 1
        try:
            readable = [pair for message in batch if (pair := await self._read(message)) is not None]
            if not readable:
                return None
            begun = time.perf_counter()
            verdicts = await self._handler([received for _, received in readable])
            self._meter.handled(time.perf_counter() - begun, verdicts)
            for (message, _), verdict in zip(readable, verdicts, strict=True):
                if isinstance(verdict, Retry):
                    self._counters.retried += 1
                    return message.stream_sequence - 1
                if isinstance(verdict, Reject):
                    self._counters.rejected += 1
                    await self._give_up(message, verdict.reason, verdict.detail)
                else:
                    self._counters.done += 1
        except Unavailable as error:
            log.warning("replay tries again", reader=self._name, error=error.message)
            return before
        except Exception:
            self._counters.handler_failures += 1
            log.exception("handler failed", consumer=self._name, again_after=before)
            return before
        return None

    async def _read(self, message: Readable) -> tuple[Readable, Received[P]] | None:
        try:
            event = decode_on(message.subject, self._payload, message.headers, message.body)
        except Undecodable as error:
            self._counters.undecodable += 1
            self._meter.undecodable()
            await self._give_up(message, error.code, error.message)
            return None
        return message, Received(event, message.stream_sequence, 1, subject_key(message.subject))

    async def _give_up(self, message: Readable, reason: str, detail: str) -> None:
        self._meter.buried(reason)
        await self._bury(
            DeadLetter(
                self._name, reason, detail, message.subject, message.headers, message.body, message.stream_sequence
            )
        )

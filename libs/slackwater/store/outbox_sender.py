"""Publishes outbox rows: subjects concurrently, the rows of one subject in order.

A failing subject backs off separately, and one without an answer is not waited for, so all other
commits are published meanwhile. Order holds because no row of a subject starts while another is in
flight or backing off.

A full stream refuses the rows of all its subjects. It backs off as a whole, with one row at a time
to try it: decisions that no stream takes must not delay the intents behind them.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.events.serialized import stream_of_type, types_of_streams
from slackwater.model.errors import InvalidInput, StreamFull, Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 5.0
PATIENCE_SECONDS = 0.25
"""Longest wait for the answers of rows begun together, so that they are settled together, while no
new commit arrives. After it, subjects without an answer are left in flight.
"""

_LONGEST_REASON = 1000

log = get_logger(__name__)


@dataclass(slots=True)
class SendOutcome:
    """Published rows, rows that the bus refuses for good with its reason, and the number of failed
    subjects.
    """

    published: list[int] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    failed: int = 0


@dataclass(slots=True)
class _Rest:
    pause: float
    until: float
    is_over: bool = False
    """Whether the last read could have returned rows of the subject."""


class OutboxSender:
    """Publishes rows for one session of a relay.

    `publish` takes a row; it raises Unavailable, or InvalidInput for a row that can never be
    published. Any other exception is a defect at this row, which is refused while the others go
    out. `may` is called before each publish. `landed` is called when all awaited rows have ended,
    and for each row that is no longer awaited.
    """

    def __init__(
        self,
        publish: Callable[[Any], Awaitable[None]],
        may: Callable[[str], bool],
        clock: Clock,
        landed: Callable[[], None],
    ) -> None:
        self._publish = publish
        self._may = may
        self._clock = clock
        self._landed = landed
        self._flying: dict[str, asyncio.Task[None]] = {}
        self._awaited: set[asyncio.Task[None]] = set()
        self._resting: dict[str, _Rest] = {}
        self._full: dict[str, _Rest] = {}
        """Full streams."""
        self._trying: set[str] = set()
        """Full streams with a row in flight."""
        self._outcome = SendOutcome()

    def busy(self, *, but: Collection[str] = ()) -> list[str]:
        """Returns subjects that must not start now; those in `but` are about to be forgotten.

        The others may start: their backoff no longer shortens the wait, because nothing says that they have a row to
        send. Another replica may have sent it.
        """
        now = self._clock.monotonic()
        for rest in self._resting.values():
            rest.is_over = rest.until <= now
        resting = (name for name, rest in self._resting.items() if not rest.is_over)
        return [*(name for name in self._flying if name not in but), *resting]

    def held_types(self) -> list[str]:
        """Returns the types of events that must not start now, because their stream is full."""
        now = self._clock.monotonic()
        for rest in self._full.values():
            rest.is_over = rest.until <= now
        return types_of_streams({s for s, rest in self._full.items() if s in self._trying or not rest.is_over})

    def flying(self, *, but: Collection[str] = ()) -> int:
        return len(self._flying) - len(but)

    def rest_seconds(self, longest: float) -> float:
        """Returns the seconds until the first backoff ends, of those that held a subject or a stream back."""
        now = self._clock.monotonic()
        rests = (*self._resting.values(), *self._full.values())
        ends = (rest.until - now for rest in rests if not rest.is_over)
        return max(0.0, min(ends, default=longest))

    def begin(self, rows: Sequence[Any]) -> None:
        """Start these rows, none of a busy subject; of a full stream only the first."""
        by_subject: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            stream = stream_of_type(row["type"])
            if stream in self._trying:
                continue
            if stream in self._full:
                self._trying.add(stream)
            by_subject[row["subject"]].append(row)
        for subject, own in by_subject.items():
            self._flying[subject] = task = asyncio.create_task(self._send_subject(subject, own))
            self._awaited.add(task)
            task.add_done_callback(self._has_ended)

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        self._awaited.discard(task)
        if not self._awaited:
            self._landed()

    @property
    def is_awaiting(self) -> bool:
        """Returns whether answers are due within PATIENCE_SECONDS."""
        return bool(self._awaited)

    def wait_no_longer(self) -> None:
        """Stop awaiting pending rows; each is reported when it ends."""
        self._awaited.clear()

    def collect_outcome(self) -> tuple[SendOutcome, Collection[str]]:
        """Returns the outcome so far and the subjects that ended: `forget` those once the outcome
        is stored.
        """
        ended = [subject for subject, task in self._flying.items() if task.done()]
        outcome, self._outcome = self._outcome, SendOutcome()
        return outcome, frozenset(ended)

    def discard(self, ended: Collection[str]) -> None:
        """Allow these subjects to start again. Raises what a defect raised."""
        for subject in ended:
            self._flying.pop(subject).result()

    async def close(self) -> SendOutcome:
        """Stop everything; returns the outcome not yet stored."""
        tasks = list(self._flying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._outcome

    async def _send_subject(self, subject: str, rows: Sequence[Any]) -> None:
        stream = stream_of_type(rows[0]["type"])
        try:
            await self._send_rows(subject, stream, rows)
        finally:
            self._trying.discard(stream)

    async def _send_rows(self, subject: str, stream: str, rows: Sequence[Any]) -> None:
        for row in rows:
            if not self._may(subject):
                return
            try:
                await self._publish(row)
            except StreamFull:
                self._hold(stream)
                return
            except Unavailable:
                self._rest(subject)
                return
            except InvalidInput as error:
                self._outcome.refused.append((row["position"], error.message))
                continue
            except Exception as error:
                log.exception("row of the outbox fails", subject=subject, position=row["position"])
                self._outcome.refused.append((row["position"], f"{type(error).__name__}: {error}"[:_LONGEST_REASON]))
                continue
            self._outcome.published.append(row["position"])
            self._resting.pop(subject, None)
            self._full.pop(stream, None)

    def _rest(self, subject: str) -> None:
        self._outcome.failed += 1
        self._resting[subject] = self._next_rest(self._resting.get(subject))

    def _hold(self, stream: str) -> None:
        """Begin or prolong the backoff of a full stream; refusals of rows sent together count once."""
        known = self._full.get(stream)
        if known is None or known.until <= self._clock.monotonic():
            self._full[stream] = self._next_rest(known)

    def _next_rest(self, known: _Rest | None) -> _Rest:
        pause = FIRST_PAUSE_SECONDS if known is None else min(known.pause * 2, LONGEST_PAUSE_SECONDS)
        return _Rest(pause, self._clock.monotonic() + random.uniform(0.5, 1.0) * pause)

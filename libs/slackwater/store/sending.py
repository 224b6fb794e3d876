"""Carrying rows of the outbox to the bus: subjects side by side, each of them one after the other.

A subject that fails rests by itself, longer each time, and one that gets no answer is not waited for: whatever else
is committed meanwhile goes out. Order is kept within a subject, because nothing of it is begun while it flies or rests.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.time import Clock

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 5.0
PATIENCE_SECONDS = 0.25
"""So long a pass waits for an answer; then it goes on without the subjects that have none yet."""


@dataclass(slots=True)
class Outcome:
    """Rows that are through, and rows the bus will never take, with its reason."""

    published: list[int] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Rest:
    pause: float
    until: float


class Sender:
    """Of one session of a relay. `publish` takes a row; it raises Unavailable, or InvalidInput for one that can never
    be taken. `may` is asked before each publish."""

    def __init__(self, publish: Callable[[Any], Awaitable[None]], may: Callable[[str], bool], clock: Clock) -> None:
        self._publish = publish
        self._may = may
        self._clock = clock
        self._flying: dict[str, asyncio.Task[None]] = {}
        self._resting: dict[str, _Rest] = {}
        self._outcome = Outcome()
        self.landed = asyncio.Event()
        """Set when a subject has ended that a pass did not wait for."""

    def busy(self) -> list[str]:
        """Subjects of which nothing may be begun now."""
        now = self._clock.monotonic()
        return [*self._flying, *(name for name, rest in self._resting.items() if rest.until > now)]

    def rest_seconds(self, longest: float) -> float:
        """Until the first subject that rests may be tried again."""
        now = self._clock.monotonic()
        return max(0.0, min((rest.until - now for rest in self._resting.values()), default=longest))

    async def send(self, rows: Sequence[Any]) -> None:
        """Begin with these, none of a busy subject, and wait until they are through, but for PATIENCE_SECONDS only."""
        by_subject: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
            by_subject[row["subject"]].append(row)
        begun = {subject: asyncio.create_task(self._send_subject(subject, own)) for subject, own in by_subject.items()}
        self._flying.update(begun)
        await asyncio.wait(begun.values(), timeout=PATIENCE_SECONDS)
        for task in begun.values():
            if not task.done():
                task.add_done_callback(lambda _: self.landed.set())

    def take_outcome(self) -> tuple[Outcome, Collection[str]]:
        """What has come of it so far, and which subjects have ended: `forget` those once the outcome is written."""
        self.landed.clear()
        ended = [subject for subject, task in self._flying.items() if task.done()]
        outcome, self._outcome = self._outcome, Outcome()
        return outcome, ended

    def forget(self, ended: Collection[str]) -> None:
        """These may be begun again. Raises what a defect raised."""
        for subject in ended:
            self._flying.pop(subject).result()

    async def close(self) -> Outcome:
        """End everything; returns what is not written yet."""
        tasks = list(self._flying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self._outcome

    async def _send_subject(self, subject: str, rows: Sequence[Any]) -> None:
        for row in rows:
            if not self._may(subject):
                return
            try:
                await self._publish(row)
            except Unavailable:
                self._rest(subject)
                return
            except InvalidInput as error:
                self._outcome.refused.append((row["position"], error.message))
                continue
            self._outcome.published.append(row["position"])
            self._resting.pop(subject, None)

    def _rest(self, subject: str) -> None:
        known = self._resting.get(subject)
        pause = FIRST_PAUSE_SECONDS if known is None else min(known.pause * 2, LONGEST_PAUSE_SECONDS)
        self._resting[subject] = _Rest(pause, self._clock.monotonic() + random.uniform(0.5, 1.0) * pause)

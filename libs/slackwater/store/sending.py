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
from slackwater.telemetry.logs import get_logger

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 5.0
PATIENCE_SECONDS = 0.25
"""So long the answers of what was begun together are waited for, to be settled together, while nothing is committed;
then it goes on without the subjects that have none yet."""

_LONGEST_REASON = 1000

log = get_logger(__name__)


@dataclass(slots=True)
class Outcome:
    """Rows that are through, and rows the bus will never take, with its reason; and how many subjects failed."""

    published: list[int] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    failed: int = 0


@dataclass(slots=True)
class _Rest:
    pause: float
    until: float


class Sender:
    """Of one session of a relay. `publish` takes a row; it raises Unavailable, or InvalidInput for one that can never
    be taken. Whatever else it raises is a defect at this row: the row is refused, and the others go out. `may` is asked
    before each publish. `landed` is called when everything that is waited for has ended, and for each that nobody waits
    for any more."""

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
        self._outcome = Outcome()

    def busy(self, *, but: Collection[str] = ()) -> list[str]:
        """Subjects of which nothing may be begun now; those in `but` are about to be forgotten."""
        now = self._clock.monotonic()
        resting = (name for name, rest in self._resting.items() if rest.until > now)
        return [*(name for name in self._flying if name not in but), *resting]

    def flying(self, *, but: Collection[str] = ()) -> int:
        return len(self._flying) - len(but)

    def rest_seconds(self, longest: float) -> float:
        """Until the first subject that rests may be tried again."""
        now = self._clock.monotonic()
        return max(0.0, min((rest.until - now for rest in self._resting.values()), default=longest))

    def begin(self, rows: Sequence[Any]) -> None:
        """With these, none of a busy subject."""
        by_subject: dict[str, list[Any]] = defaultdict(list)
        for row in rows:
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
        """Whether answers are waited for that are due within PATIENCE_SECONDS."""
        return bool(self._awaited)

    def wait_no_longer(self) -> None:
        """Whatever has no answer yet is told of when it has."""
        self._awaited.clear()

    def take_outcome(self) -> tuple[Outcome, Collection[str]]:
        """What has come of it so far, and which subjects have ended: `forget` those once the outcome is written."""
        ended = [subject for subject, task in self._flying.items() if task.done()]
        outcome, self._outcome = self._outcome, Outcome()
        return outcome, frozenset(ended)

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
            except Exception as error:
                log.exception("row of the outbox fails", subject=subject, position=row["position"])
                self._outcome.refused.append((row["position"], f"{type(error).__name__}: {error}"[:_LONGEST_REASON]))
                continue
            self._outcome.published.append(row["position"])
            self._resting.pop(subject, None)

    def _rest(self, subject: str) -> None:
        self._outcome.failed += 1
        known = self._resting.get(subject)
        pause = FIRST_PAUSE_SECONDS if known is None else min(known.pause * 2, LONGEST_PAUSE_SECONDS)
        self._resting[subject] = _Rest(pause, self._clock.monotonic() + random.uniform(0.5, 1.0) * pause)

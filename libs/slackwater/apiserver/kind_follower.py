"""Lists a kind and watches it from there; resumes after every interruption without losing a change.

list ──▶ watch from its version ──▶ every event and bookmark moves the version
          ▲     │ ended, cut, or the server was away: watch again from the last version, with backoff
list ◀────┴─────┘ the version expired (410): list again; what was deleted meanwhile is the difference
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from slackwater.apiserver.port import ObjectReader, VersionExpired, WatchEvent
from slackwater.apiserver.records import ApiRecord, WatchedKind
from slackwater.model.errors import Misconfigured, SlackwaterError, Unavailable
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)
T = TypeVar("T", bound=ApiRecord)


class RecordSink(Protocol):
    """What takes up the objects (apiserver.inventory)."""

    def replace(self, kind: WatchedKind[T], items: Sequence[T]) -> object: ...

    def apply(self, kind: WatchedKind[T], event: WatchEvent[T]) -> object: ...


class FollowMeter(Protocol):
    """What operators watch of a follower."""

    def listed(self, kind: str, reason: str) -> None:
        """A list was read: `first` or `expired`."""
        ...

    def interrupted(self, kind: str, reason: str) -> None:
        """A list or watch failed: the code of the error."""
        ...


@dataclass(frozen=True, slots=True)
class FollowPace:
    """`page_size`: objects per page of a list. Pauses in seconds: between two watches, and at most after failures."""

    page_size: int = 500
    pause_seconds: float = 0.1
    longest_pause_seconds: float = 5.0


class KindFollower(Generic[T]):
    """Follows one kind. `error` says why it does not, empty while it does."""

    def __init__(
        self,
        server: ObjectReader,
        kind: WatchedKind[T],
        sink: RecordSink,
        clock: Clock,
        meter: FollowMeter,
        pace: FollowPace | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.kind = kind
        self.error = ""
        self._server = server
        self._sink = sink
        self._clock = clock
        self._meter = meter
        self._pace = pace or FollowPace()
        self._jitter = jitter
        self._failures = 0
        self._listed = False

    async def __call__(self) -> None:
        """Work until cancelled."""
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list()
                async with aclosing(self._server.watch(self.kind, version)) as events:  # type: ignore[type-var]
                    async for event in events:
                        self._sink.apply(self.kind, event)
                        self.error = ""
                        if event.version != version:  # not by the answer alone: a watch may be cut at once every time
                            version, self._failures = event.version, 0
            except VersionExpired:
                version = None
                self._failures += 1
            except (Unavailable, Misconfigured) as error:
                self._note_failure(error)
            await self._clock.sleep(self._pause_seconds())

    async def _list(self) -> str:
        items: list[T] = []
        page = ""
        while True:
            answer = await self._server.list_page(self.kind, self._pace.page_size, page)
            items += answer.items
            page = answer.next_page
            if not page:
                break
        self._sink.replace(self.kind, items)
        self._meter.listed(self.kind.plural, "expired" if self._listed else "first")
        self._listed, self.error = True, ""
        return answer.version

    def _note_failure(self, error: SlackwaterError) -> None:
        if not self.error:
            log.warning("kind not followed", kind=self.kind.plural, reason=error.message)
        self._failures += 1
        self.error = error.message
        self._meter.interrupted(self.kind.plural, error.code)

    def _pause_seconds(self) -> float:
        """Doubles with every failure in a row; half of it is random, so that the followers do not come together."""
        pace = self._pace
        most = min(pace.longest_pause_seconds, pace.pause_seconds * float(1 << min(self._failures, 20)))
        return most * (0.5 + 0.5 * self._jitter())

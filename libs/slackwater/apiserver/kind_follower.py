"""Lists a kind and watches it from there; resumes after every interruption without losing a change.

list ──▶ watch from its version ──▶ every event and bookmark moves the version
          ▲     │ ended, cut, or the server was away: watch again from the last version, with backoff
list ◀────┴─────┘ the version expired (410), or the kind was not served for a while: list again; what was deleted
                  meanwhile is the difference

After a failure the server may have an older state: etcd was restored from a backup. A watch from a version that the
server has not reached yet is no error: it is silent until then. So the server's version is compared first with the
newest that was read of any kind, and all kinds are listed again if it is older.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from slackwater.apiserver.port import KindNotServed, ObjectReader, VersionExpired, WatchEvent
from slackwater.apiserver.records import ApiRecord, WatchedKind, is_newer
from slackwater.model.errors import SlackwaterError
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
        """A list was read: `first`, `expired`, `restored` if the server's versions went back, or `served` if the kind
        was not served for a while."""
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


@dataclass(slots=True)
class ServerVersions:
    """The newest version that was read of a server, which counts the writes to all kinds. `restores` says how often it
    went back. Shared by the followers of the server."""

    newest: str = ""
    restores: int = 0

    def note(self, version: str) -> None:
        if not self.newest or is_newer(version, self.newest):
            self.newest = version

    def compare(self, present: str) -> None:
        """Note that the server is at this version now."""
        if is_newer(self.newest, present):
            log.warning("versions of the API server went back", read=self.newest, present=present)
            self.newest, self.restores = present, self.restores + 1


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
        versions: ServerVersions | None = None,
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
        self._reason = "first"
        """Why the next list is read."""
        self._compares = False
        """Whether to compare versions before the next watch."""
        self._versions = versions or ServerVersions()
        self._restores = self._versions.restores

    async def __call__(self) -> None:
        """Work until cancelled."""
        version: str | None = None
        while True:
            try:
                if self._compares:
                    self._versions.compare((await self._server.list_page(self.kind, 1)).version)
                    self._compares = False
                if self._restores != self._versions.restores:
                    version, self._reason = None, "restored"
                if version is None:
                    version = await self._list()
                async with aclosing(self._server.watch(self.kind, version)) as events:  # type: ignore[type-var]
                    async for event in events:
                        self._sink.apply(self.kind, event)
                        self._versions.note(event.version)
                        self.error = ""
                        if event.version != version:  # not by the answer alone: a watch may be cut at once every time
                            version, self._failures = event.version, 0
            except VersionExpired:
                version, self._reason = None, "expired"
                self._failures += 1
            except SlackwaterError as error:  # whatever it is: the kind may come back, and the others go on
                self._compares = True
                if isinstance(error, KindNotServed) and version is not None:
                    version, self._reason = None, "served"
                self._note_failure(error)
            await self._clock.sleep(self._pause_seconds())

    async def _list(self) -> str:
        items: list[T] = []
        page, restores = "", self._versions.restores
        while True:
            answer = await self._server.list_page(self.kind, self._pace.page_size, page)
            items += answer.items
            page = answer.next_page
            if not page:
                break
        self._sink.replace(self.kind, items)
        self._meter.listed(self.kind.plural, self._reason)
        self._versions.note(answer.version)
        self._restores, self.error = restores, ""
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

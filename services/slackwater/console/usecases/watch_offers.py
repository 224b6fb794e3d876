"""Watches offers: those in force, then changes, with bookmarks; or, with a token, the changes since.

Level-triggered: a watcher is a position in a table that holds the newest offer of every node. A slow watcher skips
replaced offers; nothing is queued for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from slackwater.console.domain.offer_table import OfferTable, WantedOffers
from slackwater.console.domain.resume_token import ResumePoint, decode_token, encode_token
from slackwater.console.domain.views import OfferView
from slackwater.console.ports import OfferLog, OfferSight
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.time import Clock

AT_ONCE = 100
"""Changes read from the table at a time; a slow reader's remaining changes are read again later."""


class SnapshotReason(StrEnum):
    """Why a snapshot is sent instead of changes."""

    INITIAL = "initial"
    LOG_BEGAN_ANEW = "log_began_anew"


@dataclass(frozen=True, slots=True)
class SnapshotStarted:
    """The client must discard its state."""

    reason: SnapshotReason


@dataclass(frozen=True, slots=True)
class Offered:
    """In force now. `as_of` is the last time at which the log was read to its end."""

    offer: OfferView
    as_of: datetime


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The node no longer passes the filter."""

    node: str


@dataclass(frozen=True, slots=True)
class Current:
    """Everything published before `as_of` has been sent."""

    as_of: datetime


@dataclass(frozen=True, slots=True)
class WatchUpdate:
    """One message, and the token that resumes after it."""

    event: SnapshotStarted | Offered | Withdrawn | Current
    token: str


class _Watch:
    """One watcher's position in its table."""

    def __init__(self, log: OfferLog, sight: OfferSight, wanted: WantedOffers) -> None:
        self.sight = sight
        self._log = log
        self._wanted = wanted
        self._fingerprint = wanted.fingerprint()
        self._position = 0
        self._known_from = 0

    @property
    def token(self) -> str:
        return encode_token(ResumePoint(self.sight.epoch, self._position, self._fingerprint))

    async def begin(self, token: str) -> SnapshotReason | None:
        """Set the position to the token's, or to the start with the reason. Raises InvalidInput for a token that was
        not issued here.
        """
        if not token:
            return self.start_over(self.sight, SnapshotReason.INITIAL)
        point = decode_token(token)
        if point is None:
            raise InvalidInput(
                "resume_token: was not issued here; leave it out to begin with a snapshot", field="resume_token"
            )
        if point.fingerprint != self._fingerprint:
            raise InvalidInput(
                "resume_token: belongs to a watch with other filters; use those, or leave it out", field="resume_token"
            )
        end = await self._log.end()
        if point.epoch != end.epoch or point.sequence > end.sequence or self.sight.epoch != end.epoch:
            return self.start_over(self.sight, SnapshotReason.LOG_BEGAN_ANEW)
        self._position = self._known_from = point.sequence
        return None

    def start_over(self, sight: OfferSight, reason: SnapshotReason) -> SnapshotReason:
        self.sight, self._position, self._known_from = sight, 0, sight.table.position
        return reason

    def news(self, table: OfferTable) -> list[WatchUpdate]:
        """The next changes; empty when all of the table was sent."""
        changes, reached = table.news(self._position, self._known_from, self._wanted, AT_ONCE)
        told = []
        for change in changes:
            self._position = change.sequence
            event = Withdrawn(change.node) if change.offer is None else Offered(change.offer, self._log.as_of)
            told.append(WatchUpdate(event, self.token))
        self._position = max(self._position, reached)
        return told


async def watch_offers(
    log: OfferLog, clock: Clock, wanted: WantedOffers, token: str, every_seconds: float, leaving: asyncio.Event
) -> AsyncGenerator[WatchUpdate, None]:
    """Updates until the caller leaves. Raises InvalidInput for a token, Unavailable without a bus or when leaving."""
    with log.watching():
        watch = _Watch(log, await log.ready(), wanted)
        reason = await watch.begin(token)
        if reason is not None:
            yield WatchUpdate(SnapshotStarted(reason), watch.token)
        bookmarked_at, due = log.as_of, clock.monotonic()
        while True:
            while watch.sight is log.sight and (told := watch.news(watch.sight.table)):
                for update in told:
                    yield update
            if leaving.is_set():
                raise Unavailable("the server is stopping; connect again with the resume token", code="stopping")
            if watch.sight is not log.sight:
                sight = await log.ready()
                yield WatchUpdate(SnapshotStarted(watch.start_over(sight, SnapshotReason.LOG_BEGAN_ANEW)), watch.token)
                continue
            as_of = log.as_of
            if as_of > bookmarked_at and clock.monotonic() >= due:
                bookmarked_at, due = as_of, clock.monotonic() + every_seconds
                yield WatchUpdate(Current(as_of), watch.token)
                continue
            await log.changed(leaving)

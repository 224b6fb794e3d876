"""Reads events of several types without acknowledging, each with its position, so that a client can
resume.

No durable consumer is involved. The reader sets the pace: a slow one holds one batch in memory and
falls behind in the stream, until retention drops messages and it gets a Missed item.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from slackwater.bus.codec.cloudevents import subject_key
from slackwater.bus.codec.decoder import decode_attributes, decode_payload
from slackwater.events.codec.body import Undecodable
from slackwater.events.envelope import Payload
from slackwater.events.rosters import FindRoster, RosterMissing, no_roster
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event with its position: attributes decoded, body as published (empty if bodies were not
    requested).
    """

    payload: type[Payload]
    id: str
    source: str
    time: datetime
    causedby: str | None
    traceparent: str | None
    key: str
    stream: str
    sequence: int
    body: bytes
    find: FindRoster = no_roster

    def data(self) -> Payload:
        """Returns the payload, fully validated; a report with its pods. Raises Undecodable, Unavailable."""
        try:
            data = decode_payload(self.payload, self.body, self.find)
        except RosterMissing as missing:
            raise Undecodable(f"{self.payload.TYPE}: {missing}", code="roster_missing", field="roster") from None
        return data.shown()


class GapCause(StrEnum):
    """Reasons why a position is no longer in its stream."""

    EXPIRED = "expired"
    """Retention by age or size removed the messages after the position."""
    BEGAN_ANEW = "began_anew"
    """The stream ends before the position: the broker lost its tail, or the stream was recreated
    under that name.
    """


@dataclass(frozen=True, slots=True)
class StreamGap:
    """The messages after position `after` of a stream are gone; reading resumes behind
    `resumed_after`.
    """

    stream: str
    after: int
    resumed_after: int
    cause: GapCause


Item = StreamEvent | StreamGap


class StreamReader(Protocol):
    """An open read of some streams."""

    @property
    def positions(self) -> Mapping[str, int]:
        """Returns the position per stream to resume from, given that every item handed out was
        handled; initially the start. It also advances past messages outside the filter, so that it
        does not expire. A caller with unhandled items must use their positions.
        """
        ...

    async def next(self) -> Sequence[Item]:
        """Returns the next items, at least one; waits without limit. Order holds within a
        stream.
        """
        ...


class Mailbox:
    """Hands batches from several readers to one consumer: each reader waits until its batch is
    taken.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._closed = False

    async def put(self, items: Sequence[Item]) -> None:
        """Hand over a batch. Returns at once when closed."""
        while self._items and not self._closed:
            self._emptied.clear()
            await self._emptied.wait()
        if items and not self._closed:
            self._items = list(items)
            self._filled.set()

    async def next_items(self) -> Sequence[Item]:
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        items, self._items = self._items, []
        self._emptied.set()
        return items

    def close(self) -> None:
        self._closed = True
        self._emptied.set()


def by_stream(payloads: Sequence[type[Payload]]) -> dict[str, list[type[Payload]]]:
    """Returns the types grouped by the stream that keeps them."""
    grouped: dict[str, list[type[Payload]]] = {}
    for payload in payloads:
        grouped.setdefault(payload.STREAM, []).append(payload)
    return grouped


def resume_positions(
    stream: str, last_seen: int, first: int, last: int, *, last_value: bool
) -> tuple[int, StreamGap | None]:
    """Returns the position to read behind, given the last one seen (`last_seen`), and what is missing,
    if anything.

    `first` and `last` are the stream's bounds now. A last-value stream loses only superseded
    messages, so it has no gap.
    """
    if last_seen > last:
        return last, StreamGap(stream, last_seen, last, GapCause.BEGAN_ANEW)
    if last_seen + 1 < first and not last_value:
        return first - 1, StreamGap(stream, last_seen, first - 1, GapCause.EXPIRED)
    return last_seen, None


def bodies_of_reports(items: Sequence[Item]) -> list[bytes]:
    """Returns the bodies of the items that are joined with a roster."""
    return [
        item.body
        for item in items
        if isinstance(item, StreamEvent) and issubclass(item.payload, UsageReported) and item.body
    ]


def stream_event(
    payloads: Mapping[str, type[Payload]],
    subject: str,
    headers: Mapping[str, str] | None,
    body: bytes,
    stream: str,
    sequence: int,
    find: FindRoster = no_roster,
) -> StreamEvent | None:
    """Returns a message as an event; None if its attributes are invalid (its consumers dead-letter
    it).
    """
    payload = payloads.get(".".join(subject.split(".")[2:4]))
    if payload is None:
        return None
    try:
        attributes = decode_attributes(payload, headers)
    except (Undecodable, Unavailable):
        return None
    return StreamEvent(
        payload, **attributes, key=subject_key(subject), stream=stream, sequence=sequence, body=body, find=find
    )

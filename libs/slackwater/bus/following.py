"""Looking on: events of several types as they pass, each with its position, so that an onlooker can come back.

Nothing is acknowledged and nobody's consumer is touched. Reading goes at the pace of the reader: a slow one holds one
batch of its own in memory and stays behind in the stream, until the stream forgets and it is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from slackwater.bus.decoding import decode_attributes, decode_payload
from slackwater.bus.encoding import Undecodable, subject_key
from slackwater.events.envelope import Payload
from slackwater.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Followed:
    """One event where it stands: the attributes decoded, the body as published (empty if bodies were not asked for)."""

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

    def data(self) -> Payload:
        """The payload, validated wholly. Raises Undecodable, Unavailable."""
        return decode_payload(self.payload, self.body)


class Cause(StrEnum):
    """Why a position is not in its stream any more."""

    EXPIRED = "expired"
    """The stream keeps a limited time or size, and has let go of what followed."""
    BEGAN_ANEW = "began_anew"
    """The stream ends before the position: the broker lost its tail, or it is another stream of that name."""


@dataclass(frozen=True, slots=True)
class Missed:
    """What followed position `after` of a stream is gone; reading goes on behind `resumed_after`."""

    stream: str
    after: int
    resumed_after: int
    cause: Cause


Item = Followed | Missed


class Following(Protocol):
    """An open look at some streams."""

    @property
    def positions(self) -> Mapping[str, int]:
        """Where to go on from in each stream if nothing has come since the last item was taken: at first where it was
        begun. Moves on also while nothing is wanted, so that a place does not grow old. Whoever holds items that are
        not yet handled knows better."""
        ...

    async def next(self) -> Sequence[Item]:
        """What comes next, at least one item; waits for it as long as it takes. Order holds within a stream."""
        ...


class Mailbox:
    """Hands batches from several readers to one taker: each reader waits until its batch has been taken."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = False

    async def put(self, items: Sequence[Item]) -> None:
        """Returns at once when closed: nobody will take them."""
        while self._items and not self._closed:
            self._taken.clear()
            await self._taken.wait()
        if items and not self._closed:
            self._items = list(items)
            self._filled.set()

    async def take(self) -> Sequence[Item]:
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        items, self._items = self._items, []
        self._taken.set()
        return items

    def close(self) -> None:
        self._closed = True
        self._taken.set()


def by_stream(payloads: Sequence[type[Payload]]) -> dict[str, list[type[Payload]]]:
    """The wanted types by the stream that keeps them."""
    found: dict[str, list[type[Payload]]] = {}
    for payload in payloads:
        found.setdefault(payload.STREAM, []).append(payload)
    return found


def resumed(stream: str, wanted: int, first: int, last: int, *, last_value: bool) -> tuple[int, Missed | None]:
    """The position to read behind when `wanted` was the last one seen, and what is missing if something is.

    `first` and `last` are those of the stream now. A stream of last values loses only what was superseded: no gap.
    """
    if wanted > last:
        return last, Missed(stream, wanted, last, Cause.BEGAN_ANEW)
    if wanted + 1 < first and not last_value:
        return first - 1, Missed(stream, wanted, first - 1, Cause.EXPIRED)
    return wanted, None


def followed(
    payloads: Mapping[str, type[Payload]],
    subject: str,
    headers: Mapping[str, str] | None,
    body: bytes,
    stream: str,
    sequence: int,
) -> Followed | None:
    """A message as an event; None for what no event of ours looks like (its consumers dead-letter it)."""
    payload = payloads.get(".".join(subject.split(".")[2:4]))
    if payload is None:
        return None
    try:
        attributes = decode_attributes(payload, headers)
    except (Undecodable, Unavailable):
        return None
    return Followed(payload, **attributes, key=subject_key(subject), stream=stream, sequence=sequence, body=body)

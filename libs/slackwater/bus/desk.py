"""The operator's desk on the broker: how far consumers are, what was given up, and giving it another chance.

Asked when somebody looks; nothing here runs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn, Protocol, runtime_checkable

from slackwater.bus.encoding import MESSAGE_ID, Message, subject_key
from slackwater.events.registry import FROM_AGENTS, RECORDED_BY_SERVICES_TOO, RECORDERS
from slackwater.model.errors import Unavailable

REPLAYED_FROM = "sw-replayed-from"
"""Header of a message that came out of the dead letters: the position of the letter there."""
_LETTER_HEADERS = ("sw-reason", "sw-detail", "sw-consumer", "sw-subject", "sw-stream-sequence")
_BROKER_HEADERS = ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Expected-Stream")


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A durable consumer as the broker sees it. `pending` are not delivered yet, `unsettled` delivered and not
    settled, `redelivered` of these have been delivered before. A partitioned one is the sum of its partitions."""

    name: str
    stream: str
    pending: int
    unsettled: int
    redelivered: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that one consumer gave up, as it lies in the dead letters. `position` names it there.

    `identity` stays the same if the letter is buried once more; `subject` is where the message came from.
    """

    position: int
    identity: str
    buried_at: datetime | None
    consumer: str
    reason: str
    detail: str
    subject: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers.get("ce-id", "")

    @property
    def event_type(self) -> str:
        return self.headers.get("ce-type", "")

    @property
    def sender(self) -> str:
        """The node whose agent sent the message, by its subject; empty if a service sent it."""
        if not any(self.subject.startswith(f"sw.v1.{payload.TYPE}.") for payload in FROM_AGENTS):
            return ""
        shared = any(self.subject.startswith(f"sw.v1.{payload.TYPE}.") for payload in RECORDED_BY_SERVICES_TOO)
        if shared and self.headers.get("ce-source") in RECORDERS:
            return ""
        return subject_key(self.subject).split("/", 1)[0]

    def again(self, message_id: str) -> Message:
        """The message as it was, under a new message id. The event's own id stays: who handled it drops it by that."""
        kept = {k: v for k, v in self.headers.items() if k not in (*_LETTER_HEADERS, *_BROKER_HEADERS, MESSAGE_ID)}
        return Message(self.subject, {**kept, MESSAGE_ID: message_id, REPLAYED_FROM: str(self.position)}, self.body)


def letter_of(position: int, headers: Mapping[str, str], body: bytes, buried_at: datetime | None) -> Letter:
    """A stored message of the dead letters as a letter."""
    return Letter(
        position=position,
        identity=headers.get(MESSAGE_ID, f"#{position}"),
        buried_at=buried_at,
        consumer=headers.get("sw-consumer", ""),
        reason=headers.get("sw-reason", "unknown"),
        detail=headers.get("sw-detail", ""),
        subject=headers.get("sw-subject", ""),
        headers=headers,
        body=body,
    )


@dataclass(frozen=True, slots=True)
class Newest:
    """The last message on a subject: its event id and whether its stream keeps only that one."""

    event_id: str
    last_value_only: bool


class Desk(Protocol):
    """Every method raises Unavailable when the broker does not answer in time."""

    async def consumers(self) -> Sequence[ConsumerState]:
        """Every durable consumer that the broker knows, by name."""
        ...

    async def letters(self, before: int | None = None, limit: int = 50) -> Sequence[Letter]:
        """Newest first; with `before` only those in front of that position."""
        ...

    async def letter_count(self) -> int:
        """How many lie there."""
        ...

    async def letter(self, position: int) -> Letter | None: ...

    async def newest_on(self, subject: str) -> Newest | None:
        """What a message on this subject would stand behind; None when nothing is kept of it."""
        ...

    async def put_back(self, message: Message) -> None:
        """Publish a message of a letter to where it came from. The broker drops a message id that it has seen."""
        ...

    async def last_body(self, subject: str) -> bytes | None:
        """The body of the last message on a subject (wildcards: on any of them)."""
        ...


@runtime_checkable
class WithDesk(Protocol):
    """A bus that has a desk."""

    def desk(self) -> Desk: ...


class ClosedDesk:
    """The desk of a bus that has none: everything is unavailable."""

    async def _closed(self, *_: object, **__: object) -> NoReturn:
        raise Unavailable("this bus cannot be looked into")

    consumers = letters = letter = letter_count = newest_on = put_back = last_body = _closed


def desk_of(bus: object) -> Desk:
    """The desk of a bus, or a closed one."""
    return bus.desk() if isinstance(bus, WithDesk) else ClosedDesk()

"""Operator access to the broker: consumer lag, dead letters, and replaying them.

Everything runs on request; nothing here runs by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn, Protocol, runtime_checkable

from slackwater.bus.codec.cloudevents import MESSAGE_ID, Message, subject_key
from slackwater.events.envelope import is_of_agent
from slackwater.events.registry import EVENTS
from slackwater.model.errors import Unavailable

REPLAYED_FROM = "sw-replayed-from"
"""Header of a message replayed from the dead letters: the letter's position there."""
_LETTER_HEADERS = ("sw-reason", "sw-detail", "sw-consumer", "sw-subject", "sw-stream-sequence")
_BROKER_HEADERS = ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Expected-Stream")


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A durable consumer as the broker reports it. `pending` are not yet delivered, `unsettled` are
    delivered and not settled, `redelivered` are those of them delivered before. A partitioned
    consumer is the sum of its partitions.
    """

    name: str
    stream: str
    pending: int
    unsettled: int
    redelivered: int


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A message that one consumer gave up, as stored in the dead letters. `position` is its
    position there.

    `identity` stays the same if the letter is buried again; `subject` is the original subject.
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
        """The node whose agent sent the message, from its subject; empty if a service sent it."""
        event = next((payload for payload in EVENTS if self.subject.startswith(f"sw.v1.{payload.TYPE}.")), None)
        if event is None or not is_of_agent(event, self.subject):
            return ""
        return subject_key(self.subject).split("/", 1)[0]

    def again(self, message_id: str) -> Message:
        """Returns the original message under a new message id. The event id is unchanged, so a
        consumer that handled it deduplicates it.
        """
        kept = {k: v for k, v in self.headers.items() if k not in (*_LETTER_HEADERS, *_BROKER_HEADERS, MESSAGE_ID)}
        return Message(self.subject, {**kept, MESSAGE_ID: message_id, REPLAYED_FROM: str(self.position)}, self.body)


def dead_letter_row(
    position: int, headers: Mapping[str, str], body: bytes, buried_at: datetime | None
) -> DeadLetterRow:
    """Returns a stored message of the dead letters as a letter."""
    return DeadLetterRow(
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
    """The last message on a subject: its event id, and whether its stream keeps only the last."""

    event_id: str
    last_value_only: bool


class BrokerAdmin(Protocol):
    """Operator requests. Every method raises Unavailable when the broker does not answer in
    time.
    """

    async def consumers(self) -> Sequence[ConsumerState]:
        """Returns every durable consumer of the broker, by name."""
        ...

    async def letters(self, before: int | None = None, limit: int = 50) -> Sequence[DeadLetterRow]:
        """Returns letters, newest first; with `before` only those before that position."""
        ...

    async def letter_count(self) -> int:
        """Returns the number of letters."""
        ...

    async def letter(self, position: int) -> DeadLetterRow | None: ...

    async def newest_on(self, subject: str) -> Newest | None:
        """Returns the last message on the subject; None when its stream keeps none."""
        ...

    async def put_back(self, message: Message) -> None:
        """Publish a letter's message to its original subject. The broker drops a message id that it
        has seen.
        """
        ...

    async def last_body(self, subject: str) -> bytes | None:
        """Returns the body of the last message on a subject (wildcards: on any of them)."""
        ...


@runtime_checkable
class WithAdmin(Protocol):
    """A bus that has a desk."""

    def desk(self) -> BrokerAdmin: ...


class ClosedAdmin:
    """The desk of a bus without one: every method raises Unavailable."""

    async def _closed(self, *_: object, **__: object) -> NoReturn:
        raise Unavailable("this bus has no operator access")

    consumers = letters = letter = letter_count = newest_on = put_back = last_body = _closed


def admin_of(bus: object) -> BrokerAdmin:
    """Returns the desk of a bus, or a closed one."""
    return bus.desk() if isinstance(bus, WithAdmin) else ClosedAdmin()

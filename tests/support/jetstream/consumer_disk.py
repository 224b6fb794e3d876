"""What of a consumer is on the disk, and what is not yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Unacknowledged:
    """One delivered message: its first delivery's number, and when it is delivered again."""

    consumer_sequence: int
    due: float


@dataclass(frozen=True, slots=True)
class UnflushedChange:
    """The state of one message, and the consumer's position, before a change that is not on the disk yet."""

    sequence: int
    unacknowledged: Unacknowledged | None
    deliveries: int | None
    delivered_consumer: int
    delivered_stream: int


@dataclass(frozen=True, slots=True)
class ConsumerSnapshot:
    """What of a consumer is on the disk."""

    delivered_consumer: int
    delivered_stream: int
    unacknowledged: Mapping[int, Unacknowledged]
    deliveries: Mapping[int, int]
    unread: tuple[int, ...]

"""Counters of one consumer, for telemetry to read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """Counts since this process opened the consumer. `pending` is what the broker still held at the
    last delivery; `skipped` messages were left unread under overload; `letters_dropped` were given
    up without a dead letter, because their node exceeded its limit.
    """

    delivered: int = 0
    done: int = 0
    retried: int = 0
    rejected: int = 0
    undecodable: int = 0
    exhausted: int = 0
    handler_failures: int = 0
    pending: int = 0
    skipped: int = 0
    letters_dropped: int = 0


@dataclass(slots=True)
class Counters:
    """Mutable form of ConsumerStats."""

    delivered: int = 0
    done: int = 0
    retried: int = 0
    rejected: int = 0
    undecodable: int = 0
    exhausted: int = 0
    handler_failures: int = 0
    pending: int = 0
    skipped: int = 0
    letters_dropped: int = 0

    def snapshot(self) -> ConsumerStats:
        return ConsumerStats(
            self.delivered,
            self.done,
            self.retried,
            self.rejected,
            self.undecodable,
            self.exhausted,
            self.handler_failures,
            self.pending,
            self.skipped,
            self.letters_dropped,
        )

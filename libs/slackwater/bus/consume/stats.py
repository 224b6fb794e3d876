"""Counters of one consumer, for telemetry to read."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(slots=True)
class Counters:
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

    def snapshot(self) -> Counters:
        """Returns a copy that later messages do not change."""
        return replace(self)

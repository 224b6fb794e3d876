"""One stream: messages by sequence, limits, and the window in which a repeated message id is dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.support.jetstream.api_errors import message_too_large, require_modelled, stream_full
from tests.support.jetstream.subjects import matches, matches_any

from slackwater.bus.codec.cloudevents import MESSAGE_ID, Message

_UNLIMITED = float("inf")
_FILE_RECORD_BYTES, _MEMORY_RECORD_BYTES = 30, 16
_HEADER_LINE_BYTES, _HEADER_BLOCK_BYTES, _HEADER_LENGTH_BYTES = 4, 12, 4

DEFAULTS: Mapping[str, Any] = {
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "discard": "old",
    "storage": "file",
    "duplicate_window": 120_000_000_000,
    "compression": "none",
    "allow_direct": False,
}

_KNOWN: Mapping[str, Collection[Any] | None] = {
    **dict.fromkeys(DEFAULTS),
    "name": None,
    "subjects": None,
    "metadata": None,
    "retention": ("limits",),
    "max_msgs": (-1, 0),
    "num_replicas": (0, 1),
    "storage": ("file", "memory"),
    "discard": ("old", "new"),
    **dict.fromkeys(("no_ack", "sealed", "deny_delete", "deny_purge", "allow_rollup_hdrs", "mirror_direct"), (False,)),
    **dict.fromkeys(("discard_new_per_subject", "allow_msg_ttl", "allow_atomic", "allow_msg_counter"), (False,)),
    **dict.fromkeys(("allow_msg_schedules", "allow_batched"), (False,)),
}
"""Keys of a stream's configuration, with the values that are modelled."""


def normalized(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a configuration with the server's defaults; the window of message ids is no longer than the age."""
    require_modelled("stream", config, _KNOWN)
    whole = {**DEFAULTS, **config}
    window, age = whole["duplicate_window"] or DEFAULTS["duplicate_window"], whole["max_age"]
    return {**whole, "duplicate_window": min(window, age) if age else window}


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored message. `seconds` is monotonic time, `at` the server's wall clock."""

    message: Message
    seconds: float
    at: datetime
    size: int


@dataclass(frozen=True, slots=True)
class StreamSnapshot:
    """What of a stream is on the disk."""

    messages: Mapping[int, Stored]
    last_sequence: int


def _unnoticed(sequence: int, subject: str) -> None:
    """Default callback: does nothing."""


class MemoryStream:
    """Messages in order of their sequences. `config` is JetStream's, as its API has it (nanoseconds, bytes)."""

    def __init__(self, name: str, config: Mapping[str, Any], created: datetime) -> None:
        self.name = name
        self.created = created
        self.messages: dict[int, Stored] = {}
        self.last_sequence = 0
        self.bytes = 0
        self.removed: Callable[[int, str], None] = _unnoticed
        """Called with the sequence and subject of each removed message."""
        self.is_refusing = False
        """No room: JetStream answers nothing, as on a full disk."""
        self._by_subject: dict[str, dict[int, None]] = {}
        self._ids: dict[str, tuple[int, float]] = {}
        self._id_order: deque[tuple[float, str]] = deque()
        self.configure(config)

    def configure(self, config: Mapping[str, Any]) -> None:
        """Apply a configuration, also its limits to what is stored already, except for those of age."""
        self.config = normalized(config)
        self.subjects = tuple(self.config["subjects"])
        self.is_in_memory = self.config["storage"] == "memory"
        self._discards_new = self.config["discard"] == "new"
        self._most_bytes = self.config["max_bytes"] if self.config["max_bytes"] > 0 else _UNLIMITED
        self._most_message_bytes = self.config["max_msg_size"] if self.config["max_msg_size"] > 0 else _UNLIMITED
        self._per_subject = self.config["max_msgs_per_subject"] if self.config["max_msgs_per_subject"] > 0 else None
        self._longest_age = self.config["max_age"] / 1e9 or _UNLIMITED
        self._window = self.config["duplicate_window"] / 1e9
        self._record_bytes = _MEMORY_RECORD_BYTES if self.is_in_memory else _FILE_RECORD_BYTES

    @property
    def first_sequence(self) -> int:
        """The sequence of the first message, or the one that follows the last if there is none."""
        return next(iter(self.messages), self.last_sequence + 1)

    def store(self, message: Message, seconds: float, at: datetime) -> tuple[int, bool]:
        """Append a message; returns its sequence, and whether it was there already. Raises JetStreamError when full."""
        self.expire(seconds)
        identity = message.headers.get(MESSAGE_ID)
        if identity is not None:
            known = self._ids.get(identity)
            if known is not None and seconds - known[1] < self._window:
                return known[0], True
        if _header_bytes(message.headers) + len(message.body) > self._most_message_bytes:
            raise message_too_large()
        size = self._size(message)
        if self._discards_new and self.bytes + size >= self._most_bytes and not self._replaces(message.subject, size):
            raise stream_full()
        self.last_sequence = sequence = self.last_sequence + 1
        if identity is not None:
            self._remember(identity, sequence, seconds)
        self.messages[sequence] = Stored(message, seconds, at, size)
        self.bytes += size
        same = self._by_subject.setdefault(message.subject, {})
        same[sequence] = None
        while self._per_subject is not None and len(same) > self._per_subject:
            self.remove(next(iter(same)))
        while self.bytes > self._most_bytes:
            self.remove(next(iter(self.messages)))
        return sequence, False

    def _replaces(self, subject: str, size: int) -> bool:
        """Returns whether a message takes the place of one of its subject that is at least as large."""
        same = self._by_subject.get(subject, {})
        if self._per_subject is None or len(same) < self._per_subject:
            return False
        return size <= self.messages[next(iter(same))].size

    def expire(self, seconds: float) -> None:
        """Remove what is older than the limit."""
        horizon = seconds - self._longest_age
        messages = self.messages
        while messages:
            first = next(iter(messages))
            if messages[first].seconds > horizon:
                return
            self.remove(first)

    def remove(self, sequence: int) -> None:
        """Remove one message, as retention does."""
        stored = self.messages.pop(sequence)
        self.bytes -= stored.size
        subject = stored.message.subject
        same = self._by_subject[subject]
        del same[sequence]
        if not same:
            del self._by_subject[subject]
        self.removed(sequence, subject)

    def purge(self, before: int | None = None, subject: str | None = None) -> int:
        """Remove all messages (before a sequence, on a subject); returns their number."""
        gone = [
            sequence
            for sequence, stored in self.messages.items()
            if (before is None or sequence < before) and (subject is None or matches(subject, stored.message.subject))
        ]
        for sequence in gone:
            self.remove(sequence)
        return len(gone)

    def last_on(self, pattern: str) -> int | None:
        """Returns the sequence of the last message on a subject, or on any that matches."""
        if "*" not in pattern and ">" not in pattern:
            same = self._by_subject.get(pattern)
            return next(reversed(same)) if same else None
        lasts = [next(reversed(same)) for subject, same in self._by_subject.items() if matches(pattern, subject)]
        return max(lasts, default=None)

    def last_of_each(self, patterns: tuple[str, ...]) -> list[int]:
        """Returns the last sequence of every matching subject, in order."""
        return sorted(
            next(reversed(same)) for subject, same in self._by_subject.items() if matches_any(patterns, subject)
        )

    def counts(self, pattern: str) -> dict[str, int]:
        """Returns the number of messages on each matching subject."""
        return {subject: len(same) for subject, same in self._by_subject.items() if matches(pattern, subject)}

    def snapshot(self) -> StreamSnapshot:
        """Returns what a restart would find now."""
        return StreamSnapshot(dict(self.messages), self.last_sequence)

    def is_as_in(self, snapshot: StreamSnapshot | None) -> bool:
        """Returns whether nothing was stored or removed since the snapshot."""
        return (
            snapshot is not None
            and snapshot.last_sequence == self.last_sequence
            and len(snapshot.messages) == len(self.messages)
        )

    def restore(self, snapshot: StreamSnapshot, seconds: float) -> None:
        """Go back to a snapshot. Message ids are those of the stored messages, as after a restart."""
        self.messages = dict(snapshot.messages)
        self.last_sequence = snapshot.last_sequence
        self.bytes = sum(stored.size for stored in self.messages.values())
        self._by_subject, self._ids, self._id_order = {}, {}, deque()
        for sequence, stored in self.messages.items():
            self._by_subject.setdefault(stored.message.subject, {})[sequence] = None
            identity = stored.message.headers.get(MESSAGE_ID)
            if identity is not None and seconds - stored.seconds < self._window:
                self._remember(identity, sequence, stored.seconds)

    def _remember(self, identity: str, sequence: int, seconds: float) -> None:
        self._ids[identity] = sequence, seconds
        order = self._id_order
        order.append((seconds, identity))
        while order and seconds - order[0][0] >= self._window:
            since, old = order.popleft()
            if self._ids.get(old, (0, since))[1] == since:
                self._ids.pop(old, None)

    def _size(self, message: Message) -> int:
        size = self._record_bytes + len(message.subject) + len(message.body)
        if message.headers:
            size += _header_bytes(message.headers) + (0 if self.is_in_memory else _HEADER_LENGTH_BYTES)
        return size


def _header_bytes(headers: Mapping[str, str]) -> int:
    if not headers:
        return 0
    lines = sum(map(len, headers)) + sum(map(len, headers.values())) + len(headers) * _HEADER_LINE_BYTES
    return lines + _HEADER_BLOCK_BYTES

"""What becomes of a message that cannot be handled: its body, its headers, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.bus.encoding import MESSAGE_ID, Message

DETAIL_CHARACTERS = 500
BODY_BYTES = 1_000_000
HEADER_CHARACTERS, MOST_HEADERS = 1024, 16
"""A letter is larger than its message by what it says about it: what nearly filled a message is cut, and says so."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message given up by one consumer. `reason` is stable, `detail` is for people."""

    consumer: str
    reason: str
    detail: str
    subject: str
    headers: Mapping[str, str]
    body: bytes
    stream_sequence: int

    def message(self) -> Message:
        """As it is published. The message id is per consumer and position: burying twice leaves one letter."""
        identity = self.headers.get("ce-id", "")
        kept = {name: text for name, text in self.headers.items() if len(text) <= HEADER_CHARACTERS}
        headers = {
            **dict(list(kept.items())[:MOST_HEADERS]),
            MESSAGE_ID: f"{self.consumer}:{self.stream_sequence}:{identity}",
            "sw-reason": self.reason,
            "sw-detail": _one_line(self.detail),
            "sw-consumer": self.consumer,
            "sw-subject": self.subject,
            "sw-stream-sequence": str(self.stream_sequence),
        }
        if len(self.body) > BODY_BYTES:
            headers["sw-cut-from-bytes"] = str(len(self.body))
        return Message(f"sw.v1.dlq.{self.consumer}", headers, self.body[:BODY_BYTES])


def _one_line(text: str) -> str:
    """Header values are one line of printable ASCII."""
    line = " ".join(text.split())[:DETAIL_CHARACTERS]
    return line.encode("ascii", "backslashreplace").decode()

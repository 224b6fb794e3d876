"""What becomes of a message that cannot be handled: its body, its headers, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.bus.encoding import MESSAGE_ID, Message
from slackwater.bus.failures import node_of

DETAIL_CHARACTERS = 500
BODY_BYTES = 1_000_000
HEADER_CHARACTERS, MOST_HEADERS = 1024, 16
"""A letter is larger than its message by what it says about it: what nearly filled a message is cut, and says so."""
NODE_CHARACTERS = 253

_OURS_FIRST = frozenset({"traceparent"})
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""Names of headers that the client sends."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


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

    @property
    def node(self) -> str:
        """The node that the message is about; the broker lets an agent publish about its own node only."""
        return node_of(self.subject)

    def message(self, *, most_body_bytes: int = BODY_BYTES, also: Mapping[str, str] | None = None) -> Message:
        """As it is published. The message id is per consumer and position: burying twice leaves one letter. `also` are
        further headers; with a smaller `most_body_bytes` than usual only the attributes of the event are kept."""
        identity = self.headers.get("ce-id", "")
        bare = most_body_bytes < BODY_BYTES
        headers = {
            **_kept(self.headers, bare=bare),
            MESSAGE_ID: _sendable(f"{self.consumer}:{self.stream_sequence}:{identity}"[:HEADER_CHARACTERS]),
            "sw-reason": self.reason,
            "sw-detail": _one_line(self.detail),
            "sw-consumer": self.consumer,
            "sw-subject": _sendable(self.subject),
            "sw-stream-sequence": str(self.stream_sequence),
            **(also or {}),
        }
        if node := self.node:
            headers["sw-node"] = _one_line(node)[:NODE_CHARACTERS]
        if len(self.body) > most_body_bytes:
            headers["sw-cut-from-bytes"] = str(len(self.body))
        return Message(f"sw.v1.dlq.{self.consumer}", headers, self.body[:most_body_bytes])


def _kept(headers: Mapping[str, str], *, bare: bool) -> dict[str, str]:
    """Those of the message that a letter carries: the event's attributes and its trace first. What pretends to be a
    letter's own, or cannot be sent, is left out."""
    fit = {
        name: _sendable(text)
        for name, text in headers.items()
        if len(text) <= HEADER_CHARACTERS and _NAME.fullmatch(name) and not name.lower().startswith("sw-")
    }
    first = {name: text for name, text in fit.items() if _is_of_event(name)}
    others = {} if bare else {name: text for name, text in fit.items() if not _is_of_event(name)}
    return dict([*first.items(), *others.items()][:MOST_HEADERS])


def _is_of_event(name: str) -> bool:
    return name.lower().startswith("ce-") or name.lower() in _OURS_FIRST


def _sendable(text: str) -> str:
    """The same text wherever it can be a header; control characters and lone surrogates are written as escapes."""
    if _CONTROLS.search(text):
        text = _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return text.encode("utf-8", "backslashreplace").decode()


def _one_line(text: str) -> str:
    """Header values are one line of printable ASCII."""
    line = _CONTROLS.sub(" ", " ".join(text.split()))[:DETAIL_CHARACTERS]
    return line.encode("ascii", "backslashreplace").decode()

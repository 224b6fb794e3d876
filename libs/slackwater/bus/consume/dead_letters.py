"""Dead letters: a message that cannot be handled, with its headers and the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.bus.codec.cloudevents import MESSAGE_ID, Message
from slackwater.bus.codec.failures import node_of

DETAIL_CHARACTERS = 500
BODY_BYTES = 1_000_000
HEADER_CHARACTERS, MOST_HEADERS, ALL_HEADERS_CHARACTERS = 1024, 16, 4096
"""Limits on copied headers: of each, of their number, and of all together. The letter adds headers to its message, so a
message near the size limit is truncated and marked.
"""
NODE_CHARACTERS = 253

_OURS_FIRST = frozenset({"traceparent"})
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""Header names that the client can send."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that one consumer gave up. `reason` is a stable code, `detail` is text for the
    operator.
    """

    consumer: str
    reason: str
    detail: str
    subject: str
    headers: Mapping[str, str]
    body: bytes
    stream_sequence: int

    @property
    def node(self) -> str:
        """The node that the message is about; the broker lets an agent publish only about its own
        node.
        """
        return node_of(self.subject)

    def message(self, *, most_body_bytes: int = BODY_BYTES, also: Mapping[str, str] | None = None) -> Message:
        """Returns the letter as it is published. The message id is built from consumer and
        position, so burying twice leaves one letter. `also` are further headers; with a smaller
        `most_body_bytes` than usual only the event's attributes are kept.
        """
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
    """Returns the headers that a letter carries, the event's attributes and trace first. Headers
    that imitate the letter's own, or cannot be sent, are left out.
    """
    fit = {
        name: _sendable(text)
        for name, text in headers.items()
        if len(text) <= HEADER_CHARACTERS and _NAME.fullmatch(name) and not name.lower().startswith("sw-")
    }
    first = {name: text for name, text in fit.items() if _is_of_event(name)}
    others = {} if bare else {name: text for name, text in fit.items() if not _is_of_event(name)}
    kept, left = dict[str, str](), ALL_HEADERS_CHARACTERS
    for name, text in [*first.items(), *others.items()][:MOST_HEADERS]:
        left -= len(name) + len(text)
        if left >= 0:
            kept[name] = text
    return kept


def _is_of_event(name: str) -> bool:
    return name.lower().startswith("ce-") or name.lower() in _OURS_FIRST


def _sendable(text: str) -> str:
    """Returns the text unchanged where a header can hold it; control characters and lone surrogates
    are escaped.
    """
    if _CONTROLS.search(text):
        text = _CONTROLS.sub(lambda control: f"\\x{ord(control[0]):02x}", text)
    return text.encode("utf-8", "backslashreplace").decode()


def _one_line(text: str) -> str:
    """Returns the text as one line of printable ASCII, the form of header values."""
    line = _CONTROLS.sub(" ", " ".join(text.split()))[:DETAIL_CHARACTERS]
    return line.encode("ascii", "backslashreplace").decode()

"""Pull requests of clients, as the server holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

NANOSECONDS = 1_000_000_000
NO_MESSAGES, TIMED_OUT, DELETED = (404, "No Messages"), (408, "Request Timeout"), (409, "Consumer Deleted")
HEARTBEAT = (100, "Idle Heartbeat")


@lru_cache(maxsize=256)
def pull_options(body: bytes) -> Mapping[str, Any]:
    """Returns the options in the body of a request: a client sends the same few over and over."""
    options: Mapping[str, Any] = MappingProxyType(json.loads(body))
    return options


class Requester(Protocol):
    """The connection of a request. It is_subscribed nothing when it has closed or unsubscribed."""

    def deliver(
        self, target: str, subject: str, reply: str, headers: Mapping[str, str] | None, body: bytes
    ) -> bool: ...
    def is_subscribed(self, target: str) -> bool: ...


class PullRequest:
    """One open request of a client."""

    __slots__ = (
        "beats_at",
        "expires_at",
        "heartbeat_seconds",
        "is_no_wait",
        "is_open",
        "left",
        "reply",
        "requester",
        "sent",
    )

    def __init__(self, requester: Requester, reply: str, wanted: Mapping[str, Any], now: float) -> None:
        self.requester = requester
        self.reply = reply
        self.left = int(wanted.get("batch") or 1)
        self.sent = 0
        self.is_open = True
        self.is_no_wait = bool(wanted.get("no_wait"))
        expires = wanted.get("expires", 0) / NANOSECONDS
        self.expires_at = now + expires if expires else None
        self.heartbeat_seconds = wanted.get("idle_heartbeat", 0) / NANOSECONDS
        self.beats_at = now + self.heartbeat_seconds if self.heartbeat_seconds else None

    def status(self, status: tuple[int, str], more: Mapping[str, str] | None = None) -> None:
        """Send a status. All but a heartbeat end the request."""
        self.is_open = status is HEARTBEAT
        self.requester.deliver(
            self.reply, self.reply, "", {"Status": str(status[0]), "Description": status[1], **(more or {})}, b""
        )

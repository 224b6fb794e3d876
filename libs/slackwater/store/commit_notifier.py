"""Notifies the relays of a process of commits: directly for its own commits, else through
PostgreSQL's NOTIFY.

The notification covers other processes, and commits whose outcome is unknown. For a commit of this
process it would arrive 2 to 15 ms later in a busy service, because it passes a third process and a
second socket. Both carry the same token, and the first to arrive wakes the relay.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

_MOST_TOKENS = 1000
"""Tokens seen once and kept. Tokens of other processes never come twice; local ones do only while a
relay listens.
"""


class CommitNotifier:
    """Commit notifications of one service's outbox in this process."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._seen_once: set[str] = set()
        self._wakes: list[Callable[[], None]] = []

    def token(self) -> str:
        """Returns a unique token for one commit."""
        return f"{self._process}.{next(self._numbers)}"

    def wakes(self, wake: Callable[[], None]) -> None:
        """Register a callback for every possible commit."""
        self._wakes.append(wake)

    def notify(self, token: str) -> None:
        """Report a commit. A token seen before is ignored; an empty one always wakes the relays."""
        if token in self._seen_once:
            self._seen_once.discard(token)
            return
        if token:
            if len(self._seen_once) >= _MOST_TOKENS:
                self._seen_once.clear()  # at worst a relay wakes without work
            self._seen_once.add(token)
        for wake in self._wakes:
            wake()

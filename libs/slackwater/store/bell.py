"""How the relays of a process hear of a commit: from whoever made it, at once, or from PostgreSQL's NOTIFY.

The notification is what other processes send, and what comes of a commit whose end nobody saw; of a commit of our own
it comes by a third process and a second socket, and in a busy service 2 to 15 ms later. Both say the same word, and the
first of the two wakes.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

_MOST_WORDS = 1000
"""Heard once so far. Words of other processes are never heard twice, and ours only while a relay listens."""


class Bell:
    """Of one service's outbox in this process."""

    def __init__(self) -> None:
        self._process = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._heard_once: set[str] = set()
        self._wakes: list[Callable[[], None]] = []

    def word(self) -> str:
        """For one commit."""
        return f"{self._process}.{next(self._numbers)}"

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call this whenever something may have been committed."""
        self._wakes.append(wake)

    def hear(self, word: str) -> None:
        """A commit is told. The second time it is known already; without a word it is always news."""
        if word in self._heard_once:
            self._heard_once.discard(word)
            return
        if word:
            if len(self._heard_once) >= _MOST_WORDS:
                self._heard_once.clear()  # at worst somebody is woken for nothing
            self._heard_once.add(word)
        for wake in self._wakes:
            wake()

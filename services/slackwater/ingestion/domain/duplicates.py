"""Detects two agents that report as one node. The newest boot counts; what the other one sends is refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

CONFIRMED_AFTER: Final = timedelta(seconds=30)
"""How long both have to report. An agent that is replaced by the next boot of its machine reports no more."""
FORGOTTEN_AFTER: Final = timedelta(seconds=60)
REPEATED_EVERY: Final = timedelta(seconds=60)
VALID_FOR: Final = timedelta(seconds=150)
"""Of an announcement, so that it lapses without one that takes it back."""


@dataclass(slots=True)
class _Rival:
    """The refused agent of a node."""

    since: datetime
    last_at: datetime
    announced_at: datetime | None = None


class DuplicateAgents:
    """The refused agents by node. Not stored: a replica that takes over a partition finds them again."""

    def __init__(self) -> None:
        self._rivals: dict[str, _Rival] = {}

    def refused(self, node: str, at: datetime, running_at: datetime | None) -> bool:
        """Notes a refused report of another boot than the running agent's, which last reported at `running_at`. Returns
        whether both are known to be at work.
        """
        rival = self._rivals.get(node)
        if rival is None or at - rival.last_at > FORGOTTEN_AFTER:
            rival = self._rivals[node] = _Rival(at, at)
        rival.last_at = at
        return running_at is not None and min(at, running_at) - rival.since >= CONFIRMED_AFTER

    def to_announce(self, node: str, at: datetime) -> datetime | None:
        """Returns since when a node has a second agent, once per REPEATED_EVERY; None in between."""
        rival = self._rivals[node]
        if rival.announced_at is not None and at - rival.announced_at < REPEATED_EVERY:
            return None
        rival.announced_at = at
        return rival.since

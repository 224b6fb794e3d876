"""The log of listed events: rows of one table for every type, and the filter of their list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """One stored event. `node` is empty for an event that is not about a node; `data` is the payload."""

    id: str
    type: str
    source: str
    node: str
    time: datetime
    causedby: str | None
    """The id of the event that caused this one."""
    trace: str | None
    """The trace id, shared with the decisions and events of the same chain."""
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What to list, newest first. None means all; `before` is the time and id of the last event already shown."""

    types: tuple[str, ...] | None = None
    node: str | None = None
    trace: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 50

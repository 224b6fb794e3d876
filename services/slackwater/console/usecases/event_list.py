"""The page of listed events: one table for every type, with columns from the fields that a type declares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from slackwater.console.domain.event_log import EventFilter, ListedEvent
from slackwater.console.ports import ReadQueries
from slackwater.events.envelope import Payload
from slackwater.events.registry import EVENTS

PAGE = 40
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
"""A time in UTC as JSON has it."""
LISTED: Mapping[str, type[Payload]] = {payload.TYPE: payload for payload in EVENTS if payload.LISTED}
"""The listed events by type."""
_LINKED = frozenset({"node", "decision_id"})
"""Fields shown as links in columns of their own."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """A row of the page. `fields` are names and texts of the fields that have a value, in the event's order."""

    event: ListedEvent
    fields: Mapping[str, str]
    decision_id: str


@dataclass(frozen=True, slots=True)
class EventList:
    """`/events`: one page, newest first; `columns` are the fields of the chosen type, empty without one."""

    now: datetime
    asked: EventFilter
    columns: tuple[str, ...]
    lines: Sequence[EventLine]
    older: bool


async def event_list(reads: ReadQueries, asked: EventFilter, now: datetime) -> EventList:
    events = await reads.events(replace(asked, limit=PAGE + 1))
    columns = columns_of(LISTED[asked.types[0]]) if asked.types and len(asked.types) == 1 else ()
    return EventList(now, asked, columns, [_line(event) for event in events[:PAGE]], len(events) > PAGE)


def columns_of(payload: type[Payload]) -> tuple[str, ...]:
    """The fields of an event that its list shows, as declared."""
    return tuple(name for name in payload.model_fields if name not in _LINKED)


def _line(event: ListedEvent) -> EventLine:
    decision = event.data.get("decision_id")
    shown = {name: _text(value) for name, value in event.data.items() if name not in _LINKED}
    fields = {name: _time(text, event.time) for name, text in shown.items() if text}
    return EventLine(event, fields, decision if isinstance(decision, str) else "")


def _time(text: str, event_time: datetime) -> str:
    """A time as the pages show times, with its date only if that is not the event's; other texts as they are."""
    if not _TIME.fullmatch(text):
        return text
    day, clock = text[:10], text[11:19]
    return clock if day == f"{event_time.astimezone(UTC):%Y-%m-%d}" else f"{day} {clock}"


def _text(value: Any) -> str:
    """A field's value in words; empty if it has none."""
    match value:
        case None | "" | [] | {}:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case str() | int():
            return str(value)
        case list():
            return ", ".join(_text(part) for part in value)
        case dict():
            return ", ".join(f"{name} {_text(part)}" for name, part in value.items() if _text(part))
        case _:
            return str(value)

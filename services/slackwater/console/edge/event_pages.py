"""The page of listed events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends
from fastapi.responses import HTMLResponse

from slackwater.console.domain.event_log import EventFilter
from slackwater.console.edge.parameters import decode_cursor, encode_cursor, open_span
from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.event_list import LISTED, EventList, event_list
from slackwater.model.errors import InvalidInput
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NAMES = ("type", "node", "trace", "since", "until")


@dataclass(frozen=True, slots=True)
class EventForm:
    """The filter form as submitted (shown again unchanged), and where its page begins."""

    type: str = ""
    node: str = ""
    trace: str = ""
    since: str = ""
    until: str = ""
    cursor: str = ""

    @property
    def given(self) -> Mapping[str, str]:
        """The filters that have a value."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name)}

    def question(self, now: datetime) -> EventFilter:
        """The query. Raises InvalidInput that names the field."""
        since, until = open_span(self.since.strip(), self.until.strip(), now)
        if self.type and self.type not in LISTED:
            raise InvalidInput(f"type: {self.type!r} is not a listed event; allowed: {', '.join(LISTED)}", field="type")
        return EventFilter(
            types=(self.type,) if self.type else None,
            node=self.node.strip() or None,
            trace=self.trace.strip() or None,
            since=since,
            until=until,
            before=decode_cursor(self.cursor) if self.cursor else None,
        )


def event_pages(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/events", role=Role.VIEWER)
    @pages.errors_as_pages
    async def events(asked: Annotated[EventForm, Depends()], part: bool = False) -> HTMLResponse:
        now = clock.now()
        try:
            view = await event_list(reads, asked.question(now), now)
        except InvalidInput as error:
            return pages("events.html", status=400, page=None, error=error.message, asked=asked, types=LISTED, older="")
        template = "events_part.html" if part else "events.html"
        return pages(template, page=view, error="", asked=asked, types=LISTED, older=_older(view))

    return router


def _older(view: EventList) -> str:
    """The cursor of the next page; empty on the last one."""
    last = view.lines[-1].event if view.lines and view.older else None
    return encode_cursor(last.time, last.id) if last is not None else ""

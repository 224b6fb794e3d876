"""/v1/events: the log of listed events."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from slackwater.console.domain.event_log import EventFilter, ListedEvent
from slackwater.console.domain.stream_query import chosen, split
from slackwater.console.edge.api_models import Listing
from slackwater.console.edge.pages import Continue, Limit, micros, time_and_id, token_of
from slackwater.console.edge.parameters import Times
from slackwater.console.edge.query import Node, Since, Until
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.event_list import LISTED
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NAME = "events"
Types = Annotated[
    list[str] | None,
    Query(
        description="Event types or patterns of them (`node.*`), separated by commas or by repeating the parameter. "
        f"Listed types: {', '.join(LISTED)}.",
        examples=["node.liveness_changed"],
    ),
]
Trace = Annotated[
    str | None,
    Query(description="Only events of this trace: the `trace_id` of a decision.", pattern="^[0-9a-f]{32}$"),
]


def event_router(reads: ReadQueries, times: Times) -> Routes:
    """The route of listed events."""
    router = Routes(prefix="/v1", tags=["events"])

    @router.get("/events", role=Role.VIEWER, summary="Stored events of the listed types, newest first")
    async def list_events(
        types: Types = None,
        node: Node = None,
        trace: Trace = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
        continue_: Continue = None,
    ) -> Listing[ListedEvent]:
        start, end = times.between(since, until)
        wanted = EventFilter(
            types=chosen(patterns, tuple(LISTED), ()) if (patterns := split(types, "types")) else None,
            node=node,
            trace=trace,
            since=start,
            until=end,
            before=time_and_id(continue_, NAME),
            limit=limit + 1,
        )
        events = list(await reads.events(wanted))
        last = events[limit - 1] if len(events) > limit else None
        token = token_of(NAME, (micros(last.time), last.id)) if last is not None else None
        return Listing(items=events[:limit], continue_=token)

    return router

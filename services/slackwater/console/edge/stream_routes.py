"""GET /v1/stream: events of the bus, as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse

from slackwater.bus.admin.streams import event_named
from slackwater.console.domain.stream_query import chosen, positions_of, split
from slackwater.console.edge.parameters import ALLOWED, moment
from slackwater.console.edge.stream import EventStream, StreamQuery, Streams
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.registry import EVENTS
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

KNOWN = tuple(sorted(payload.TYPE for payload in EVENTS))
BY_REQUEST = (UsageReported.TYPE, WaterlineCrossed.TYPE, PodsRostered.TYPE)
"""Too frequent to send without a request."""

Types = Annotated[
    list[str] | None,
    Query(
        description="Event types or patterns of them (`decision.*`), separated by commas or by repeating the "
        f"parameter. Default: all but {', '.join(BY_REQUEST)}. Known: {', '.join(KNOWN)}.",
        examples=["decision.recorded,effect.measured"],
    ),
]
Nodes = Annotated[
    list[str] | None,
    Query(description="Only events about these nodes: names or patterns (`edge-*`), several as with `types`."),
]
Since = Annotated[
    str | None,
    Query(description=f"Begin with events published at this time: {ALLOWED}. Default: now.", examples=["15m"]),
]
After = Annotated[
    str | None, Query(description="Begin after this event id; the header Last-Event-ID means the same and wins.")
]
LastEventId = Annotated[str | None, Header(description="The id of the last received event: resume after it.")]
Brief = Annotated[
    bool,
    Query(
        description="Only that an event happened: `data` is null, and the event is sent once the API shows it. "
        "For pages and watchers that read the API on events."
    ),
]
DESCRIPTION = """\
Each event has an `id` (its place in the streams of the bus, good on every replica and after any restart), an `event`
(its type) and one line of `data`: the event's attributes and, under `data`, its payload as in contracts/events.

Two more events may come: `gap` says that what followed a place is not kept any more, so read the state again;
`closing` says why the server ends the stream. Comments are heartbeats. Reconnect with `Last-Event-ID`.
"""


def stream_router(streams: Streams, clock: Clock) -> Routes:
    """The stream's route. Building it does no I/O."""
    router = Routes(prefix="/v1", tags=["stream"])

    @router.get(
        "/stream",
        role=Role.VIEWER,
        summary="Events as they happen (server-sent events)",
        description=DESCRIPTION,
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    async def watch_events(
        types: Types = None,
        node: Nodes = None,
        since: Since = None,
        after: After = None,
        brief: Brief = False,
        last_event_id: LastEventId = None,
    ) -> EventStream:
        names = chosen(split(types, "types"), KNOWN, BY_REQUEST)
        place, field = (last_event_id, "Last-Event-ID") if last_event_id else (after, "after")
        wanted = StreamQuery(
            payloads=[event_named(name) for name in names],
            nodes=split(node, "node"),
            after=positions_of(place, field) if place else {},
            since=moment(since, clock.now(), "since") if since else None,
            brief=brief,
        )
        return EventStream(streams, wanted)

    return router

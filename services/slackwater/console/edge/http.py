"""REST under /v1: the read model as JSON. Errors of slackwater.model.errors become problems in the server."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Header, Path, Query
from fastapi.responses import StreamingResponse

from slackwater.console.domain.views import (
    Chain,
    Counts,
    DecisionFilter,
    DecisionSummary,
    ForecastView,
    NodeView,
    OfferView,
    PodView,
    UsagePoint,
    Why,
)
from slackwater.console.edge.api_models import DecisionPage, Listing
from slackwater.console.edge.parameters import ALLOWED, decode_cursor, encode_cursor, moment
from slackwater.console.edge.stream import server_sent_events
from slackwater.console.ports import Feed, Reads
from slackwater.console.usecases.explain import chain, did_you_mean, existing_decision, existing_node, why
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.events.registry import EVENTS
from slackwater.model.errors import InvalidInput
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NodeName = Annotated[str, Path(description="The node's name, as `GET /v1/nodes` shows it.", examples=["edge-7"])]
Since = Annotated[str | None, Query(description=f"From here on: {ALLOWED}.", examples=["-15m"])]
Until = Annotated[str | None, Query(description=f"Up to here (default now): {ALLOWED}.")]
At = Annotated[str | None, Query(description=f"As it was then (default now): {ALLOWED}.", examples=["-5m"])]
DecisionId = Annotated[str, Path(description="The id of a decision record.")]

_SPAN = timedelta(minutes=15)


class _Times:
    """Query parameters to times, by one clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def at(self, text: str | None, field: str = "at") -> datetime:
        now = self._clock.now()
        return moment(text, now, field) if text else now

    def span(self, since: str | None, until: str | None) -> tuple[datetime, datetime]:
        """The last 15 minutes unless said otherwise. Raises InvalidInput when it ends before it begins."""
        end = self.at(until, "until")
        start = moment(since, self._clock.now(), "since") if since else end - _SPAN
        if start > end:
            raise InvalidInput(f"since ({start.isoformat()}) is after until ({end.isoformat()})", field="since")
        return start, end


def api_router(reads: Reads, feed: Feed, clock: Clock, *, heartbeat_seconds: float = 15.0) -> Routes:
    """All routes of the read model. Building it does no I/O."""
    router = Routes(prefix="/v1")
    times = _Times(clock)
    _node_routes(router, reads, times)
    _offer_routes(router, reads, times)
    _decision_routes(router, reads, times)
    _overview_routes(router, reads, feed, clock, heartbeat_seconds)
    return router


def _node_routes(router: Routes, reads: Reads, times: _Times) -> None:
    @router.get("/nodes", role=Role.VIEWER, tags=["nodes"], summary="All nodes, with their last report and offer")
    async def list_nodes() -> Listing[NodeView]:
        return Listing(items=list(await reads.nodes()))

    @router.get("/nodes/{name}", role=Role.VIEWER, tags=["nodes"], summary="One node")
    async def get_node(name: NodeName) -> NodeView:
        return await existing_node(reads, name)

    @router.get("/nodes/{name}/pods", role=Role.VIEWER, tags=["nodes"], summary="The pods of a node as last reported")
    async def list_node_pods(name: NodeName) -> Listing[PodView]:
        await existing_node(reads, name)
        return Listing(items=list(await reads.pods(name)))

    @router.get("/pods", role=Role.VIEWER, tags=["nodes"], summary="All pods as last reported")
    async def list_pods() -> Listing[PodView]:
        return Listing(items=list(await reads.pods()))

    @router.get("/nodes/{name}/usage", role=Role.VIEWER, tags=["nodes"], summary="What a node reported, oldest first")
    async def list_usage(name: NodeName, since: Since = None, until: Until = None) -> Listing[UsagePoint]:
        await existing_node(reads, name)
        return Listing(items=list(await reads.usage(name, *times.span(since, until))))

    @router.get(
        "/nodes/{name}/forecast",
        role=Role.VIEWER,
        tags=["nodes"],
        summary="The peaks that were expected of a node, oldest first",
    )
    async def list_forecasts(name: NodeName, since: Since = None, until: Until = None) -> Listing[ForecastView]:
        await existing_node(reads, name)
        return Listing(items=list(await reads.forecasts(name, *times.span(since, until))))


def _offer_routes(router: Routes, reads: Reads, times: _Times) -> None:
    @router.get(
        "/nodes/{name}/offers",
        role=Role.VIEWER,
        tags=["offers"],
        summary="A node's offers, or with `at` the one in force then",
    )
    async def list_node_offers(
        name: NodeName, at: At = None, since: Since = None, until: Until = None
    ) -> Listing[OfferView]:
        await existing_node(reads, name)
        if at is not None:
            found = await reads.offer_at(name, times.at(at))
            return Listing(items=[found] if found else [])
        return Listing(items=list(await reads.offers(name, *times.span(since, until))))

    @router.get("/offers", role=Role.VIEWER, tags=["offers"], summary="The offer in force of every node")
    async def list_offers() -> Listing[OfferView]:
        return Listing(items=[node.offer for node in await reads.nodes() if node.offer is not None])


def _decision_routes(router: Routes, reads: Reads, times: _Times) -> None:
    @router.get("/decisions", role=Role.VIEWER, tags=["decisions"], summary="Decisions, newest first")
    async def list_decisions(
        node: Annotated[str | None, Query(description="Only about this node.")] = None,
        kind: Annotated[DecisionKind | None, Query(description="Only of this kind.")] = None,
        subject: Annotated[str | None, Query(description="Only about this.", examples=["batch-cpu"])] = None,
        since: Since = None,
        limit: Annotated[int, Query(ge=1, le=500, description="Items per page.")] = 50,
        cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
    ) -> DecisionPage:
        start = times.at(since, "since") if since else None
        before = decode_cursor(cursor) if cursor else None
        wanted = DecisionFilter(node=node, kind=kind, subject=subject, since=start, before=before, limit=limit + 1)
        found = list(await reads.decisions(wanted))
        return DecisionPage(items=found[:limit], next_cursor=_next(found, limit))

    @router.get("/decisions/{id}", role=Role.VIEWER, tags=["decisions"], summary="A decision record, whole")
    async def get_decision(id: DecisionId) -> DecisionRecord:  # noqa: A002 - the path parameter is called id
        return await existing_decision(reads, id)

    @router.get(
        "/decisions/{id}/chain",
        role=Role.VIEWER,
        tags=["decisions"],
        summary="From the cause of a decision to its effect",
    )
    async def get_chain(id: DecisionId) -> Chain:  # noqa: A002 - the path parameter is called id
        return await chain(reads, id)

    @router.get("/why", role=Role.VIEWER, tags=["decisions"], summary="Why a number is, or was, what it is")
    async def get_why(
        node: Annotated[str, Query(description="The node asked about.")],
        subject: Annotated[str, Query(description="What was decided.", examples=["batch-cpu"])] = "batch-cpu",
        at: At = None,
    ) -> Why:
        return await why(reads, node, subject, times.at(at))


def _next(found: list[DecisionSummary], limit: int) -> str | None:
    return encode_cursor(found[limit - 1].decided_at, found[limit - 1].id) if len(found) > limit else None


def _overview_routes(router: Routes, reads: Reads, feed: Feed, clock: Clock, heartbeat_seconds: float) -> None:
    known_types = sorted(payload.TYPE for payload in EVENTS)

    @router.get("/counts", role=Role.VIEWER, tags=["overview"], summary="How much of everything is kept")
    async def get_counts() -> Counts:
        return await reads.counts()

    @router.get(
        "/stream",
        role=Role.VIEWER,
        tags=["overview"],
        summary="What arrives, as it arrives (server-sent events)",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    async def stream(
        types: Annotated[str | None, Query(description="Only these event types, with commas between.")] = None,
        node: Annotated[str | None, Query(description="Only about this node.")] = None,
        last_event_id: Annotated[str | None, Header(description="Resume behind this event.")] = None,
    ) -> StreamingResponse:
        wanted = frozenset(part.strip() for part in types.split(",") if part.strip()) if types else frozenset()
        for each in sorted(wanted - set(known_types)):
            raise InvalidInput(f"types: {each!r} is not an event type{did_you_mean(each, known_types)}", field="types")
        body = server_sent_events(feed, clock, wanted, node, last_event_id, heartbeat_seconds)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(body, media_type="text/event-stream", headers=headers)

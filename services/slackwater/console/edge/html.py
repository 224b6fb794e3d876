"""The pages, kept live by server-sent events that make htmx fetch the changing part again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Query, Response
from fastapi.responses import FileResponse, HTMLResponse

from slackwater.bus.admin.broker_admin import BrokerAdmin
from slackwater.console.domain.fleet import SHOWS, NodeQuery
from slackwater.console.edge.filters import FilterForm
from slackwater.console.edge.parameters import decode_cursor, encode_cursor, moment, number_of
from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import DemoRuns, ReadQueries
from slackwater.console.usecases.decision_pages import DecisionList, decision_list, decision_page, newer
from slackwater.console.usecases.node_list import node_list
from slackwater.console.usecases.node_page import node_page
from slackwater.console.usecases.offer_part import SPANS as OFFER_SPANS
from slackwater.console.usecases.offer_part import SUBJECTS as OFFER_SUBJECTS
from slackwater.console.usecases.offer_part import OfferQuery, offer_query
from slackwater.console.usecases.overview import RESOURCES, SPANS, Overview
from slackwater.console.usecases.senders import Senders
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.model.errors import InvalidInput, NotFound
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

_STATIC = Path(__file__).parent.parent / "static"
_FILES = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "vendor/htmx-2.0.11.min.js": "text/javascript",
    "vendor/htmx-ext-sse-2.2.4.min.js": "text/javascript",
    "vendor/idiomorph-ext-0.8.0.min.js": "text/javascript",
}
"""All static files; the pages load nothing from other sites."""

_CHOICES: Mapping[str, Any] = {"kinds": tuple(DecisionKind), "reasons": tuple(Reason)}
NODES_PER_PAGE = 50
MOST_PAGES = 1000


def html_router(reads: ReadQueries, clock: Clock, desk: BrokerAdmin, senders: Senders, demo: DemoRuns) -> Routes:
    """The pages and their static files."""
    router = Routes(include_in_schema=False)
    pages = Pages()
    _overview_routes(router, pages, Overview(reads, clock), senders, demo)
    _node_routes(router, pages, reads, clock, desk, senders)
    _decision_routes(router, pages, reads, clock)

    @router.get("/static/console/{name:path}", role=Role.VIEWER)
    async def static(name: str) -> Response:
        if name not in _FILES:
            raise NotFound(f"{name!r} is not a file of the console")
        headers = {"Cache-Control": "max-age=3600" if name.startswith("vendor/") else "no-cache"}
        return FileResponse(_STATIC / name, media_type=_FILES[name], headers=headers)

    return router


def _overview_routes(router: Routes, pages: Pages, overview: Overview, senders: Senders, demo: DemoRuns) -> None:
    @router.get("/", role=Role.VIEWER)
    @pages.errors_as_pages
    async def front(part: bool = False, span: str = "1h", resource: str = "cpu") -> HTMLResponse:
        view = await overview(span, resource)
        template = "overview_part.html" if part else "overview.html"
        worst, run = await senders.worst(), await demo.last()
        return pages(template, page=view, spans=SPANS, resources=RESOURCES, worst=worst, demo=run)


def _node_routes(
    router: Routes, pages: Pages, reads: ReadQueries, clock: Clock, desk: BrokerAdmin, senders: Senders
) -> None:
    @router.get("/nodes", role=Role.VIEWER)
    @pages.errors_as_pages
    async def nodes(
        part: bool = False,
        show: str = "all",
        pool: str | None = None,
        name: Annotated[str, Query(max_length=253)] = "",
        page: str = "1",
        sort: Annotated[str, Query(max_length=60)] = "",
    ) -> HTMLResponse:
        number = number_of(page, "page", MOST_PAGES)
        asked = NodeQuery(show if show in SHOWS else "all", pool or None, name, NODES_PER_PAGE * (number - 1))
        view = await node_list(reads, asked, clock.now(), sort)
        return pages("nodes_part.html" if part else "nodes.html", page=view, number=number, shows=SHOWS)

    @router.get("/nodes/{name}", role=Role.VIEWER)
    @pages.errors_as_pages
    async def node(
        name: str, part: bool = False, subject: str = "batch-cpu", span: str = "1h", at: str = ""
    ) -> HTMLResponse:
        now = clock.now()
        view = await node_page(reads, desk, name, now, _at_time(offer_query(subject, span), at.strip(), now))
        template = "node_part.html" if part else "node.html"
        return pages(template, page=view, subjects=OFFER_SUBJECTS, spans=OFFER_SPANS, sender=await senders.of(name))


def _at_time(look: OfferQuery, at: str, now: datetime) -> OfferQuery:
    """The view with its time. A time that cannot be parsed is reported on the page, which shows more than that."""
    try:
        return replace(look, at=at, moment=moment(at, now, "at") if at else None)
    except InvalidInput as error:
        return replace(look, at=at, problem=error.message)


def _decision_routes(router: Routes, pages: Pages, reads: ReadQueries, clock: Clock) -> None:
    @router.get("/decisions", role=Role.VIEWER)
    @pages.errors_as_pages
    async def decisions(asked: Annotated[FilterForm, Depends()]) -> HTMLResponse:
        now = clock.now()
        try:
            view = await decision_list(reads, asked.question(now), now, asked.each_step)
        except InvalidInput as error:
            return pages("decisions.html", status=400, page=None, error=error.message, asked=asked, **_CHOICES)
        return pages("decisions.html", page=view, error="", asked=asked, **_CHOICES, **_cursors(view))

    @router.get("/decisions/newer", role=Role.VIEWER)
    @pages.errors_as_pages
    async def newer_decisions(asked: Annotated[FilterForm, Depends()], than: str) -> HTMLResponse:
        count = await newer(reads, asked.question(clock.now()), decode_cursor(than))
        return pages("newer.html", count=count, asked=asked)

    @router.get("/decisions/{id}", role=Role.VIEWER)
    @pages.errors_as_pages
    async def decision(id: str, part: bool = False) -> HTMLResponse:  # noqa: A002 - the path parameter is called id
        view = await decision_page(reads, id, clock.now())
        return pages("decision_part.html" if part else "decision.html", page=view)


def _cursors(view: DecisionList) -> dict[str, Any]:
    """Cursors of the page: of the first decision for newer ones, of the last one for older ones."""
    first = view.rows[0].newest if view.rows else None
    return {
        "first": encode_cursor(first.decided_at, first.id) if first else "",
        "older": encode_cursor(view.older.decided_at, view.older.id) if view.older else "",
    }

"""The page of moves."""

from __future__ import annotations

from fastapi.responses import HTMLResponse

from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.moves_page import RESOURCES, SPANS, moves_page
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes


def moves_router(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/moves", role=Role.VIEWER)
    @pages.errors_as_pages
    async def moves(part: bool = False, span: str = "1h", resource: str = "cpu") -> HTMLResponse:
        view = await moves_page(reads, clock.now(), span, resource)
        return pages("moves_part.html" if part else "moves.html", page=view, spans=list(SPANS), resources=RESOURCES)

    return router

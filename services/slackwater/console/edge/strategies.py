"""The page of strategies."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.strategies_page import strategies_page
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes


def strategies_router(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/strategies", role=Role.VIEWER)
    @pages.errors_as_pages
    async def strategies(part: bool = False, node: Annotated[str, Query(max_length=253)] = "") -> HTMLResponse:
        view = await strategies_page(reads, node.strip(), clock.now())
        return pages("strategies_part.html" if part else "strategies.html", page=view)

    return router

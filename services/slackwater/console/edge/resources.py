"""The pages of resources of every kind."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.resources_page import resource_list, resource_page
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

Filter = Annotated[str, Query(max_length=253)]


def resources_router(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/resources", role=Role.VIEWER)
    @pages.errors_as_pages
    async def kinds(part: bool = False) -> HTMLResponse:
        view = await resource_list(reads, clock.now())
        return pages("resources_part.html" if part else "resources.html", page=view)

    @router.get("/resources/{plural}", role=Role.VIEWER)
    @pages.errors_as_pages
    async def documents(plural: str, part: bool = False, name: Filter = "") -> HTMLResponse:
        view = await resource_list(reads, clock.now(), plural, name.strip())
        return pages("resources_part.html" if part else "resources.html", page=view)

    @router.get("/resources/{plural}/{name}", role=Role.VIEWER)
    @pages.errors_as_pages
    async def document(plural: str, name: str, part: bool = False) -> HTMLResponse:
        view = await resource_page(reads, clock.now(), plural, name)
        return pages("resource_part.html" if part else "resource.html", page=view)

    return router

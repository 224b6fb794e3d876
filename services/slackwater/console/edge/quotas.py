"""The page of quotas."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.quotas_page import SPANS, UnitByResource, quotas_page
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

TreeText = Annotated[str, Query(max_length=63)]
ResourceText = Annotated[str, Query(max_length=253)]


def quotas_router(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/quotas", role=Role.VIEWER)
    @pages.errors_as_pages
    async def quotas(
        part: bool = False, tree: TreeText = "", resource: ResourceText = "", span: str = "1h"
    ) -> HTMLResponse:
        view = await quotas_page(reads, clock.now(), tree.strip(), resource.strip(), span)
        return pages(
            "quotas_part.html" if part else "quotas.html", page=view, spans=list(SPANS), units=UnitByResource()
        )

    return router

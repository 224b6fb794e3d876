"""The page of the last demo run: each scene with its picture and its table."""

from __future__ import annotations

from fastapi import Response
from fastapi.responses import HTMLResponse

from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import DemoRuns
from slackwater.model.errors import NotFound
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

_PICTURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",  # its own colours, and nothing else
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def demo_router(demo: DemoRuns, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/demo", role=Role.VIEWER)
    @pages.errors_as_pages
    async def run(part: bool = False) -> HTMLResponse:
        view = await demo.last()
        return pages("demo_part.html" if part else "demo.html", run=view, now=clock.now())

    @router.get("/demo/pictures/{scene}.svg", role=Role.VIEWER)
    async def picture(scene: str) -> Response:
        content = await demo.picture(scene)
        if content is None:
            raise NotFound(f"the last demo run has no picture of a scene {scene!r}")
        return Response(content, media_type="image/svg+xml", headers=_PICTURE_HEADERS)

    return router

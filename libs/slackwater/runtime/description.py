"""The description of the API, made of the routes: GET /v1/openapi.json."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from slackwater.runtime.roles import Role
from slackwater.runtime.routes import SECURITY_SCHEME, Routes


def description_router(app: FastAPI) -> Routes:
    """The route that shows what `openapi_of` makes of `app`."""
    routes = Routes(include_in_schema=False)

    @routes.get("/v1/openapi.json", role=Role.VIEWER)
    async def show_description() -> dict[str, Any]:
        return openapi_of(app)

    return routes


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of `app`, with how a caller proves who it is."""
    found: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    found.setdefault("components", {})["securitySchemes"] = {
        SECURITY_SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token with a role; `x-required-role` of each operation says which it needs. "
            "On loopback without any token everybody is admin.",
        }
    }
    return found

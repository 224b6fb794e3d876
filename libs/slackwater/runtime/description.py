"""The OpenAPI description, generated from the routes: GET /v1/openapi.json, GET /docs."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse

from slackwater.runtime.api_page import POLICY, api_page
from slackwater.runtime.problem_pages import Problem
from slackwater.runtime.problems import MEDIA_TYPE
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import SECURITY_SCHEME, Routes


def description_router(app: FastAPI) -> Routes:
    """Returns the routes that serve `openapi_of(app)`: as JSON, and as a page."""
    routes = Routes(include_in_schema=False)

    @routes.get("/v1/openapi.json", role=Role.VIEWER)
    async def get_description() -> dict[str, Any]:
        return openapi_of(app)

    @routes.get("/docs", role=Role.VIEWER)
    async def show_docs() -> HTMLResponse:
        return HTMLResponse(api_page(openapi_of(app)), headers={"Content-Security-Policy": POLICY})

    return routes


def openapi_of(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI document of `app`, including authentication."""
    document: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    _describe_problems(document)
    document.setdefault("components", {})["securitySchemes"] = {
        SECURITY_SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "A token with a role; `x-required-role` of each operation says which it needs. "
            "On loopback without any token every caller is admin.",
        }
    }
    return document


def _describe_problems(document: dict[str, Any]) -> None:
    """Declare that every operation may answer with a problem document, in place of FastAPI's
    validation schema.
    """
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for theirs in ("HTTPValidationError", "ValidationError"):
        schemas.pop(theirs, None)
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= schema.pop("$defs", {}) | {"Problem": schema}
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    components["responses"] = {"Problem": {"description": "A problem document.", "content": content}}
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            for others in ("4XX", "5XX"):
                operation["responses"][others] = {"$ref": "#/components/responses/Problem"}

"""GET /v1/problems: the pages that the `type` of a problem document points to; they need no
network.
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from typing import Annotated

from fastapi import Header, Path, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field

from slackwater.model.errors import NotFound
from slackwater.runtime.problem_codes import PROBLEMS, ProblemCode
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes


class ProblemList(BaseModel):
    """Every problem code."""

    items: list[ProblemCode]


class Problem(BaseModel):
    """An error answer (RFC 9457). `code` is stable and for programs, `detail` is for people."""

    type: str = Field(description="A page that says what the code means, relative to this server.")
    title: str
    status: int
    code: str
    detail: str
    field: str | None = Field(default=None, description="The parameter or field that is wrong.")
    errors: list[FieldError] = Field(default=[], description="Every field that is wrong.")


class FieldError(BaseModel):
    """One field of a request and what is wrong with it."""

    field: str
    message: str


def problem_pages() -> Routes:
    """Returns the routes of the pages. docs/reference/problems.md has the same content, for readers
    without a token.
    """
    routes = Routes(prefix="/v1/problems", tags=["problems"])

    @routes.get("", role=Role.VIEWER, summary="Every problem code, its meaning and what to do")
    async def list_problems() -> ProblemList:
        return ProblemList(items=list(PROBLEMS.values()))

    @routes.get(
        "/{code}",
        role=Role.VIEWER,
        summary="What a problem code means: a page for a browser, else JSON",
        response_model=ProblemCode,
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    async def get_problem(
        code: Annotated[str, Path(examples=["node_not_found"])], accept: Annotated[str, Header()] = "*/*"
    ) -> Response:
        problem = PROBLEMS.get(code)
        if problem is None:
            raise NotFound(
                f"problem {code!r} is not known; GET /v1/problems lists all", code="problem_not_found", field="code"
            )
        if "text/html" in accept:
            return HTMLResponse(_page(problem), headers={"Content-Security-Policy": "default-src 'none'"})
        return JSONResponse(
            {"code": problem.code, "status": problem.status, "meaning": problem.meaning, "remedy": problem.remedy}
        )

    return routes


def _page(problem: ProblemCode) -> str:
    title = f"{problem.status} {HTTPStatus(problem.status).phrase}: {problem.code}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<h1>{escape(title)}</h1><p>{escape(problem.meaning)}</p><p>{escape(problem.remedy)}</p></html>\n"
    )

"""Errors as RFC 9457 problem+json: the error tree, request validation, and the framework's own
refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from slackwater.model import errors
from slackwater.model.reading_budget import BeyondBudget
from slackwater.runtime.authentication import Forbidden, Unauthorized
from slackwater.runtime.problem_codes import PROBLEMS, type_of
from slackwater.runtime.strict_json import BodyBeyondBudget
from slackwater.runtime.value_errors import explain_value

MEDIA_TYPE = "application/problem+json"
LONGEST_PATH = 200
MOST_ERRORS = 20
"""Of one answer; the others are counted."""
MOST_DETAIL, MOST_FIELD = 8192, 512
"""Characters of the text of an answer, and of each field and message in it: a value that is refused may be as long as
its request.
"""
STATUS_OF: Sequence[tuple[type[errors.SlackwaterError], int]] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Unavailable, 503),
    (Unauthorized, 401),
    (Forbidden, 403),
    (errors.Misconfigured, 500),
)


def problem(status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """Returns a problem document. `code` is stable and for programs, `detail` is for people."""
    said = {"detail": _cut(detail, MOST_DETAIL)} | {name: _cut(value, MOST_FIELD) for name, value in more.items()}
    body = {"type": type_of(code), "title": HTTPStatus(status).phrase, "status": status, "code": code, **said}
    return JSONResponse(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def _cut(value: Any, most: int) -> Any:
    return f"{value[:most]}…" if isinstance(value, str) and len(value) > most else value


def unauthorized(*, shown: bool = False) -> JSONResponse:
    """Returns the answer to an unauthenticated caller; `shown` if it sent a token."""
    wrong = "the token is unknown here: it is mistyped, was revoked, or belongs to another instance"
    detail = wrong if shown else "send the header `Authorization: Bearer TOKEN`"
    return problem(401, "unauthorized", detail, headers={"www-authenticate": "Bearer"})


def status_of(error: errors.SlackwaterError) -> int:
    """Returns the HTTP status of an error: that of its code, else of its kind; InvalidInput with a
    field is 422, without 400.
    """
    if error.code in PROBLEMS:
        return PROBLEMS[error.code].status
    if isinstance(error, errors.InvalidInput):
        return 422 if error.field else 400
    return next((status for kind, status in STATUS_OF if isinstance(error, kind)), 500)


def install_problem_handlers(app: FastAPI) -> None:
    """Make every error answer of `app` a problem document."""
    app.add_exception_handler(errors.SlackwaterError, _ours)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(BodyBeyondBudget, _beyond_budget)
    app.add_exception_handler(Exception, _defect)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.SlackwaterError)  # noqa: S101 - narrows what Starlette types too widely
    more: dict[str, Any] = {"field": error.field} if error.field else {}
    headers = {"retry-after": "1"} if isinstance(error, errors.Unavailable) else None
    return problem(status_of(error), error.code, error.message, headers=headers, **more)


async def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - narrows what Starlette types too widely
    declared = request.headers.get("content-type")
    body = getattr(request.scope.get("route"), "body_field", None)
    model = body.field_info.annotation if body is not None else None
    details = error.errors()
    problems = [
        {"field": _cut(field, MOST_FIELD), "message": _cut(said, MOST_FIELD)}
        for field, said in explain_value(details[:MOST_ERRORS], declared, error.body, model)
    ]
    detail = "; ".join(f"{item['field']}: {item['message']}" for item in problems)
    if len(details) > MOST_ERRORS:
        detail += f"; and {len(details) - MOST_ERRORS} more"
    return problem(422, errors.InvalidInput.code, detail, errors=problems)


async def _beyond_budget(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BodyBeyondBudget)  # noqa: S101 - narrows what Starlette types too widely
    return problem(422, BeyondBudget.code, error.detail, field="body")


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - narrows what Starlette types too widely
    code = HTTPStatus(error.status_code).name.lower()
    headers = dict(error.headers) if error.headers else None
    if wants_page(request):
        return error_page(error.status_code, _framework_detail(request, error))
    return problem(error.status_code, code, _framework_detail(request, error), headers=headers)


def _framework_detail(request: Request, error: HTTPException) -> str:
    """Returns the requested path and the alternatives, where the framework gives only the name of
    the status.
    """
    status = HTTPStatus(error.status_code)
    if error.detail != status.phrase:
        return str(error.detail)
    path = request.url.path[:LONGEST_PATH]
    if status is HTTPStatus.NOT_FOUND:
        return f"there is nothing at {path}; /docs and /v1/openapi.json say what there is"
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.method} is not allowed at {path}; allowed: {(error.headers or {}).get('Allow', 'nothing')}"
    return status.phrase


def wants_page(request: Request) -> bool:
    """Whether a browser asks for a page: what is below /v1 answers programs."""
    accepts_pages = "text/html" in request.headers.get("accept", "")
    return accepts_pages and request.method == "GET" and not request.url.path.startswith("/v1/")


def error_page(status: int, detail: str) -> HTMLResponse:
    """Returns an error as a page of its own, with the way back."""
    title = f"{status} {HTTPStatus(status).phrase}"
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f'<h1>{title}</h1><p>{escape(detail)}</p><p><a href="/">Overview</a></p></html>\n'
    )
    return HTMLResponse(text, status, headers={"Content-Security-Policy": "default-src 'none'"})


async def _defect(request: Request, error: Exception) -> JSONResponse:
    """Answers a defect with 500. uvicorn logs the exception; the caller gets no details."""
    return problem(500, errors.SlackwaterError.code, "internal error; the server's log has the details")

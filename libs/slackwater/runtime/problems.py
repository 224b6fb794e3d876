"""Errors as RFC 9457 problem+json: our own tree, request validation, and what the framework refuses by itself."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from slackwater.model import errors
from slackwater.runtime.gate import Forbidden, Unauthorized

MEDIA_TYPE = "application/problem+json"
STATUS_OF: Sequence[tuple[type[errors.SlackwaterError], int]] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.Unavailable, 503),
    (Unauthorized, 401),
    (Forbidden, 403),
    (errors.Misconfigured, 500),
)


def problem(status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """One problem document. `code` is stable and meant for programs, `detail` for people."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "code": code, "detail": detail}
    return JSONResponse(body | more, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def unauthorized() -> JSONResponse:
    """What a caller who proved nothing is told."""
    return problem(
        401, "unauthorized", "send the header `Authorization: Bearer TOKEN`", headers={"www-authenticate": "Bearer"}
    )


def status_of(error: errors.SlackwaterError) -> int:
    """InvalidInput that names a field of the request is 422, any other 400."""
    if isinstance(error, errors.InvalidInput):
        return 422 if error.field else 400
    return next((status for kind, status in STATUS_OF if isinstance(error, kind)), 500)


def install_problem_handlers(app: FastAPI) -> None:
    """Make every error answer of `app` a problem document."""
    app.add_exception_handler(errors.SlackwaterError, _ours)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(Exception, _defect)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.SlackwaterError)  # noqa: S101 - narrows what Starlette types too widely
    more: dict[str, Any] = {"field": error.field} if error.field else {}
    headers = {"retry-after": "1"} if isinstance(error, errors.Unavailable) else None
    return problem(status_of(error), error.code, error.message, headers=headers, **more)


async def _validation(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - narrows what Starlette types too widely
    found = [{"field": ".".join(map(str, item["loc"])), "message": item["msg"]} for item in error.errors()]
    detail = "; ".join(f"{item['field']}: {item['message']}" for item in found)
    return problem(422, errors.InvalidInput.code, detail, errors=found)


async def _framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - narrows what Starlette types too widely
    code = HTTPStatus(error.status_code).name.lower()
    headers = dict(error.headers) if error.headers else None
    return problem(error.status_code, code, str(error.detail), headers=headers)


async def _defect(request: Request, error: Exception) -> JSONResponse:
    """A defect of ours. What it was stays in the log, which uvicorn writes; the caller learns only that it happened."""
    return problem(500, errors.SlackwaterError.code, "an error of ours; the log of the server has the details")

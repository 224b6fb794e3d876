"""Refuses bodies larger than any document, because a body is held in memory several times."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slackwater.model.reading_budget import BODY
from slackwater.runtime.problems import problem

MOST_BYTES = BODY.size_bytes


class BodyTooLarge(HTTPException):
    """Raised where a body is read. HTTPException is the only kind that the framework passes through
    there.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(413)
        self.most_bytes = most_bytes


class BodyLimit:
    """ASGI: refuses a request by its declared length before reading, any other once it exceeds the
    limit.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if declared_bytes(scope) > MOST_BYTES:
            await _refusal(MOST_BYTES)(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > MOST_BYTES:
                raise BodyTooLarge(MOST_BYTES)
            return message

        await self._app(scope, counted, send)


def declared_bytes(scope: Scope) -> int:
    """Returns the length that a request declares for its body; 0 without one."""
    declared = Headers(scope=scope).get("content-length", "0")
    return int(declared) if declared.isdecimal() else 0


async def too_large(request: Request, error: Exception) -> JSONResponse:
    """Returns the answer to BodyTooLarge."""
    assert isinstance(error, BodyTooLarge)  # noqa: S101 - narrows what Starlette types too widely
    return _refusal(error.most_bytes)


def _refusal(most_bytes: int) -> JSONResponse:
    what = "send fewer documents at once" if most_bytes == MOST_BYTES else "a document is smaller"
    return problem(413, "body_too_large", f"the body exceeds {most_bytes} bytes; {what}")

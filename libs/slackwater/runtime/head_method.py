"""Answers HEAD wherever GET exists (RFC 9110 §9.3.2): with the same status and headers, and no
body.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _SaidAll(OSError):
    """Ends a response after its headers. An OSError, as for a disconnected client."""


class HeadMethod:
    """ASGI: the application sees a GET, the caller gets the status and headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
            elif message.get("more_body"):
                raise _SaidAll("the answer to HEAD has no body")

        try:
            await self._app({**scope, "method": "GET"}, receive, send_without_body)
        except _SaidAll:
            return

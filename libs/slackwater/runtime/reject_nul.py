"""Refuses NUL characters before routing: no name contains one, and PostgreSQL does not store one in
text.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Receive, Scope, Send

from slackwater.runtime.problems import problem


class RejectNul:
    """ASGI: refuses a request with a NUL in its path or query, and names the parameter."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        field = _field_with_nul(scope) if scope["type"] == "http" else None
        if field is None:
            await self._app(scope, receive, send)
            return
        refusal = problem(400, "invalid_character", f"{field}: a NUL character is not allowed", field=field)
        await refusal(scope, receive, send)


def _field_with_nul(scope: Scope) -> str | None:
    if "\0" in scope["path"]:
        return "path"
    query: bytes = scope["query_string"]
    if b"%00" not in query and b"\0" not in query:
        return None
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return next((name.replace("\0", "") or "query" for name, value in pairs if "\0" in name + value), None)

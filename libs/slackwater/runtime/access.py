"""Who may speak to the HTTP server: the bearer of the token, or, without a token, only this machine by name."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from http.cookies import SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from slackwater.runtime.problems import problem

OPEN_PATHS = frozenset({"/livez", "/readyz"})
"""Probes carry no token, and learn nothing but a word."""
COOKIE = "slackwater-token"
LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


class TokenRequired:
    """Lets in who shows the token: `Authorization: Bearer`, or the cookie that opening `/?token=…` once sets."""

    def __init__(self, app: ASGIApp, token: str, *, secure_cookie: bool = False) -> None:
        self._app = app
        self._token = token.encode()
        self._secure_cookie = secure_cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._is_token(_bearer(headers)) or self._is_token(_cookie(headers)):
            await self._app(scope, receive, send)
        elif scope["method"] == "GET" and self._is_token(_in_query(scope)):
            await self._sign_in(scope["path"])(scope, receive, send)
        else:
            refusal = problem(
                401,
                "unauthorized",
                "send the header `Authorization: Bearer TOKEN`",
                headers={"www-authenticate": "Bearer"},
            )
            await refusal(scope, receive, send)

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode(), self._token)

    def _sign_in(self, path: str) -> RedirectResponse:
        """Back to the same page without the token in the address, which would stay in the browser's history."""
        answer = RedirectResponse("/" + path.lstrip("/"), status_code=303)
        answer.set_cookie(
            COOKIE, self._token.decode(), httponly=True, samesite="strict", secure=self._secure_cookie, path="/"
        )
        return answer


class LocalNamesOnly:
    """Without a token, a page from elsewhere must not reach us through a name that it points at this machine."""

    def __init__(self, app: ASGIApp, allowed: Sequence[str] = ()) -> None:
        self._app = app
        self._allowed = LOCAL_NAMES | set(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = Headers(scope=scope).get("host", "")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if name.lower() not in self._allowed:
                refusal = problem(421, "misdirected_request", f"host {host!r} is not this server; use 127.0.0.1")
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _bearer(headers: Headers) -> str:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def _cookie(headers: Headers) -> str:
    morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    return morsel.value if morsel else ""


def _in_query(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]

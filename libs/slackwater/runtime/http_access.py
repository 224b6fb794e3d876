"""Authenticates HTTP requests; `Gate`, `RpcRoles` and `admit` serve HTTP and gRPC alike."""

from __future__ import annotations

from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from slackwater.runtime.authentication import Authenticator, Forbidden, RpcRoles, Unauthorized, authenticate
from slackwater.runtime.certificates import CERTIFICATE
from slackwater.runtime.problems import problem, unauthorized
from slackwater.runtime.roles import OPEN, Needed, Principal, Role
from slackwater.runtime.routes import PRINCIPAL, Routes, caller

__all__ = [
    "OPEN",
    "Authentication",
    "Authenticator",
    "Forbidden",
    "LocalNamesOnly",
    "Needed",
    "Principal",
    "Role",
    "Routes",
    "RpcRoles",
    "Unauthorized",
    "authenticate",
    "caller",
]

COOKIE = "slackwater-token"
LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


class Authentication:
    """Puts the principal into the scope: from `Authorization: Bearer`, or the cookie that
    `/?token=…` sets once.

    An unauthenticated caller reaches only `open_paths`; every other path answers alike, whether or
    not it exists. Routes check the role.
    """

    def __init__(
        self, app: ASGIApp, gate: Authenticator, open_paths: frozenset[str], *, secure_cookie: bool = False
    ) -> None:
        self._app = app
        self._gate = gate
        self._open_paths = open_paths
        self._secure_cookie = secure_cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # Slackwater serves no WebSocket, and this one would be unguarded
        headers = Headers(scope=scope)
        certificate = scope.get(CERTIFICATE)
        principal = self._gate.authenticate(headers, certificate) or self._gate.holder(_cookie(headers))
        shown = _in_query(scope) if principal is None and scope["method"] == "GET" else ""
        if principal is not None or scope["path"] in self._open_paths:
            await self._app({**scope, PRINCIPAL: principal}, receive, send)
        elif self._gate.holder(shown) is not None:
            await self._sign_in(scope["path"], shown)(scope, receive, send)
        else:
            sent = bool(headers.get("authorization") or _cookie(headers) or _in_query(scope))
            await unauthorized(shown=sent)(scope, receive, send)

    def _sign_in(self, path: str, token: str) -> RedirectResponse:
        """Redirects to the same page without the token in the URL, which would stay in the
        browser's history.
        """
        answer = RedirectResponse("/" + path.lstrip("/"), status_code=303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=self._secure_cookie, path="/")
        return answer


class LocalNamesOnly:
    """Without a token, accepts only local host names: a foreign page could use a DNS name that
    points at this machine.
    """

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


def _cookie(headers: Headers) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def _in_query(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]

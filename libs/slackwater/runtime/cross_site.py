"""Refuses changes that a browser sends for a page of another site.

A browser sends the user's cookie or client certificate with such a request, and on loopback without tokens each request
is admin's. Its page can send a form or a simple POST without asking this server (CORS asks first only for others).
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from slackwater.runtime.problems import problem
from slackwater.runtime.routes import READS

LONGEST_ORIGIN = 80
OWN_PAGES = frozenset({"same-origin", "none"})
"""Sec-Fetch-Site of this server's pages and of what the user did. `same-site` is another port of the same host too."""


class RefuseOtherSites:
    """ASGI: refuses every method but GET, HEAD and OPTIONS from another origin, for every route.

    Browsers say where a request comes from in Sec-Fetch-Site, older ones, and all over plain HTTP beyond loopback, in
    Origin. Other clients send neither. A request with a bearer token passes: a browser adds none by itself, and a page
    of another site may not, because this server allows it to none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in READS and (origin := other_origin(Headers(scope=scope))):
            detail = f"the request comes from {origin}, not from a page of this server"
            await problem(409, "other_site", detail)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def other_origin(headers: Headers) -> str | None:
    """Returns the origin of a request from another site; None for this server's own pages and for other clients."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if headers.get("authorization", "").lower().startswith("bearer "):
        return None
    if site is not None:
        is_own = site in OWN_PAGES
    else:
        is_own = origin is None or origin.partition("://")[2] == headers.get("host", "") != ""
    return None if is_own else (origin or "another site")[:LONGEST_ORIGIN]

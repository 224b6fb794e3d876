"""The webhook's listener: TLS with the certificate of the Secret, one path, an AdmissionReview in and one out.

It asks for no token: API servers have none by default. An answer says only what profiles make of the pod in the
question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.model.errors import InvalidInput
from slackwater.profiles.webhook import PATH
from slackwater.runtime.body_limit import BodyLimit
from slackwater.runtime.certificates import PemTls
from slackwater.runtime.http import HttpServer
from slackwater.runtime.settings import HttpSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

Review = Callable[[object], Awaitable[dict[str, Any]]]


class Webhook:
    """slackwater.kubernetes.ports.WebhookListener, and the loop that serves. `review` answers one AdmissionReview."""

    def __init__(self, settings: KubernetesSettings, review: Review) -> None:
        self._http = HttpSettings(
            host=settings.webhook_host, port=settings.webhook_port, token=None, tokens_file=None
        ).model_copy(update={"tls_certificate": None, "tls_key": None, "tls_client_ca": None})
        self._app = review_app(review)
        self._tls = PemTls()
        self._server: HttpServer | None = None
        self._opened = asyncio.Event()

    async def use(self, certificate: str, key: str) -> None:
        self._tls.use(certificate, key)
        if self._server is None:
            self._server = HttpServer(self._http, self._tls)
            self._opened.set()

    async def __call__(self) -> None:
        """Serve until cancelled, once there is a certificate."""
        await self._opened.wait()
        assert self._server is not None  # noqa: S101 - see `use`
        await self._server.run(self._app)


def review_app(review: Review) -> ASGIApp:
    """The application."""
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response: Response
        if request.url.path != PATH:
            response = PlainTextResponse("not found\n", 404)
        elif request.method != "POST":
            response = PlainTextResponse("only POST\n", 405)
        else:
            try:
                answered = await review(msgspec.json.decode(await request.body()))
                response = Response(msgspec.json.encode(answered), media_type="application/json")
            except (msgspec.DecodeError, RecursionError):
                response = PlainTextResponse("the body is no JSON\n", 400)
            except InvalidInput as error:
                response = PlainTextResponse(f"{error.message}\n", 400)
        await response(scope, receive, send)

    return BodyLimit(app)

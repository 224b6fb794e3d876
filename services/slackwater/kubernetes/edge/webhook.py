"""The webhook's listener: TLS with the certificate of the Secret, one path, an AdmissionReview in and one out.

It asks for no token: API servers have none by default. An answer says only what profiles make of the pod in the
question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.model.errors import InvalidInput
from slackwater.model.reading_budget import BODY, check_bytes
from slackwater.model.time import Clock
from slackwater.profiles.webhook import PATH
from slackwater.runtime.body_limit import BodyLimit
from slackwater.runtime.certificates import PemTls
from slackwater.runtime.http import HttpServer
from slackwater.runtime.settings import HttpSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

Review = Callable[[object], Awaitable[dict[str, Any]]]


class Webhook:
    """slackwater.kubernetes.ports.WebhookListener, and the loop that serves. `review` answers one AdmissionReview.

    Cancelled, it serves on for `webhook_drain_seconds`: Kubernetes ends a pod and removes it from its Service at the
    same time, and API servers ask it until they have seen the latter. A pod of which no answer comes is created as it
    is."""

    def __init__(self, settings: KubernetesSettings, review: Review, clock: Clock) -> None:
        self._clock = clock
        self._drain_seconds = settings.webhook_drain_seconds
        self._http = HttpSettings(
            host=settings.webhook_host, port=settings.webhook_port, token=None, tokens_file=None
        ).model_copy(update={"tls_certificate": None, "tls_key": None, "tls_client_ca": None})
        self._app = review_app(review)
        self._tls = PemTls()
        self._server: HttpServer | None = None
        self._opened = asyncio.Event()

    async def use(self, certificate: str, key: str) -> None:
        self._tls.use(certificate, key)
        if not self._opened.is_set():
            self._server = HttpServer(self._http, self._tls)
            self._opened.set()

    @property
    def drain_seconds(self) -> float:
        """How long it serves on after it was cancelled; 0 if it does not serve."""
        return self._drain_seconds if self._opened.is_set() else 0.0

    async def __call__(self) -> None:
        """Serve until cancelled, once there is a certificate, and then drain. May be called again."""
        await self._opened.wait()
        server = self._server or HttpServer(self._http, self._tls)
        serving = asyncio.create_task(server.run(self._app), name="webhook")
        try:
            await asyncio.wait([serving])
            serving.result()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._clock.sleep(self._drain_seconds)
            raise
        finally:
            serving.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([serving])
            self._server = None


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
                body = await request.body()
                check_bytes(body, BODY)
                answered = await review(msgspec.json.decode(body))
                response = Response(msgspec.json.encode(answered), media_type="application/json")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                response = PlainTextResponse("the body is no JSON\n", 400)
            except InvalidInput as error:
                response = PlainTextResponse(f"{error.message}\n", 400)
        await response(scope, receive, send)

    return BodyLimit(app)

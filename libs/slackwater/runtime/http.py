"""The HTTP server of a process: every service's routes, health, and errors in one form."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio
import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from slackwater.model.errors import Misconfigured
from slackwater.runtime.authentication import Authenticator
from slackwater.runtime.body_limit import BodyLimit, BodyTooLarge, too_large
from slackwater.runtime.bounded_http import BoundedHttp
from slackwater.runtime.certificates import ServerTls, Tls
from slackwater.runtime.cross_site import RefuseOtherSites
from slackwater.runtime.description import description_router
from slackwater.runtime.head_method import HeadMethod
from slackwater.runtime.health import health_router
from slackwater.runtime.http_acceptor import Acceptor
from slackwater.runtime.http_access import Authentication, LocalNamesOnly
from slackwater.runtime.http_connections import OpenConnections, connection_limit
from slackwater.runtime.http_metrics import HttpMetrics
from slackwater.runtime.large_bodies import LargeBodies, TooManyLargeBodies, too_many
from slackwater.runtime.problem_pages import problem_pages
from slackwater.runtime.problems import install_problem_handlers
from slackwater.runtime.reject_nul import RejectNul
from slackwater.runtime.roles import OPEN
from slackwater.runtime.routes import LARGE_BODIES, guarded_routes
from slackwater.runtime.service import Check
from slackwater.runtime.settings import USUAL_PORT, HttpSettings
from slackwater.runtime.version import version
from slackwater.telemetry.metrics import process_meters

GRACE_SECONDS = 0.2
"""Time for requests in flight at stop; an open event stream never ends by itself."""
UNREAD_SECONDS = 90
"""Time after which the kernel closes a connection whose peer does not read."""
UNACCEPTED = 1024
"""Connections that wait in the kernel, where they hold no descriptor of this process."""
CERTIFICATE_SECONDS = 10.0
"""Interval between checks of the certificate files."""


def build_app(
    routers: Sequence[APIRouter],
    checks: Callable[[], Awaitable[Sequence[Check]]],
    settings: HttpSettings,
    unrecoverable: Callable[[], Sequence[str]] = tuple,
) -> FastAPI:
    """The ASGI application of a process. It loads nothing from outside, its API description included.

    Raises Misconfigured if a route does not say which role it needs, or the tokens file cannot be used.
    """
    app = FastAPI(title="Slackwater", version=version(), openapi_url=None, docs_url=None, redoc_url=None)
    install_problem_handlers(app)
    for router in (health_router(checks, unrecoverable), description_router(app), problem_pages(), *routers):
        app.router.routes.extend(router.routes)  # include_router would build each a second time: 70 ms for the console
    setattr(app.state, LARGE_BODIES, LargeBodies())
    app.add_exception_handler(BodyTooLarge, too_large)
    app.add_exception_handler(TooManyLargeBodies, too_many)
    app.add_middleware(HeadMethod)
    app.add_middleware(RejectNul)
    app.add_middleware(BodyLimit)
    app.add_middleware(RefuseOtherSites)
    gate = Authenticator(settings)
    open_paths = frozenset(path for path, _, needed in guarded_routes(app) if needed == OPEN)
    app.add_middleware(Authentication, gate=gate, open_paths=open_paths, secure_cookie=settings.tls)
    if not gate.asks_for_token and settings.loopback:
        app.add_middleware(LocalNamesOnly, allowed=[settings.host])
    return app


class _Server(uvicorn.Server):
    """uvicorn as one task among others: the process handles signals, and stopping does not wait for
    readers.
    """

    def __init__(self, config: uvicorn.Config, listener: socket.socket, settings: HttpSettings) -> None:
        super().__init__(config)
        self._listener = listener
        self._settings = settings
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections within their bounds, instead of uvicorn's own listeners."""
        metrics, settings = HttpMetrics(process_meters()), self._settings
        connections = OpenConnections(connection_limit(settings), metrics)
        self.servers = []
        self._acceptor = Acceptor(
            self._listener,
            lambda: BoundedHttp(self.config, self.server_state, settings, connections, metrics),
            connections,
            self.config.ssl,
            settings.header_seconds,
        )
        self._acceptor.start()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def stop(self) -> None:
        """Ask all open connections to end, then close them."""
        self.should_exit = True
        await self._until_idle(GRACE_SECONDS)
        for connection in list(self.server_state.connections):
            if (transport := getattr(connection, "transport", None)) is not None:
                transport.close()  # the application sees its client leave
        await self._until_idle(GRACE_SECONDS)
        for task in list(self.server_state.tasks):
            task.cancel()
        await self._until_idle(GRACE_SECONDS)  # a request that ends now still gives its session back
        self.force_exit = True

    async def _until_idle(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self.server_state.tasks:  # noqa: ASYNC110 - uvicorn offers a set to look at, no event
                await asyncio.sleep(0.02)


class HttpServer:
    """Listens on creation (so its address is known), and answers while `run` runs."""

    def __init__(self, settings: HttpSettings, tls: Tls | None = None) -> None:
        """With `tls` the listener is open to all that reach it: its application must need no role."""
        if tls is None:
            settings.refuse_if_open_to_all()
        self._settings = settings
        self._tls = tls or (ServerTls(settings) if settings.wants_tls else None)
        self._socket = _listen(settings)
        self.url = _url_of(self._socket, tls=self._tls is not None)
        """URL for a browser; fixed even if the kernel chose the port."""

    async def run(self, app: ASGIApp, started: Callable[[], None] = lambda: None) -> None:
        """Serve until cancelled; open connections are closed and every request's task is ended."""
        tls = self._tls
        server = _Server(
            uvicorn.Config(
                app,
                http=BoundedHttp,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=self._settings.idle_seconds,
                ssl_context_factory=None if tls is None else lambda *_: tls.context,
            ),
            self._socket,
            self._settings,
        )
        # Cancelling serve() leaves its sockets open, so it runs in its own task and is asked to
        # exit.
        serving = asyncio.create_task(server.serve(sockets=[self._socket]), name="http")
        try:
            while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has a flag, no event
                await asyncio.sleep(0.01)
            started()
            await self._until_ended(serving)
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop()
                await asyncio.wait([serving])

    async def _until_ended(self, serving: asyncio.Task[None]) -> None:
        """Wait for the server to end, checking for new certificates meanwhile."""
        while self._tls is not None and not serving.done():
            await asyncio.wait({serving}, timeout=CERTIFICATE_SECONDS)
            self._tls.refresh()
        await asyncio.shield(serving)

    def close(self) -> None:
        """Stop listening if `run` was never reached."""
        self._socket.close()


def _listen(settings: HttpSettings) -> socket.socket:
    """Returns a listening socket. If the default port is taken, another is used; a port that was
    set explicitly must be free.
    """
    port = USUAL_PORT if settings.port is None else settings.port
    try:
        return _bind(settings.host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and settings.port is None:
            return _bind(settings.host, 0)
        raise Misconfigured(
            f"cannot listen on {settings.host}:{port}: {error.strerror}; "
            "choose another with --port, or make run PORT=… (0: any free one)",
            field="port",
        ) from None


def _url_of(listener: socket.socket, *, tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - nothing is bound here, the address is only read
        host = "localhost"
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Inherited by every connection: a peer that neither reads nor closes must not hold a
        # connection and its buffers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        listener.bind(address)
        listener.listen(UNACCEPTED)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener

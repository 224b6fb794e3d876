"""The gRPC server of a process: every service's RPCs, health and reflection, behind one guard.

Importing this module loads grpc: import it only where RPCs are served.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import grpc
import grpc.aio
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from slackwater.model.errors import Misconfigured
from slackwater.runtime.authentication import Authenticator, RpcRoles
from slackwater.runtime.http_connections import connection_limit
from slackwater.runtime.roles import OPEN, Needed, Role
from slackwater.runtime.rpc_certificates import credentials_of
from slackwater.runtime.rpc_guard import RpcGuard
from slackwater.runtime.rpc_health import HealthAnswers
from slackwater.runtime.rpc_metrics import RpcMetrics
from slackwater.runtime.rpc_watch import RpcWatch
from slackwater.runtime.service import Check, RpcPart
from slackwater.runtime.settings import USUAL_RPC_PORT, HttpSettings, RpcSettings
from slackwater.telemetry.metrics import Meters, process_meters

if TYPE_CHECKING:
    from fastapi import APIRouter

GRACE_SECONDS = 0.5
"""Time for calls in flight at stop; streams end before by themselves."""
MOST_CALLS = 1000
"""Limit of open calls; one more is refused with RESOURCE_EXHAUSTED."""
OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.so_reuseport", 0),  # a port that is taken is an error, not a port that two share
    ("grpc.max_receive_message_length", 256 * 1024),  # requests are small
    ("grpc.max_send_message_length", 16 * 1024 * 1024),  # a page of 1000 nodes is about 1 MB
    ("grpc.keepalive_time_ms", 30_000),  # a client that vanished is noticed within
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # what clients may do without being sent away
    ("grpc.server_handshake_timeout_ms", 10_000),  # of TLS and HTTP/2; by default 120 s
    ("grpc.max_connection_idle_ms", 300_000),  # a connection without calls; clients connect again by themselves
)
HEALTH = "grpc.health.v1.Health"
OWN_ROLES: Mapping[str, Needed] = {
    f"/{HEALTH}/Check": OPEN,
    f"/{HEALTH}/List": OPEN,
    f"/{HEALTH}/Watch": OPEN,
    f"/{reflection.SERVICE_NAME}/ServerReflectionInfo": Role.VIEWER,
}


class _Registrar:
    """Replaces the server while services register, and records their methods."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self.methods: set[str] = set()

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.methods |= {f"/{service}/{method}" for method in handlers}
        self._server.add_registered_method_handlers(service, handlers)


class RpcServer:
    """Runs like a service: last to start and first to stop, so that streams end in order."""

    name = "grpc"

    def __init__(
        self,
        settings: RpcSettings,
        http: HttpSettings,
        parts: Sequence[RpcPart],
        checks: Callable[[], Awaitable[Sequence[Check]]],
        meters: Meters | None = None,
    ) -> None:
        """Raises Misconfigured if it would be open to the network, or a method has no role."""
        self._doors = settings.doors(http)
        self._doors.refuse_if_open_to_all()
        self._gate = Authenticator(self._doors)
        self._watch = RpcWatch(RpcMetrics(meters or process_meters()))
        self._port = settings.port
        self._parts = parts
        self._checks = checks
        needed = {f"/{part.name}/{method}": role for part in parts for method, role in part.roles.items()}
        self._roles = RpcRoles({**OWN_ROLES, **needed})
        self.methods: frozenset[str] = frozenset()
        """All callable methods, while it runs."""
        self.address = ""
        """HOST:PORT, while it runs; unchanged by a restart."""

    async def run(self, started: Callable[[], None]) -> None:
        """Serve until cancelled. Raises Misconfigured when it cannot listen."""
        leaving = asyncio.Event()
        server = grpc.aio.server(
            interceptors=[RpcGuard(self._gate, self._roles, self._watch)],
            options=[*OPTIONS, ("grpc.max_allowed_incoming_connections", connection_limit(self._doors))],
            maximum_concurrent_rpcs=MOST_CALLS,
        )
        self._register(server, leaving)
        self.address = self._listen(server)
        await server.start()
        started()
        try:
            await server.wait_for_termination()
        finally:
            leaving.set()
            with anyio.CancelScope(shield=True):
                await server.stop(GRACE_SECONDS)

    async def checks(self) -> Sequence[Check]:
        return ()

    def routers(self) -> Sequence[APIRouter]:
        return ()

    def _register(self, server: grpc.aio.Server, leaving: asyncio.Event) -> None:
        registrar: Any = _Registrar(server)
        for part in self._parts:
            part.add(registrar, leaving)
        names = (*(part.name for part in self._parts), HEALTH, reflection.SERVICE_NAME)
        answers = HealthAnswers(self._checks, names, leaving)
        health_pb2_grpc.add_HealthServicer_to_server(answers, registrar)
        reflection.enable_server_reflection(names, server)
        self.methods = frozenset({*registrar.methods, f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"})
        if missing := self._roles.missing(self.methods):
            raise Misconfigured(f"these RPCs declare no role: {', '.join(missing)}; add them to `roles` of their part")

    def _listen(self, server: grpc.aio.Server) -> str:
        host = self._doors.host
        port = USUAL_RPC_PORT if self._port is None else self._port
        if self._port is None and not _is_free(host, port):
            port = 0
        name = f"[{host}]" if ":" in host else host
        try:
            self._port = self._bind(server, f"{name}:{port}")
        except RuntimeError:
            if self._port is None and port:  # taken since, by one that began in the same moment
                self._port = 0
                return self._listen(server)
            raise Misconfigured(
                f"cannot listen on {name}:{port} for gRPC; choose another with SLACKWATER_GRPC_PORT (0 = any free "
                "one), or switch it off with SLACKWATER_GRPC_ENABLED=false",
                field="port",
            ) from None
        shown = "localhost" if host in ("0.0.0.0", "::") else name  # noqa: S104 - nothing is bound here
        return f"{shown}:{self._port}"

    def _bind(self, server: grpc.aio.Server, address: str) -> int:
        if not self._doors.tls:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials_of(self._doors))


def _is_free(host: str, port: int) -> bool:
    """Returns whether the port is free. Checked first, because grpc writes to stderr about a port
    it cannot bind.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True

"""The plugins of other processes on this node: they register at the manager's socket, or are found by their own."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from slackwater.agent.adapters.resource_plugins import wire
from slackwater.agent.adapters.resource_plugins.connection import (
    DIAL_SECONDS,
    PluginConnection,
    called,
    dial,
    plugin_channel,
)
from slackwater.agent.domain.resource_manager.endpoints import (
    API_VERSION,
    Endpoints,
    Registration,
    expected,
    register,
    stop,
    without_ended,
)
from slackwater.agent.domain.resource_manager.foreign_answers import ForeignBounds
from slackwater.agent.domain.resource_manager.messages import (
    TIMEOUT_SECONDS,
    PluginCall,
    PluginFailure,
    PluginOptions,
    Rpc,
)
from slackwater.agent.domain.resource_manager.plugin_sockets import (
    MANAGER_SOCKET,
    SocketIdentity,
    Sockets,
    socket_changes,
)
from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, NotFound, SlackwaterError, Unavailable
from slackwater.model.time import Clock
from slackwater.runtime.owned_files import own_folder
from slackwater.telemetry.logs import get_logger
from slackwater.v1.plugins import plugin_registration_pb2 as registration_pb
from slackwater.v1.plugins import resource_plugin_pb2 as pb
from slackwater.v1.plugins.plugin_registration_pb2_grpc import RegistrationStub
from slackwater.v1.plugins.resource_plugin_pb2_grpc import (
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)

_log = get_logger(__name__)
PLUGIN_TYPE = "ResourcePlugin"
SCAN_SECONDS, PROBE_SECONDS = 1.0, 1.0
LONGEST_SOCKET_PATH = 107
FOLDER_MODE = 0o750
_MOST_SOCKETS = 256
_LARGEST_REGISTRATION = 64 << 10


@dataclass(frozen=True, slots=True)
class _Plugin:
    """A connection, and which socket it is to."""

    connection: PluginConnection
    socket: str
    identity: SocketIdentity


@dataclass(slots=True)
class PluginDirectory:
    """See RemotePlugins. `endpoints` are those of all plugins; the ones in this process never end."""

    folder: Path
    bounds: ForeignBounds
    clock: Clock
    endpoints: Endpoints = field(default_factory=dict)
    timeouts: Mapping[Rpc, float] = field(default_factory=lambda: TIMEOUT_SECONDS)
    dial_seconds: float = DIAL_SECONDS
    probe_seconds: float = PROBE_SECONDS
    _plugins: dict[str, _Plugin] = field(default_factory=dict)
    _sockets: Sockets = field(default_factory=dict)
    _registering: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Accept and look for plugins until cancelled. Without a directory to use the agent works without plugins."""
        try:
            server = await self.listen()
        except Misconfigured as error:
            _log.error("no resource plugins", error=error.message)
            return
        try:
            while True:
                await self.scan()
                await self.clock.sleep(SCAN_SECONDS)
        finally:
            await server.stop(0)
            for plugin in self._plugins.values():
                await plugin.connection.close()

    def expect(self, resources: set[str]) -> None:
        """Keep a place for the plugins that a checkpoint names: what they allocated stays, and they may come back."""
        self.endpoints = expected(self.endpoints, sorted(resources), self.clock.monotonic())

    async def answer(self, call: PluginCall) -> Any:
        """Returns the answer of the plugin of a resource; PluginFailure where it has none, or is gone."""
        plugin = self._plugins.get(call.resource)
        if plugin is None:
            return PluginFailure(f"endpoint {call.resource} has been stopped")
        return await plugin.connection.answer(call)

    async def scan(self) -> None:
        """Read the directory once: end what is gone, register what is new, and probe what does not answer."""
        sockets = _sockets(self.folder)
        changes = socket_changes(self._sockets, sockets)
        self._sockets = sockets
        for name in changes.gone:
            for resource, plugin in list(self._plugins.items()):
                if plugin.socket == name and sockets.get(name) != plugin.identity:
                    await self._end(resource, "its socket is gone")
        await asyncio.gather(*(self._discover(name, sockets[name]) for name in changes.appeared))
        await asyncio.gather(*(self._examine(resource) for resource in list(self._plugins)))
        self.endpoints = without_ended(self.endpoints, self.clock.monotonic())

    async def register(self, registration: Registration) -> None:
        """Accept a plugin. Raises InvalidInput, Conflict while another one has the resource, Unavailable where nothing
        listens at its socket."""
        async with self._registering:
            present = self._plugins.get(registration.resource)
            if present is not None and await self._may_replace(present, registration.socket):
                await self._end(registration.resource, "it registers again")
            endpoints = register(self.endpoints, registration)
            identity = _sockets(self.folder).get(registration.socket)
            if identity is None or registration.socket == MANAGER_SOCKET:
                socket = registration.socket
                raise InvalidInput(f"endpoint: {socket!r} is no socket in {self.folder}", field="endpoint")
            connection = PluginConnection(
                registration.resource, self.folder / registration.socket, self.bounds, self.timeouts
            )
            try:
                await connection.dial(self.dial_seconds)
            except SlackwaterError:
                await connection.close()
                raise
            self._plugins[registration.resource] = _Plugin(connection, registration.socket, identity)
            self.endpoints = endpoints
            _log.info("resource plugin registered", resource=registration.resource, socket=registration.socket)

    async def _may_replace(self, present: _Plugin, socket: str) -> bool:
        """Whether a plugin is gone, or is the one that registers again."""
        identity = _sockets(self.folder).get(present.socket)
        return (
            identity != present.identity
            or present.socket == socket
            or not await present.connection.probe(self.probe_seconds)
        )

    async def _end(self, resource: str, why: str) -> None:
        plugin = self._plugins.pop(resource)
        self.endpoints = stop(self.endpoints, resource, self.clock.monotonic())
        await plugin.connection.close()
        _log.warning("resource plugin ended", resource=resource, socket=plugin.socket, why=why)

    async def _examine(self, resource: str) -> None:
        """End a plugin that no longer accepts connections; one that only is silent stays, and is asked again."""
        plugin = self._plugins.get(resource)
        if plugin is None:
            return
        connection = plugin.connection
        if not connection.is_connected:
            try:
                await connection.dial(self.probe_seconds)
            except SlackwaterError as error:
                if self._plugins.get(resource) is plugin:
                    await self._end(resource, error.message)
                return
        if connection.is_silent and await connection.probe(self.probe_seconds):
            _log.info("resource plugin answers again", resource=resource)

    async def _discover(self, name: str, identity: SocketIdentity) -> None:
        """Register the plugin at a new socket, where it says what it is. One that does not will register itself."""
        if any(plugin.socket == name and plugin.identity == identity for plugin in self._plugins.values()):
            return
        path = self.folder / name
        channel = plugin_channel(path)
        stub, subject = RegistrationStub(channel), f"the plugin at {name}"
        try:
            await dial(channel, path, min(self.dial_seconds, self.timeouts[Rpc.OPTIONS]))
            info = await called(stub.GetInfo, registration_pb.InfoRequest(), self.timeouts[Rpc.OPTIONS], subject)
            status = registration_pb.RegistrationStatus(plugin_registered=True)
            try:
                await self.register(await self._announced(name, info))
            except SlackwaterError as error:
                status = registration_pb.RegistrationStatus(error=error.message)
                _log.warning("resource plugin refused", socket=name, error=error.message)
            await called(stub.NotifyRegistrationStatus, status, self.timeouts[Rpc.OPTIONS], subject)
        except NotFound:
            _log.debug("socket waits for a registration", socket=name)
        except SlackwaterError as error:
            _log.warning("resource plugin not discovered", socket=name, error=error.message)
        finally:
            await channel.close()

    async def _announced(self, name: str, info: registration_pb.PluginInfo) -> Registration:
        """What a plugin says of itself. Raises InvalidInput for a kind or version that is none of ours."""
        if info.type != PLUGIN_TYPE:
            raise InvalidInput(f"type: {info.type[:40]!r} is not {PLUGIN_TYPE}", field="type")
        version = API_VERSION if API_VERSION in info.supported_versions else ", ".join(info.supported_versions)
        connection = PluginConnection(info.name[:80], self.folder / name, self.bounds, self.timeouts)
        try:
            options = await connection.options() if version == API_VERSION else PluginOptions()
        finally:
            await connection.close()
        return Registration(version, Path(info.endpoint).name or name, info.name, options)

    async def listen(self) -> grpc.aio.Server:
        """Accept registrations. Raises Misconfigured where the directory cannot be used."""
        path = self.folder / MANAGER_SOCKET
        if len(str(path)) > LONGEST_SOCKET_PATH:
            raise Misconfigured(
                f"SLACKWATER_AGENT_RESOURCE_PLUGINS_DIR: {path} has {len(str(path))} characters; a socket's path has "
                f"at most {LONGEST_SOCKET_PATH}"
            )
        try:
            own_folder(self.folder, FOLDER_MODE)
            if await _accepts(path):
                raise Misconfigured(
                    f"SLACKWATER_AGENT_RESOURCE_PLUGINS_DIR: another manager listens at {path}; one of both must end"
                )
            path.unlink(missing_ok=True)
            server = grpc.aio.server(options=[("grpc.max_receive_message_length", _LARGEST_REGISTRATION)])
            add_RegistrationServicer_to_server(_Registrations(self), server)
            server.add_insecure_port(f"unix:{path}")
            await server.start()
        except (OSError, RuntimeError) as error:
            raise Misconfigured(f"SLACKWATER_AGENT_RESOURCE_PLUGINS_DIR: {path}: {error}") from None
        return server


@dataclass(slots=True)
class _Registrations(RegistrationServicer):
    """The service at the manager's socket."""

    directory: PluginDirectory

    async def Register(  # noqa: N802 - of the contract
        self, request: pb.RegisterRequest, context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty]
    ) -> pb.Empty:
        registration = Registration(
            request.version, request.endpoint, request.resource_name, wire.options_of(request.options)
        )
        try:
            await self.directory.register(registration)
        except SlackwaterError as error:
            _log.warning("resource plugin refused", socket=request.endpoint[:80], error=error.message)
            await context.abort(status_of(error), error.message)
        return pb.Empty()


def status_of(error: SlackwaterError) -> grpc.StatusCode:
    """Returns the status of gRPC for an error of the tree."""
    match error:
        case InvalidInput():
            return grpc.StatusCode.INVALID_ARGUMENT
        case NotFound():
            return grpc.StatusCode.NOT_FOUND
        case Conflict():
            return grpc.StatusCode.FAILED_PRECONDITION
        case Unavailable():
            return grpc.StatusCode.UNAVAILABLE
    return grpc.StatusCode.INTERNAL


def _sockets(folder: Path) -> Sockets:
    """The sockets of plugins; none where the directory cannot be read."""
    sockets: dict[str, SocketIdentity] = {}
    try:
        for path in sorted(folder.iterdir())[:_MOST_SOCKETS]:
            with suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISSOCK(status.st_mode) and path.name != MANAGER_SOCKET:
                    sockets[path.name] = status.st_ino, status.st_mtime_ns
    except OSError as error:
        _log.warning("directory of resource plugins not readable", error=str(error))
    return sockets


async def _accepts(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(str(path))
    except OSError:
        return False
    writer.close()
    return True

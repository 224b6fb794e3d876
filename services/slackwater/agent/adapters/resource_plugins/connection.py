"""The connection to one plugin of another process: each call ends in time, and each answer is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from slackwater.agent.adapters.resource_plugins import wire
from slackwater.agent.domain.resource_manager.foreign_answers import ForeignBounds
from slackwater.agent.domain.resource_manager.messages import (
    TIMEOUT_SECONDS,
    AllocatableResource,
    Allocated,
    PluginCall,
    PluginFailure,
    PluginOptions,
    ResourceRequest,
    Rpc,
)
from slackwater.model.errors import Conflict, InvalidInput, NotFound, SlackwaterError, Unavailable
from slackwater.v1.plugins import resource_plugin_pb2 as pb
from slackwater.v1.plugins.resource_plugin_pb2_grpc import ResourcePluginStub

DIAL_SECONDS = 10.0
LARGEST_MESSAGE = 4 << 20
"""Bytes of one answer; 4,096 containers with a kilobyte each."""
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.default_authority", "localhost"),  # servers refuse the path of a socket there
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a socket that was made anew is not the connection before
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_LONGEST_REASON = 200


@dataclass(slots=True)
class PluginConnection:
    """Asks the plugin of a resource. `timeouts` are seconds by RPC."""

    resource: str
    path: Path
    bounds: ForeignBounds
    timeouts: Mapping[Rpc, float] = field(default_factory=lambda: TIMEOUT_SECONDS)
    is_silent: bool = False
    """It did not answer in time. Until it answers a probe no call waits for it again."""
    _channel: grpc.aio.Channel = field(init=False)
    _stub: ResourcePluginStub = field(init=False)

    def __post_init__(self) -> None:
        self._channel = plugin_channel(self.path)
        self._stub = ResourcePluginStub(self._channel)

    async def dial(self, seconds: float = DIAL_SECONDS) -> None:
        """Connect. Raises Unavailable."""
        await dial(self._channel, self.path, seconds)

    async def close(self) -> None:
        await self._channel.close()

    @property
    def is_connected(self) -> bool:
        return self._channel.get_state() is grpc.ChannelConnectivity.READY

    async def probe(self, seconds: float) -> bool:
        """Returns whether the plugin answers; calls may wait for it again then."""
        try:
            await self._called(self._stub.GetResourcePluginOptions, pb.Empty(), seconds)
        except SlackwaterError:
            return False
        self.is_silent = False
        return True

    async def answer(self, call: PluginCall) -> Any:
        """Returns the answer to a call of the manager; a refusal, and an answer that is refused, as PluginFailure."""
        try:
            return await self.ask(call.rpc, call.request)
        except SlackwaterError as error:
            return PluginFailure(error.message)

    async def ask(self, rpc: Rpc, request: Any = None) -> Any:
        """Returns the answer in the manager's form. Raises Unavailable, Conflict, NotFound, or InvalidInput for an
        answer that is not allowed."""
        if self.is_silent:
            raise Unavailable(f"{self.resource}: the plugin at {self.path.name} does not answer", code="plugin_silent")
        seconds = self.timeouts[rpc]
        try:
            return await self._ask(rpc, request, seconds)
        except InvalidInput as error:
            raise InvalidInput(
                f"{self.resource}: {rpc} at {self.path.name}: {error.message}", code="plugin_answer", field=error.field
            ) from None

    async def _ask(self, rpc: Rpc, request: Any, seconds: float) -> Any:
        stub, called, bounds = self._stub, self._called, self.bounds
        match rpc:
            case Rpc.OPTIONS:
                return wire.options_of(await called(stub.GetResourcePluginOptions, pb.Empty(), seconds))
            case Rpc.HINTS | Rpc.POD_HINTS:
                return await self._hints(rpc, request, seconds)
            case Rpc.ALLOCATE | Rpc.ALLOCATE_FOR_POD:
                return await self._allocate(rpc, request, seconds)
            case Rpc.ALLOCATIONS:
                held = await called(stub.GetResourcesAllocation, pb.GetResourcesAllocationRequest(), seconds)
                return wire.allocations_of(self.resource, held, bounds)
            case Rpc.AWARE:
                uid, container = request
                which = pb.GetTopologyAwareResourcesRequest(pod_uid=uid, container_name=container)
                return wire.held_of(await called(stub.GetTopologyAwareResources, which, seconds), bounds)
            case Rpc.ALLOCATABLE:
                return await self._allocatable(seconds)
            case Rpc.PRE_START:
                await called(stub.PreStartContainer, _starting(request), seconds)
                return None
            case Rpc.REMOVE:
                await called(stub.RemovePod, pb.RemovePodRequest(pod_uid=request), seconds)
                return None

    async def _hints(self, rpc: Rpc, request: ResourceRequest, seconds: float) -> Any:
        if rpc is Rpc.HINTS:
            hints = await self._called(self._stub.GetTopologyHints, wire.request_message(request), seconds)
            wire.check_answers(request, hints)
            return wire.hints_of(hints, self.bounds)
        of_pod = await self._called(self._stub.GetPodTopologyHints, wire.pod_request_message(request), seconds)
        wire.check_answers(request, of_pod)
        return wire.hints_of(of_pod, self.bounds)

    async def _allocate(self, rpc: Rpc, request: ResourceRequest, seconds: float) -> Allocated:
        if rpc is Rpc.ALLOCATE:
            allocated = await self._called(self._stub.Allocate, wire.request_message(request), seconds)
            wire.check_answers(request, allocated)
            return wire.allocated_of(self.resource, allocated.allocation_result, self.bounds)
        of_pod = await self._called(self._stub.AllocateForPod, wire.pod_request_message(request), seconds)
        wire.check_answers(request, of_pod)
        return wire.allocated_of(self.resource, of_pod.allocation_result, self.bounds)

    async def _allocatable(self, seconds: float) -> Mapping[str, AllocatableResource]:
        message = await self._called(
            self._stub.GetTopologyAwareAllocatableResources,
            pb.GetTopologyAwareAllocatableResourcesRequest(),
            seconds,
        )
        reports = wire.allocatable_of(self.resource, message, self.bounds)
        self.bounds = replace(self.bounds, capacity={name: report.capacity for name, report in reports.items()})
        return reports

    async def options(self) -> PluginOptions:
        """Raises as `ask`."""
        options: PluginOptions = await self.ask(Rpc.OPTIONS)
        return options

    async def _called(self, method: Callable[..., Awaitable[Any]], message: Any, seconds: float) -> Any:
        try:
            return await called(method, message, seconds, f"{self.resource}: the plugin at {self.path.name}")
        except Unavailable as error:
            self.is_silent = error.code == "plugin_silent"
            raise


def _starting(request: ResourceRequest) -> pb.PreStartContainerRequest:
    return pb.PreStartContainerRequest(
        pod_uid=request.pod_uid,
        pod_namespace=request.pod_namespace,
        pod_name=request.pod_name,
        container_name=request.container,
    )


def plugin_channel(path: Path) -> grpc.aio.Channel:
    """Returns a channel to a unix socket."""
    return grpc.aio.insecure_channel(f"unix:{path}", options=CHANNEL_OPTIONS)


async def dial(channel: grpc.aio.Channel, path: Path, seconds: float = DIAL_SECONDS) -> None:
    """Connect. Raises Unavailable."""
    try:
        async with asyncio.timeout(seconds):
            await channel.channel_ready()
    except TimeoutError:
        raise Unavailable(
            f"{path}: nothing accepts connections within {seconds:g} s", code="plugin_unreachable"
        ) from None


async def called(method: Callable[..., Awaitable[Any]], message: Any, seconds: float, subject: str) -> Any:
    """Returns the answer of a gRPC method. Raises Unavailable, NotFound, Conflict or InvalidInput by its status."""
    try:
        answer = await method(message, timeout=seconds)
    except grpc.aio.AioRpcError as error:
        raise _error(error.code(), error.details() or "", subject, seconds) from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Unavailable(f"{subject} was closed during the call", code="plugin_unreachable") from None
    if answer is None:  # as gRPC gives bytes that cannot be parsed
        raise InvalidInput(f"{subject} answered what is no message", code="plugin_answer")
    return answer


def _error(code: grpc.StatusCode, details: str, subject: str, seconds: float) -> SlackwaterError:
    text = "".join(letter if letter.isprintable() else "?" for letter in details[:_LONGEST_REASON])
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(f"{subject} did not answer within {seconds:g} s", code="plugin_silent")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
            return Unavailable(f"{subject} is gone: {text}", code="plugin_unreachable")
        case grpc.StatusCode.INVALID_ARGUMENT | grpc.StatusCode.OUT_OF_RANGE:
            return InvalidInput(f"{subject} refused: {text}", code="plugin_refused")
        case grpc.StatusCode.UNIMPLEMENTED | grpc.StatusCode.NOT_FOUND:
            return NotFound(f"{subject} has no such thing: {text}", code="plugin_lacks")
    return Conflict(f"{subject} refused: {code.name}: {text}", code="plugin_refused")

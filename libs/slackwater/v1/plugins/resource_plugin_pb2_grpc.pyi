import grpc
import grpc.aio
from collections.abc import AsyncIterator, Awaitable

from slackwater.v1.plugins import resource_plugin_pb2

class RegistrationStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    Register: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.RegisterRequest, resource_plugin_pb2.Empty]

class RegistrationServicer:
    def Register(
        self, request: resource_plugin_pb2.RegisterRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.RegisterRequest, resource_plugin_pb2.Empty]
    ) -> Awaitable[resource_plugin_pb2.Empty]: ...

def add_RegistrationServicer_to_server(
    servicer: RegistrationServicer, server: grpc.aio.Server
) -> None: ...
class ResourcePluginStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    GetResourcePluginOptions: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.Empty, resource_plugin_pb2.ResourcePluginOptions]
    GetTopologyHints: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.ResourceRequest, resource_plugin_pb2.ResourceHintsResponse]
    GetPodTopologyHints: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.PodResourceRequest, resource_plugin_pb2.PodResourceHintsResponse]
    Allocate: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.ResourceRequest, resource_plugin_pb2.ResourceAllocationResponse]
    AllocateForPod: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.PodResourceRequest, resource_plugin_pb2.PodResourceAllocationResponse]
    GetResourcesAllocation: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.GetResourcesAllocationRequest, resource_plugin_pb2.GetResourcesAllocationResponse]
    GetTopologyAwareResources: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.GetTopologyAwareResourcesRequest, resource_plugin_pb2.GetTopologyAwareResourcesResponse]
    GetTopologyAwareAllocatableResources: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.GetTopologyAwareAllocatableResourcesRequest, resource_plugin_pb2.GetTopologyAwareAllocatableResourcesResponse]
    PreStartContainer: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.PreStartContainerRequest, resource_plugin_pb2.PreStartContainerResponse]
    RemovePod: grpc.aio.UnaryUnaryMultiCallable[resource_plugin_pb2.RemovePodRequest, resource_plugin_pb2.RemovePodResponse]

class ResourcePluginServicer:
    def GetResourcePluginOptions(
        self, request: resource_plugin_pb2.Empty, context: grpc.aio.ServicerContext[resource_plugin_pb2.Empty, resource_plugin_pb2.ResourcePluginOptions]
    ) -> Awaitable[resource_plugin_pb2.ResourcePluginOptions]: ...
    def GetTopologyHints(
        self, request: resource_plugin_pb2.ResourceRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.ResourceRequest, resource_plugin_pb2.ResourceHintsResponse]
    ) -> Awaitable[resource_plugin_pb2.ResourceHintsResponse]: ...
    def GetPodTopologyHints(
        self, request: resource_plugin_pb2.PodResourceRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.PodResourceRequest, resource_plugin_pb2.PodResourceHintsResponse]
    ) -> Awaitable[resource_plugin_pb2.PodResourceHintsResponse]: ...
    def Allocate(
        self, request: resource_plugin_pb2.ResourceRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.ResourceRequest, resource_plugin_pb2.ResourceAllocationResponse]
    ) -> Awaitable[resource_plugin_pb2.ResourceAllocationResponse]: ...
    def AllocateForPod(
        self, request: resource_plugin_pb2.PodResourceRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.PodResourceRequest, resource_plugin_pb2.PodResourceAllocationResponse]
    ) -> Awaitable[resource_plugin_pb2.PodResourceAllocationResponse]: ...
    def GetResourcesAllocation(
        self, request: resource_plugin_pb2.GetResourcesAllocationRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.GetResourcesAllocationRequest, resource_plugin_pb2.GetResourcesAllocationResponse]
    ) -> Awaitable[resource_plugin_pb2.GetResourcesAllocationResponse]: ...
    def GetTopologyAwareResources(
        self, request: resource_plugin_pb2.GetTopologyAwareResourcesRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.GetTopologyAwareResourcesRequest, resource_plugin_pb2.GetTopologyAwareResourcesResponse]
    ) -> Awaitable[resource_plugin_pb2.GetTopologyAwareResourcesResponse]: ...
    def GetTopologyAwareAllocatableResources(
        self, request: resource_plugin_pb2.GetTopologyAwareAllocatableResourcesRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.GetTopologyAwareAllocatableResourcesRequest, resource_plugin_pb2.GetTopologyAwareAllocatableResourcesResponse]
    ) -> Awaitable[resource_plugin_pb2.GetTopologyAwareAllocatableResourcesResponse]: ...
    def PreStartContainer(
        self, request: resource_plugin_pb2.PreStartContainerRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.PreStartContainerRequest, resource_plugin_pb2.PreStartContainerResponse]
    ) -> Awaitable[resource_plugin_pb2.PreStartContainerResponse]: ...
    def RemovePod(
        self, request: resource_plugin_pb2.RemovePodRequest, context: grpc.aio.ServicerContext[resource_plugin_pb2.RemovePodRequest, resource_plugin_pb2.RemovePodResponse]
    ) -> Awaitable[resource_plugin_pb2.RemovePodResponse]: ...

def add_ResourcePluginServicer_to_server(
    servicer: ResourcePluginServicer, server: grpc.aio.Server
) -> None: ...

import grpc
import grpc.aio
from collections.abc import AsyncIterator, Awaitable

from slackwater.v1.plugins import pod_resources_pb2

class PodResourcesListerStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    List: grpc.aio.UnaryUnaryMultiCallable[pod_resources_pb2.ListPodResourcesRequest, pod_resources_pb2.ListPodResourcesResponse]
    GetAllocatableResources: grpc.aio.UnaryUnaryMultiCallable[pod_resources_pb2.AllocatableResourcesRequest, pod_resources_pb2.AllocatableResourcesResponse]
    Get: grpc.aio.UnaryUnaryMultiCallable[pod_resources_pb2.GetPodResourcesRequest, pod_resources_pb2.GetPodResourcesResponse]

class PodResourcesListerServicer:
    def List(
        self, request: pod_resources_pb2.ListPodResourcesRequest, context: grpc.aio.ServicerContext[pod_resources_pb2.ListPodResourcesRequest, pod_resources_pb2.ListPodResourcesResponse]
    ) -> Awaitable[pod_resources_pb2.ListPodResourcesResponse]: ...
    def GetAllocatableResources(
        self, request: pod_resources_pb2.AllocatableResourcesRequest, context: grpc.aio.ServicerContext[pod_resources_pb2.AllocatableResourcesRequest, pod_resources_pb2.AllocatableResourcesResponse]
    ) -> Awaitable[pod_resources_pb2.AllocatableResourcesResponse]: ...
    def Get(
        self, request: pod_resources_pb2.GetPodResourcesRequest, context: grpc.aio.ServicerContext[pod_resources_pb2.GetPodResourcesRequest, pod_resources_pb2.GetPodResourcesResponse]
    ) -> Awaitable[pod_resources_pb2.GetPodResourcesResponse]: ...

def add_PodResourcesListerServicer_to_server(
    servicer: PodResourcesListerServicer, server: grpc.aio.Server
) -> None: ...

import grpc
import grpc.aio
from collections.abc import AsyncIterator, Awaitable

from slackwater.v1 import colocation_service_pb2

class ColocationServiceStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    GetNode: grpc.aio.UnaryUnaryMultiCallable[colocation_service_pb2.GetNodeRequest, colocation_service_pb2.GetNodeResponse]
    ListNodes: grpc.aio.UnaryUnaryMultiCallable[colocation_service_pb2.ListNodesRequest, colocation_service_pb2.ListNodesResponse]
    WatchOffers: grpc.aio.UnaryStreamMultiCallable[colocation_service_pb2.WatchOffersRequest, colocation_service_pb2.WatchOffersResponse]

class ColocationServiceServicer:
    def GetNode(
        self, request: colocation_service_pb2.GetNodeRequest, context: grpc.aio.ServicerContext[colocation_service_pb2.GetNodeRequest, colocation_service_pb2.GetNodeResponse]
    ) -> Awaitable[colocation_service_pb2.GetNodeResponse]: ...
    def ListNodes(
        self, request: colocation_service_pb2.ListNodesRequest, context: grpc.aio.ServicerContext[colocation_service_pb2.ListNodesRequest, colocation_service_pb2.ListNodesResponse]
    ) -> Awaitable[colocation_service_pb2.ListNodesResponse]: ...
    def WatchOffers(
        self, request: colocation_service_pb2.WatchOffersRequest, context: grpc.aio.ServicerContext[colocation_service_pb2.WatchOffersRequest, colocation_service_pb2.WatchOffersResponse]
    ) -> Awaitable[None]: ...

def add_ColocationServiceServicer_to_server(
    servicer: ColocationServiceServicer, server: grpc.aio.Server
) -> None: ...

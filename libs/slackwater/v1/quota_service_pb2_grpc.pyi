import grpc
import grpc.aio
from collections.abc import AsyncIterator, Awaitable

from slackwater.v1 import quota_service_pb2

class QuotaServiceStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    Admit: grpc.aio.UnaryUnaryMultiCallable[quota_service_pb2.AdmitRequest, quota_service_pb2.AdmitResponse]
    AdmitMany: grpc.aio.UnaryUnaryMultiCallable[quota_service_pb2.AdmitManyRequest, quota_service_pb2.AdmitManyResponse]
    Release: grpc.aio.UnaryUnaryMultiCallable[quota_service_pb2.ReleaseRequest, quota_service_pb2.ReleaseResponse]
    Watch: grpc.aio.UnaryStreamMultiCallable[quota_service_pb2.WatchRequest, quota_service_pb2.WatchResponse]

class QuotaServiceServicer:
    def Admit(
        self, request: quota_service_pb2.AdmitRequest, context: grpc.aio.ServicerContext[quota_service_pb2.AdmitRequest, quota_service_pb2.AdmitResponse]
    ) -> Awaitable[quota_service_pb2.AdmitResponse]: ...
    def AdmitMany(
        self, request: quota_service_pb2.AdmitManyRequest, context: grpc.aio.ServicerContext[quota_service_pb2.AdmitManyRequest, quota_service_pb2.AdmitManyResponse]
    ) -> Awaitable[quota_service_pb2.AdmitManyResponse]: ...
    def Release(
        self, request: quota_service_pb2.ReleaseRequest, context: grpc.aio.ServicerContext[quota_service_pb2.ReleaseRequest, quota_service_pb2.ReleaseResponse]
    ) -> Awaitable[quota_service_pb2.ReleaseResponse]: ...
    def Watch(
        self, request: quota_service_pb2.WatchRequest, context: grpc.aio.ServicerContext[quota_service_pb2.WatchRequest, quota_service_pb2.WatchResponse]
    ) -> Awaitable[None]: ...

def add_QuotaServiceServicer_to_server(
    servicer: QuotaServiceServicer, server: grpc.aio.Server
) -> None: ...

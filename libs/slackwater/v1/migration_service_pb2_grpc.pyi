import grpc
import grpc.aio
from collections.abc import AsyncIterator, Awaitable

from slackwater.v1 import migration_service_pb2

class MigrationServiceStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    Submit: grpc.aio.UnaryUnaryMultiCallable[migration_service_pb2.SubmitRequest, migration_service_pb2.SubmitResponse]
    Watch: grpc.aio.UnaryStreamMultiCallable[migration_service_pb2.MigrationServiceWatchRequest, migration_service_pb2.MigrationServiceWatchResponse]

class MigrationServiceServicer:
    def Submit(
        self, request: migration_service_pb2.SubmitRequest, context: grpc.aio.ServicerContext[migration_service_pb2.SubmitRequest, migration_service_pb2.SubmitResponse]
    ) -> Awaitable[migration_service_pb2.SubmitResponse]: ...
    def Watch(
        self, request: migration_service_pb2.MigrationServiceWatchRequest, context: grpc.aio.ServicerContext[migration_service_pb2.MigrationServiceWatchRequest, migration_service_pb2.MigrationServiceWatchResponse]
    ) -> Awaitable[None]: ...

def add_MigrationServiceServicer_to_server(
    servicer: MigrationServiceServicer, server: grpc.aio.Server
) -> None: ...

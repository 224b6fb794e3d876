import grpc
import grpc.aio
from collections.abc import AsyncIterator, Awaitable

from slackwater.v1.plugins import plugin_registration_pb2

class RegistrationStub:
    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    GetInfo: grpc.aio.UnaryUnaryMultiCallable[plugin_registration_pb2.InfoRequest, plugin_registration_pb2.PluginInfo]
    NotifyRegistrationStatus: grpc.aio.UnaryUnaryMultiCallable[plugin_registration_pb2.RegistrationStatus, plugin_registration_pb2.RegistrationStatusResponse]

class RegistrationServicer:
    def GetInfo(
        self, request: plugin_registration_pb2.InfoRequest, context: grpc.aio.ServicerContext[plugin_registration_pb2.InfoRequest, plugin_registration_pb2.PluginInfo]
    ) -> Awaitable[plugin_registration_pb2.PluginInfo]: ...
    def NotifyRegistrationStatus(
        self, request: plugin_registration_pb2.RegistrationStatus, context: grpc.aio.ServicerContext[plugin_registration_pb2.RegistrationStatus, plugin_registration_pb2.RegistrationStatusResponse]
    ) -> Awaitable[plugin_registration_pb2.RegistrationStatusResponse]: ...

def add_RegistrationServicer_to_server(
    servicer: RegistrationServicer, server: grpc.aio.Server
) -> None: ...

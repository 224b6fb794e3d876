"""The gRPC server of a process: authentication, the form of an error, health, reflection, TLS, and stopping."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import grpc
import grpc.aio
import pytest
import trustme
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from slackwater.cli.offline_services import offline_services
from slackwater.model import errors
from slackwater.runtime import rpc
from slackwater.runtime.authentication import Forbidden, Unauthorized
from slackwater.runtime.roles import OPEN, Needed, Role
from slackwater.runtime.rpc import RpcServer
from slackwater.runtime.rpc_guard import Exhausted, status_of
from slackwater.runtime.service import Check, RpcPart, SpeaksRpc
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs

PATIENCE_SECONDS = 60.0
TOKENS = {"v": Role.VIEWER, "o": Role.OPERATOR, "a": Role.ADMIN, "n": Role.AGENT}
NAME = "slackwater.v1.ColocationService"
READS: Mapping[str, Needed] = {"GetNode": Role.VIEWER, "ListNodes": Role.OPERATOR, "WatchOffers": Role.VIEWER}


async def well() -> Sequence[Check]:
    return (Check("all", True),)


class Scripted(stubs.ColocationServiceServicer):
    """Does what the test says; GetNode and WatchOffers alike."""

    def __init__(self, deed: Callable[[], Awaitable[None]]) -> None:
        self._deed = deed

    async def GetNode(self, request: Any, context: Any) -> api.GetNodeResponse:  # noqa: N802 - the contract's name
        await self._deed()
        return api.GetNodeResponse()

    async def ListNodes(self, request: Any, context: Any) -> api.ListNodesResponse:  # noqa: N802 - as above
        return api.ListNodesResponse()

    async def WatchOffers(self, request: Any, context: Any) -> None:  # noqa: N802 - as above
        await self._deed()


async def nothing() -> None:
    pass


def scripted(deed: Callable[[], Awaitable[None]] = nothing, roles: Mapping[str, Needed] = READS) -> RpcPart:
    def add(server: grpc.aio.Server, leaving: asyncio.Event) -> None:
        stubs.add_ColocationServiceServicer_to_server(Scripted(deed), server)

    return RpcPart(NAME, roles, add)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text("".join(f"{name} {role} {name * 20}\n" for name, role in TOKENS.items()))
    file.chmod(0o600)
    return file


@asynccontextmanager
async def running(
    part: RpcPart,
    http: HttpSettings | None = None,
    checks: Callable[[], Awaitable[Sequence[Check]]] = well,
    credentials: grpc.ChannelCredentials | None = None,
) -> AsyncIterator[tuple[grpc.aio.Channel, RpcServer]]:
    server = RpcServer(RpcSettings(port=0), http or HttpSettings.local(), [part], checks)
    ready = asyncio.Event()
    serving = asyncio.create_task(server.run(ready.set))
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            await ready.wait()
        at = server.address.replace("127.0.0.1", "localhost")
        channel = grpc.aio.secure_channel(at, credentials) if credentials else grpc.aio.insecure_channel(server.address)
        async with channel:
            yield channel, server
    finally:
        serving.cancel()
        await asyncio.wait([serving])


async def code_of(call: Any) -> tuple[grpc.StatusCode, dict[str, Any], str]:
    """How a call ended. Streams are read to their end."""
    with anyio.fail_after(PATIENCE_SECONDS):
        try:
            if hasattr(call, "__aiter__"):
                async for _ in call:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError as error:
            return error.code(), dict(error.trailing_metadata() or ()), error.details() or ""
    return grpc.StatusCode.OK, {}, ""


async def called(channel: grpc.aio.Channel, method: str, token: str | None) -> grpc.StatusCode:
    """The status of any method called with an empty request: what it would do is of no concern here."""
    metadata = grpc.aio.Metadata(*([("authorization", f"Bearer {token * 20}")] if token else []))
    if method.endswith("ServerReflectionInfo"):
        for _ in range(5):
            code, _, details = await code_of(channel.stream_stream(method)(iter([b""]), metadata=metadata))
            if details != "Internal error from Core":
                break  # a refusal overtook the client's own sending (github.com/grpc/grpc/issues/36066)
        return code
    if method.endswith("/Watch"):
        return (await code_of(channel.unary_stream(method)(b"", metadata=metadata, timeout=0.5)))[0]
    if method.endswith("WatchOffers"):
        return (await code_of(channel.unary_stream(method)(b"", metadata=metadata)))[0]
    return (await code_of(channel.unary_unary(method)(b"", metadata=metadata)))[0]


NEEDED: Mapping[str, Needed] = {
    "/grpc.health.v1.Health/Check": OPEN,
    "/grpc.health.v1.Health/List": OPEN,
    "/grpc.health.v1.Health/Watch": OPEN,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Role.VIEWER,
    **{f"/{NAME}/{method}": needed for method, needed in READS.items()},
}


async def test_every_method_lets_in_exactly_the_permitted_roles(tokens: Path) -> None:
    http = HttpSettings(host="127.0.0.1", tokens_file=tokens)
    async with running(scripted(), http) as (channel, server):
        assert server.methods == NEEDED.keys()
        for method, needed in NEEDED.items():
            for token in (None, "x", *TOKENS):
                role = TOKENS.get(token or "")
                expected = None
                if needed != OPEN and role is None:
                    expected = grpc.StatusCode.UNAUTHENTICATED
                elif role is not None and not role.allows(needed):
                    expected = grpc.StatusCode.PERMISSION_DENIED
                found = await called(channel, method, token)
                refused = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
                assert (found if found in refused else None) == expected, (method, token, found)


async def test_every_rpc_of_the_product_says_its_role() -> None:
    """What the services register is what they gave a role to: a new RPC without one does not start."""
    parts = [part for service in offline_services() if isinstance(service, SpeaksRpc) for part in service.rpc_parts()]
    assert sorted(part.name for part in parts) == [NAME, "slackwater.v1.MigrationService", "slackwater.v1.QuotaService"]
    for part in parts:
        async with running(part) as (_, server):
            own = {method for method in server.methods if method.startswith("/slackwater.")}
        assert own == {f"/{part.name}/{method}" for method in part.roles}
        described = descriptor_pool.Default().FindServiceByName(part.name)
        assert own == {f"/{part.name}/{method.name}" for method in described.methods}


async def test_an_rpc_without_a_role_does_not_start() -> None:
    server = RpcServer(RpcSettings(port=0), HttpSettings.local(), [scripted(roles={"GetNode": OPEN})], well)
    with pytest.raises(errors.Misconfigured, match="ListNodes, /slackwater"):
        await server.run(lambda: None)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidInput("x: no", field="x"), grpc.StatusCode.INVALID_ARGUMENT, "invalid_input"),
        (errors.NotFound("gone", code="node_not_found"), grpc.StatusCode.NOT_FOUND, "node_not_found"),
        (errors.Conflict("changed"), grpc.StatusCode.ABORTED, "conflict"),
        (errors.Unavailable("away"), grpc.StatusCode.UNAVAILABLE, "unavailable"),
        (errors.Misconfigured("not so"), grpc.StatusCode.FAILED_PRECONDITION, "misconfigured"),
        (Unauthorized("who?"), grpc.StatusCode.UNAUTHENTICATED, "unauthorized"),
        (Forbidden("no"), grpc.StatusCode.PERMISSION_DENIED, "forbidden"),
        (Exhausted("slow", code="too_slow"), grpc.StatusCode.RESOURCE_EXHAUSTED, "too_slow"),
    ],
)
async def test_an_error_is_a_status_a_message_and_a_stable_code(
    error: errors.SlackwaterError, status: grpc.StatusCode, code: str
) -> None:
    async def fail() -> None:
        raise error

    async with running(scripted(fail)) as (channel, _):
        service = stubs.ColocationServiceStub(channel)
        for call in (service.GetNode(api.GetNodeRequest()), service.WatchOffers(api.WatchOffersRequest())):
            found, trailers, message = await code_of(call)
            assert (found, message) == (status, error.message)
            assert (trailers["slackwater-code"], trailers.get("slackwater-field")) == (code, error.field)


@pytest.mark.parametrize("name", ["x" * 100_000, "é" * 3_000, "%" * 20_000, "x" * 3_000])
async def test_an_error_that_says_back_a_long_name_still_arrives_with_its_code(name: str) -> None:
    async def fail() -> None:
        raise errors.NotFound(f"node {name!r} is not known", code="node_not_found", field="name")

    async with running(scripted(fail)) as (channel, _):
        found, trailers, message = await code_of(stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest()))
    assert (found, trailers["slackwater-code"]) == (grpc.StatusCode.NOT_FOUND, "node_not_found")
    assert message.startswith(f"node '{name[:600]}")
    assert message.endswith("is not known" if len(name) == 3_000 and name[0] == "x" else "…")


def test_every_class_of_the_error_tree_has_a_status() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind is not errors.SlackwaterError]
    found = {kind: status_of(kind("x")) for kind in kinds if issubclass(kind, errors.SlackwaterError)}
    assert grpc.StatusCode.INTERNAL not in found.values()
    assert found.pop(errors.Fenced) == found[errors.Conflict], "a caller reacts to both alike"
    assert found.pop(errors.StreamFull) == found[errors.Unavailable], "and to these"
    assert len(set(found.values())) == len(found)


async def test_a_defect_discloses_no_details() -> None:
    async def fail() -> None:
        raise RuntimeError("the password is hunter2")

    async with running(scripted(fail)) as (channel, _):
        found, trailers, message = await code_of(stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest()))
    assert (found, trailers["slackwater-code"]) == (grpc.StatusCode.INTERNAL, "internal")
    assert "hunter2" not in message


async def test_a_callers_deadline_ends_the_work() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(scripted(wait)) as (channel, _):
        service = stubs.ColocationServiceStub(channel)
        found, _, _ = await code_of(service.GetNode(api.GetNodeRequest(), timeout=0.1))
        with anyio.fail_after(PATIENCE_SECONDS):
            await ended.wait()
    assert found is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with running(scripted()) as (channel, _):
        request = api.GetNodeRequest(name="x" * 300_000)
        found, _, _ = await code_of(stubs.ColocationServiceStub(channel).GetNode(request))
    assert found is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_health_follows_the_checks_and_ends_with_not_serving() -> None:
    state = {"ok": False}

    async def checks() -> Sequence[Check]:
        return (Check("database", state["ok"]),)

    async with running(scripted(), checks=checks) as (channel, _):
        health = health_pb2_grpc.HealthStub(channel)

        async def asked(name: str) -> Any:
            return (await health.Check(health_pb2.HealthCheckRequest(service=name))).status

        assert await asked("") == await asked(NAME) == health_pb2.HealthCheckResponse.NOT_SERVING
        state["ok"] = True
        assert await asked(NAME) == health_pb2.HealthCheckResponse.SERVING
        found, _, _ = await code_of(health.Check(health_pb2.HealthCheckRequest(service="nobody")))
        assert found is grpc.StatusCode.NOT_FOUND
        watch: Any = health.Watch(health_pb2.HealthCheckRequest(service=NAME))
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        state["ok"] = False
        with anyio.fail_after(PATIENCE_SECONDS):
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


async def test_reflection_names_every_service_and_describes_ours() -> None:
    async with running(scripted()) as (channel, _):
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        requests = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=NAME),
        ]
        answers: list[Any] = [answer async for answer in ask(iter(requests))]  # type: ignore[attr-defined]  # aio
    names = {service.name for service in answers[0].list_services_response.service}
    assert names == {NAME, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    assert b"WatchOffers" in answers[1].file_descriptor_response.file_descriptor_proto[0]


class Authority:
    """A CA with a server certificate, and settings and credentials made of them."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        issued = self.ca.issue_cert("localhost", "127.0.0.1")
        self.certificate, self.key, self.root = folder / "crt", folder / "key", folder / "ca"
        self.certificate.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(str(self.key))
        self.ca.cert_pem.write_to_path(str(self.root))

    def settings(self, **more: Any) -> HttpSettings:
        return HttpSettings(host="127.0.0.1", tls_certificate=self.certificate, tls_key=self.key, **more)

    def credentials(self, client: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
        if client is None:
            return grpc.ssl_channel_credentials(self.ca.cert_pem.bytes())
        chain = b"".join(each.bytes() for each in client.cert_chain_pems)
        return grpc.ssl_channel_credentials(self.ca.cert_pem.bytes(), client.private_key_pem.bytes(), chain)


async def test_over_tls_one_trusts_the_certificate_and_plain_text_is_not_answered(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = authority.settings()
    async with running(scripted(), settings, credentials=authority.credentials()) as (channel, server):
        assert (await code_of(stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest())))[0].name == "OK"
        async with grpc.aio.insecure_channel(server.address) as plain:
            call = stubs.ColocationServiceStub(plain).GetNode(api.GetNodeRequest(), timeout=PATIENCE_SECONDS)
            assert (await code_of(call))[0] is grpc.StatusCode.UNAVAILABLE


async def test_with_a_client_authority_only_its_certificates_are_answered(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), trustme.CA()
    settings = authority.settings(tls_client_ca=authority.root)
    ours, foreign = authority.ca.issue_cert("scheduler"), stranger.issue_cert("scheduler")
    found = []
    for client in (ours, foreign, None):
        async with running(scripted(), settings, credentials=authority.credentials(client)) as (channel, _):
            call = stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest(), timeout=PATIENCE_SECONDS)
            found.append((await code_of(call))[0])
    assert found == [grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAVAILABLE]


async def test_a_certificate_reads_and_its_name_in_the_file_may_do_more(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = authority.settings(tls_client_ca=authority.root)
    (tmp_path / "tokens").write_text("robot operator certificate\n")
    robot = authority.credentials(authority.ca.issue_cert("robot.example", common_name="robot"))
    other = authority.credentials(authority.ca.issue_cert("other.example", common_name="other"))
    named = settings.model_copy(update={"tokens_file": tmp_path / "tokens"})
    found = []
    for doors, client in ((settings, robot), (named, robot), (named, other)):
        async with running(scripted(), doors, credentials=client) as (channel, _):
            call = stubs.ColocationServiceStub(channel).ListNodes(api.ListNodesRequest(), timeout=PATIENCE_SECONDS)
            found.append((await code_of(call))[0])
    assert found == [grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED]


def test_it_does_not_listen_for_strangers_without_protection() -> None:
    with pytest.raises(errors.Misconfigured, match=r"will not listen on 0\.0\.0\.0"):
        RpcServer(RpcSettings(host="0.0.0.0"), HttpSettings.local(), [scripted()], well)  # noqa: S104 - refused


async def test_the_usual_port_may_be_taken_by_another_that_begins_in_the_same_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        monkeypatch.setattr(rpc, "USUAL_RPC_PORT", usual)
        monkeypatch.setattr(rpc, "_is_free", lambda host, port: True)
        server = RpcServer(RpcSettings(), HttpSettings.local(), [scripted()], well)
        grpc_server = grpc.aio.server()
        try:
            address = server._listen(grpc_server)
        finally:
            await grpc_server.stop(0)
    assert int(address.rpartition(":")[2]) not in (0, usual)


async def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = RpcSettings(port=taken.getsockname()[1])
        server = RpcServer(settings, HttpSettings.local(), [scripted()], well)
        with pytest.raises(errors.Misconfigured, match="SLACKWATER_GRPC_PORT"):
            await server.run(lambda: None)


async def test_a_flood_of_connections_holds_no_more_descriptors_than_the_limit(tokens: Path) -> None:
    settings = HttpSettings(host="127.0.0.1", port=0, tokens_file=tokens, connections=8)
    async with running(scripted(), settings) as (channel, server):
        assert await called(channel, f"/{NAME}/GetNode", "v") is grpc.StatusCode.OK
        host, _, port = server.address.rpartition(":")
        before, flood = open_descriptors(), list[socket.socket]()
        try:
            for _ in range(60):
                flood.append(socket.create_connection((host, int(port)), PATIENCE_SECONDS))
                await asyncio.sleep(0.01)
            assert open_descriptors() - before - len(flood) <= 8
            assert await called(channel, f"/{NAME}/GetNode", "v") is grpc.StatusCode.OK
        finally:
            for connection in flood:
                connection.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))

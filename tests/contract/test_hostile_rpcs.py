"""Every RPC with bytes that are no request, and with requests that hold hostile values: never INTERNAL or UNKNOWN."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.message import Message
from hostile import VALUES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from whole_server import ADMIN, SHARES_RANDOM, WholeServer, server

from slackwater.v1 import colocation_service_pb2 as api

pytestmark = SHARES_RANDOM

__all__ = ["server"]

SECONDS = 3.0
DEFECTS = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS)
COLOCATION = "/slackwater.v1.ColocationService/"
METHODS = (
    *(f"{COLOCATION}{name}" for name in ("GetNode", "ListNodes", "WatchOffers")),
    *(f"/slackwater.v1.QuotaService/{name}" for name in ("Admit", "AdmitMany", "Release", "Watch")),
    *(f"/slackwater.v1.MigrationService/{name}" for name in ("Submit", "Watch")),
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/List",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)  # fmt: skip
HOSTILE_BYTES = (
    b"", b"\xff", b"\xff" * 1000, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x03\xed\xa0\x80", b"\x0a\x01\x00",
    b"\x08" + b"\xff" * 11,    b"\x0b" * 20_000, b"\x0a\x05abc", b"\x00",
    b"\x0a" + b"\xf0\xd1\x06" + b"x" * 110_000, b"y" * 300_000,
)  # fmt: skip


@pytest.fixture(scope="module")
def channel(server: WholeServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.rpc) as made:
        yield made


def answered(channel: grpc.Channel, method: str, request: bytes) -> grpc.StatusCode:
    """The status of a call with these bytes; OK for one that answers or goes on."""
    streams = "Watch" in method or "Reflection" in method
    metadata = (("authorization", ADMIN["Authorization"]),)
    try:
        if not streams:
            channel.unary_unary(method)(request, timeout=SECONDS, metadata=metadata)
            return grpc.StatusCode.OK
        if "Reflection" in method:
            call = channel.stream_stream(method)(iter([request]), timeout=SECONDS, metadata=metadata)
        else:
            call = channel.unary_stream(method)(request, timeout=SECONDS, metadata=metadata)
        for _ in call:
            call.cancel()
            break
    except grpc.RpcError as error:
        code = error.code()  # type: ignore[attr-defined]  # an RpcError of a call is a Call
        assert isinstance(code, grpc.StatusCode)
        return code
    return grpc.StatusCode.OK


def requests() -> Iterator[tuple[str, Message]]:
    texts = [value for value in VALUES if value.isprintable() and len(value) < 8000]
    for text in [*texts, "a\0b", "x" * 100_000]:
        yield "GetNode", api.GetNodeRequest(name=text)
        yield "ListNodes", api.ListNodesRequest(page_token=text)
        yield "ListNodes", api.ListNodesRequest(pool=text, labels={text: text})
        yield "WatchOffers", api.WatchOffersRequest(nodes=[text], resume_token=text)
        yield "WatchOffers", api.WatchOffersRequest(pool=text)
    for number in (-1, -(2**31), 2**31 - 1, 1001):
        yield "ListNodes", api.ListNodesRequest(page_size=number)
        yield "WatchOffers", api.WatchOffersRequest(bookmark_interval_seconds=number)
    yield "ListNodes", api.ListNodesRequest(liveness=[99, -1])  # type: ignore[list-item]  # no value of the enum
    yield "ListNodes", api.ListNodesRequest(labels={f"label-{number}": "x" for number in range(5000)})
    yield "WatchOffers", api.WatchOffersRequest(nodes=[str(number) for number in range(5000)])


def test_these_are_all_rpcs(server: WholeServer) -> None:
    assert set(METHODS) == server.methods


@pytest.mark.parametrize("method", METHODS)
def test_bytes_that_are_no_request_are_an_invalid_argument(channel: grpc.Channel, method: str) -> None:
    found = {request[:12]: answered(channel, method, request) for request in HOSTILE_BYTES}
    assert not [code for code in found.values() if code in DEFECTS], found
    assert found[b"\xff"] is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("method", METHODS)
def test_arbitrary_bytes_make_no_server_error(channel: grpc.Channel, method: str) -> None:
    @settings(max_examples=40, suppress_health_check=list(HealthCheck), database=None)
    @given(request=st.binary(max_size=60))
    def every(request: bytes) -> None:
        assert answered(channel, method, request) not in DEFECTS

    every()


def test_hostile_values_make_no_server_error(channel: grpc.Channel) -> None:
    found = [(name, answered(channel, COLOCATION + name, request.SerializeToString())) for name, request in requests()]
    assert not [(name, code) for name, code in found if code in DEFECTS]

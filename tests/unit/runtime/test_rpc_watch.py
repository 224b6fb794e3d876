"""What is measured of gRPC, and the spans under a caller's trace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry
from test_rpc_server import NAME, PATIENCE_SECONDS, code_of, nothing, scripted, well

from slackwater.model.errors import NotFound
from slackwater.runtime.rpc import RpcServer
from slackwater.runtime.rpc_watch import parent_in
from slackwater.runtime.settings import HttpSettings, RpcSettings
from slackwater.telemetry.metrics import Meters
from slackwater.telemetry.spans import CURRENT, is_sampled, new_traceparent, span_id_of, trace_id_of
from slackwater.v1 import colocation_service_pb2 as api
from slackwater.v1 import colocation_service_pb2_grpc as stubs

GET, WATCH = f"{NAME}/GetNode", f"{NAME}/WatchOffers"


class Watched:
    """A server with a registry of its own."""

    def __init__(self, deed: Callable[[], Awaitable[None]] = nothing, http: HttpSettings | None = None) -> None:
        self.registry = CollectorRegistry()
        meters = Meters(self.registry)
        self.server = RpcServer(RpcSettings(port=0), http or HttpSettings.local(), [scripted(deed)], well, meters)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[grpc.aio.Channel]:
        ready = asyncio.Event()
        serving = asyncio.create_task(self.server.run(ready.set))
        try:
            with anyio.fail_after(PATIENCE_SECONDS):
                await ready.wait()
            async with grpc.aio.insecure_channel(self.server.address) as channel:
                yield channel
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    def calls(self) -> dict[tuple[str, str], float]:
        """How many ended, by method and code."""
        return self._of("slackwater_rpc_calls_total")

    def timed(self) -> dict[tuple[str, str], float]:
        return self._of("slackwater_rpc_call_seconds_count")

    def open(self, method: str) -> float:
        return self.registry.get_sample_value("slackwater_rpc_open_calls", {"method": method}) or 0.0

    def _of(self, name: str) -> dict[tuple[str, str], float]:
        return {
            (sample.labels["method"], sample.labels["code"]): sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == name
        }


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


async def not_there() -> None:
    raise NotFound("gone", code="node_not_found")


async def broken() -> None:
    raise RuntimeError("deliberate")


@pytest.mark.parametrize(("deed", "code"), [(nothing, "OK"), (not_there, "NOT_FOUND"), (broken, "INTERNAL")])
async def test_calls_count_by_method_and_code(deed: Callable[[], Awaitable[None]], code: str) -> None:
    watched = Watched(deed)
    async with watched.running() as channel:
        service = stubs.ColocationServiceStub(channel)
        for call in (service.GetNode(api.GetNodeRequest()), service.WatchOffers(api.WatchOffersRequest())):
            assert (await code_of(call))[0].name == code
        await until(lambda: len(watched.calls()) == 2)
    assert watched.calls() == watched.timed() == {(GET, code): 1.0, (WATCH, code): 1.0}
    assert (watched.open(GET), watched.open(WATCH)) == (0.0, 0.0)


async def test_health_and_reflection_are_counted_and_unknown_methods_are_one_series() -> None:
    watched = Watched()
    async with watched.running() as channel:
        await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        ask: Any = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        found = [one async for one in ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))]
        assert len(found[0].list_services_response.service) == 3
        for method in ("/none.Of/Ours", "/none.Of/These"):
            assert (await code_of(channel.unary_unary(method)(b"")))[0] is grpc.StatusCode.UNIMPLEMENTED
        await until(lambda: len(watched.calls()) == 3)
    assert watched.calls() == {
        ("grpc.health.v1.Health/Check", "OK"): 1.0,
        ("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "OK"): 1.0,
        ("unknown", "UNIMPLEMENTED"): 2.0,
    }


async def test_an_open_watch_shows_and_ends_as_cancelled_or_too_late() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    watched = Watched(wait)
    async with watched.running() as channel:
        service = stubs.ColocationServiceStub(channel)
        watch: Any = service.WatchOffers(api.WatchOffersRequest())
        await until(lambda: watched.open(WATCH) == 1)
        assert watched.calls() == {}
        watch.cancel()
        await until(lambda: watched.calls() == {(WATCH, "CANCELLED"): 1.0})
        seconds = 0.1
        while (GET, "DEADLINE_EXCEEDED") not in watched.calls():
            # On a busy machine a call may be too late before it has arrived: the server then counts nothing.
            await code_of(service.GetNode(api.GetNodeRequest(), timeout=seconds))
            await asyncio.sleep(0.05)
            seconds *= 2
    assert watched.open(WATCH) == watched.open(GET) == 0.0


async def test_a_refused_call_counts_and_leaves_no_span(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"v viewer {'v' * 20}\n")
    tokens.chmod(0o600)
    watched = Watched(http=HttpSettings(host="127.0.0.1", tokens_file=tokens))
    async with watched.running() as channel:
        metadata = grpc.aio.Metadata(("traceparent", new_traceparent()))
        call = stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest(), metadata=metadata)
        assert (await code_of(call))[0] is grpc.StatusCode.UNAUTHENTICATED
        await until(lambda: watched.calls() == {(GET, "UNAUTHENTICATED"): 1.0})  # a call ends after its answer
    assert exporter.get_finished_spans() == (), "unauthenticated calls must not fill the collector"


@pytest.mark.parametrize(("deed", "status", "failed"), [(nothing, 0, False), (not_there, 5, False), (broken, 13, True)])
async def test_a_call_is_a_step_of_its_callers_trace(
    exporter: InMemorySpanExporter, deed: Callable[[], Awaitable[None]], status: int, failed: bool
) -> None:
    seen: list[str] = []

    async def looked_at() -> None:
        step = CURRENT.get()
        seen.append(step.traceparent if step else "")
        await deed()

    parent = new_traceparent()
    async with Watched(looked_at).running() as channel:
        service, metadata = stubs.ColocationServiceStub(channel), grpc.aio.Metadata(("traceparent", parent))
        await code_of(service.GetNode(api.GetNodeRequest(), metadata=metadata))
        await code_of(service.WatchOffers(api.WatchOffersRequest(), metadata=metadata))
        await until(lambda: len(exporter.get_finished_spans()) > 1)  # a step ends after its caller has the answer
    spans = exporter.get_finished_spans()
    assert [one.name for one in spans] == [GET, WATCH]
    for one, within in zip(spans, seen, strict=True):
        assert (one.kind, parent_id(one)) == (SpanKind.SERVER, span_id_of(parent))
        assert trace_id_of(within) == trace_id_of(parent)
        assert span_id_of(within) != span_id_of(parent), "what is logged and published in the call is below its step"
        assert dict(one.attributes or {}) == {
            "rpc.system": "grpc",
            "rpc.service": NAME,
            "rpc.method": one.name.rpartition("/")[2],
            "rpc.grpc.status_code": status,
        }
        assert (one.status.status_code is StatusCode.ERROR) is failed


@pytest.mark.parametrize(
    "shown",
    [None, "00-not-a-trace", "x" * 54 + "1", new_traceparent(sampled=False)],
    ids=["none", "short", "senseless", "unsampled"],
)
async def test_a_call_without_a_sampled_trace_starts_none(exporter: InMemorySpanExporter, shown: str | None) -> None:
    watched = Watched()
    async with watched.running() as channel:
        metadata = grpc.aio.Metadata(*([("traceparent", shown)] if shown else []))
        call = stubs.ColocationServiceStub(channel).GetNode(api.GetNodeRequest(), metadata=metadata)
        assert (await code_of(call))[0] is grpc.StatusCode.OK
        await until(lambda: watched.calls() == {(GET, "OK"): 1.0})
    assert exporter.get_finished_spans() == ()


def test_an_unreadable_trace_is_replaced_by_one_that_is_not_exported() -> None:
    for metadata in ([], [("traceparent", "nonsense")], [("traceparent", b"\x00")], [("other", new_traceparent())]):
        found = parent_in(metadata)  # type: ignore[arg-type]  # bytes stand for what a caller may send
        assert trace_id_of(found) is not None
        assert not is_sampled(found)


def parent_id(found: ReadableSpan) -> str | None:
    return None if found.parent is None else f"{found.parent.span_id:016x}"

"""One suite, two buses: `given` opens either with the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jetstream_lab import Lab, RealServer, Server, TwinServer, real_lab, twin_lab
from tests.support.broker import MemoryBroker
from tests.support.bus import MemoryBus
from tests.support.jetstream.broker import JetStreamBroker
from tests.support.jetstream.client import connect_memory_bus
from tests.support.nats_server import purge_broker

from slackwater.bus.admin.streams import Topology, load
from slackwater.bus.codec.cloudevents import Message
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.model.time import SystemClock
from slackwater.runtime.embedded_nats import EmbeddedNats


def impatient() -> Topology:
    """The real topology with short pauses, so that what is given back comes again at once."""
    topology = load()
    quick = {
        name: spec.model_copy(update={"backoff_seconds": (0.05,), "max_deliver": 3})
        for name, spec in topology.consumers.items()
    }
    return topology.model_copy(update={"consumers": quick})


@dataclass(frozen=True)
class Given:
    """`process()` is one process on the bus; `letters()` the dead letters; `inject` stores any message; `forget` lets
    a stream go of what stands before a position; `begin_anew` makes another, empty stream of the same name."""

    process: Callable[[], AbstractAsyncContextManager[Any]]
    letters: Callable[[], Awaitable[list[Message]]]
    inject: Callable[[str, Message], Awaitable[None]]
    forget: Callable[[str, int], Awaitable[None]]
    begin_anew: Callable[[str], Awaitable[None]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    """A broker of the test's own, to be killed and emptied."""
    server = EmbeddedNats(tmp_path)
    await server.start()
    yield server
    await server.stop()


TWIN_AND_NATS = [pytest.param("twin", marks=pytest.mark.looptime), "nats"]


@pytest.fixture(params=TWIN_AND_NATS)
def lab_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "twin" else request.getfixturevalue("nats_url")


@pytest.fixture
async def lab(lab_url: str | None) -> AsyncIterator[Lab]:
    """nats-server, or its twin in virtual time, at the level of messages."""
    async with twin_lab() if lab_url is None else real_lab(lab_url) as open_lab:
        yield open_lab


@pytest.fixture(params=TWIN_AND_NATS)
async def fragile(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Lab]:
    """As `lab`, with a server that the test may kill."""
    if request.param == "twin":
        async with twin_lab() as open_lab:
            yield open_lab
        return
    server = EmbeddedNats(tmp_path / "nats")
    await server.start()
    async with real_lab(server.url, RealServer(server, tmp_path / "nats")) as open_lab:
        yield open_lab
    await server.stop()


@pytest.fixture(params=TWIN_AND_NATS)
async def killable(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """A server of the test's own, for the real bus: nats-server, or its twin in virtual time."""
    if request.param == "twin":
        yield TwinServer(JetStreamBroker(is_declared=False))
        return
    server = EmbeddedNats(tmp_path / "nats")
    await server.start()
    yield RealServer(server, tmp_path / "nats")
    await server.stop()


@pytest.fixture(params=["memory", pytest.param("twin", marks=pytest.mark.looptime), "nats"])
def url_or_memory(request: pytest.FixtureRequest) -> str | None:
    """The real server's URL, "twin" for the real bus on the in-memory server, or None for the in-memory bus."""
    known = {"memory": None, "twin": "twin"}
    return known[request.param] if request.param in known else request.getfixturevalue("nats_url")


@pytest.fixture
async def given(url_or_memory: str | None) -> AsyncIterator[Given]:
    url = url_or_memory
    if url is None:
        yield _memory()
        return
    if url == "twin":
        yield _twin()
        return
    async with connect_bus(url, name="given", topology=impatient(), declares=False) as bus:
        await purge_broker(bus)
        await bus.declare()
        yield _nats(url, bus)


def _memory() -> Given:
    broker = MemoryBroker(topology=impatient())

    @asynccontextmanager
    async def process() -> AsyncIterator[MemoryBus]:
        yield MemoryBus(broker, name="test")

    return _in_memory(broker, process)


def _twin() -> Given:
    broker = JetStreamBroker(topology=impatient(), clock=SystemClock())
    return _in_memory(broker, lambda: connect_memory_bus(broker, name="test", declares=False))


def _in_memory(broker: MemoryBroker, process: Callable[[], AbstractAsyncContextManager[Any]]) -> Given:

    async def letters() -> list[Message]:
        return [message for _, message in broker.after("DLQ", "sw.v1.dlq.", 0)]

    async def inject(stream: str, message: Message) -> None:
        broker.store(stream, message)

    async def forget(stream: str, before: int) -> None:
        broker.truncate(stream, before)

    async def begin_anew(stream: str) -> None:
        broker.begin_anew(stream)

    return Given(process, letters, inject, forget, begin_anew)


def _nats(url: str, bus: NatsBus) -> Given:
    def process() -> AbstractAsyncContextManager[NatsBus]:
        return connect_bus(url, name="test", topology=impatient(), declares=False)

    async def letters() -> list[Message]:
        info = await bus.jetstream.stream_info("DLQ")
        found = [await bus.jetstream.get_msg("DLQ", seq) for seq in range(1, info.state.last_seq + 1)]
        return [Message(m.subject or "", m.headers or {}, m.data or b"") for m in found]

    async def inject(stream: str, message: Message) -> None:
        await bus.jetstream.publish(message.subject, message.body, headers=dict(message.headers))

    async def forget(stream: str, before: int) -> None:
        await bus.jetstream.purge_stream(stream, seq=before)

    async def begin_anew(stream: str) -> None:
        await bus.jetstream.delete_stream(stream)
        await bus.declare()

    return Given(process, letters, inject, forget, begin_anew)

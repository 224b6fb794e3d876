"""One set of words for nats-server and its twin, at the level of subjects and messages: what the conformance tests use.

Each test runs against the real server, through nats-py's client, and in virtual time against
tests.support.jetstream, through its client without a socket.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, ConsumerInfo, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError
from tests.support.jetstream.broker import JetStreamBroker
from tests.support.jetstream.client import MemoryConnector, connect_memory_bus
from tests.support.link import SoonLink

from slackwater.bus.admin.streams import load
from slackwater.bus.connect.connections import Connector
from slackwater.bus.connect.nats_bus import NatsBus, connect_bus
from slackwater.runtime.embedded_nats import EmbeddedNats

PATIENCE_SECONDS = 60.0
STREAMS = {"T": "t.>", "M": "m.>", "U": "u.>"}
ACK_WAIT_SECONDS = 0.4
"""For a test that waits for it to pass. All others have NO_ACK_WAIT_SECONDS: a client on a busy machine may take longer
than this one to answer."""
NO_ACK_WAIT_SECONDS = 600.0
DELAY_SECONDS = 0.0005
"""Of the twin's link: without it, a loop of publishes would leave no virtual time for anything else."""


class Server(Protocol):
    """A server that a test may kill."""

    def connect(self, *, name: str, **more: Any) -> AbstractAsyncContextManager[NatsBus]:
        """Connect the bus of one process."""
        ...

    async def kill(self) -> None: ...
    async def start(self) -> None: ...
    async def keep_disk(self) -> None:
        """From now on, `lose_power` finds the disk as it is now."""

    async def consumer_written(self, consumer: ConsumerInfo) -> None:
        """Wait until the disk has this state of a consumer: the server writes it about ten times a second."""

    async def lose_power(self, *, keeps_consumers: bool = False) -> None: ...
    async def freeze(self) -> None: ...
    def resume(self) -> None: ...


class RealServer:
    """nats-server of a test's own. A power failure is a kill, after which its store is replaced by an older copy."""

    def __init__(self, server: EmbeddedNats, home: Path) -> None:
        self._server = server
        self._home = home
        self._copy = home.parent / "copy"

    def connect(self, *, name: str, **more: Any) -> AbstractAsyncContextManager[NatsBus]:
        return connect_bus(self._server.url, name=name, **more)

    async def kill(self) -> None:
        await self._server.kill()

    async def start(self) -> None:
        await self._server.start()

    async def keep_disk(self) -> None:
        shutil.copytree(self._home, self._copy)

    async def consumer_written(self, consumer: ConsumerInfo) -> None:
        (file,) = self._home.glob(f"**/streams/{consumer.stream_name}/obs/{consumer.name}/o.dat")
        floor, delivered = consumer.ack_floor, consumer.delivered
        assert floor is not None
        assert delivered is not None
        state = [floor.consumer_seq, floor.stream_seq, delivered.consumer_seq, delivered.stream_seq]
        await until(lambda: _numbers(file.read_bytes()[2:], 5) == [*state, consumer.num_ack_pending])

    async def lose_power(self, *, keeps_consumers: bool = False) -> None:
        await self._server.kill()
        for stream in self._home.glob("**/streams/*"):
            older = self._copy / stream.relative_to(self._home)
            for part in ("msgs",) if keeps_consumers else ("msgs", "obs"):
                shutil.rmtree(stream / part)
                shutil.copytree(older / part, stream / part)

    async def freeze(self) -> None:
        pid = self._server.pid or 0
        os.kill(pid, signal.SIGSTOP)
        threads = Path(f"/proc/{pid}/task")
        await until(lambda: all(") T " in (thread / "stat").read_text() for thread in threads.iterdir()))

    def resume(self) -> None:
        os.kill(self._server.pid or 0, signal.SIGCONT)


def _numbers(encoded: bytes, count: int) -> list[int]:
    """Returns the first numbers that Go's binary.PutUvarint wrote; fewer of a file that is not written yet."""
    numbers, number, shift = list[int](), 0, 0
    for byte in encoded:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number, shift = 0, 0
    return numbers[:count]


class TwinServer:
    """The in-memory server."""

    def __init__(self, broker: JetStreamBroker) -> None:
        self._broker = broker

    def connect(self, *, name: str, **more: Any) -> AbstractAsyncContextManager[NatsBus]:
        return connect_memory_bus(self._broker, name=name, link=SoonLink(DELAY_SECONDS), **{"topology": load(), **more})

    async def kill(self) -> None:
        self._broker.kill()

    async def start(self) -> None:
        self._broker.start()

    async def keep_disk(self) -> None:
        self._broker.sync()

    async def consumer_written(self, consumer: ConsumerInfo) -> None:
        await asyncio.sleep(0.5)

    async def lose_power(self, *, keeps_consumers: bool = False) -> None:
        self._broker.power_failure(keeps_consumers=keeps_consumers)

    async def freeze(self) -> None:
        self._broker.freeze()

    def resume(self) -> None:
        self._broker.resume()


@dataclass
class Pull:
    """One pull request: what it has brought. `status` is how the server ended it, None until then."""

    messages: list[Msg] = field(default_factory=list)
    status: str | None = None
    heartbeats: int = 0

    async def receive(self, message: Msg) -> None:
        status = (message.headers or {}).get("Status") if not message.data else None
        if status == "100":
            self.heartbeats += 1
        elif status is None:
            self.messages.append(message)
        else:
            self.status = f"{status} {(message.headers or {}).get('Description', '')}".split("\n")[0].strip()

    @property
    def had_no_responder(self) -> bool:
        """Returns whether there was no consumer when the request came."""
        return self.status is not None and self.status.startswith("503")

    @property
    def brought(self) -> list[tuple[int, int]]:
        """Stream sequence and delivery count of each message."""
        return [(m.metadata.sequence.stream, m.metadata.num_delivered) for m in self.messages]


class Lab:
    """A client of one of the two servers, on empty streams."""

    def __init__(self, connect: Callable[[str], Awaitable[Client]], client: Client, server: Server | None) -> None:
        self.client = client
        self.js: JetStreamContext = client.jetstream(timeout=PATIENCE_SECONDS)
        self._connect = connect
        self._server = server

    @property
    def server(self) -> Server:
        assert self._server is not None, "this test needs a server of its own"
        return self._server

    @asynccontextmanager
    async def another_client(self) -> AsyncIterator[Lab]:
        client = await self._connect("another")
        yield Lab(self._connect, client, self._server)
        await client.close()

    async def stream(self, name: str = "T", **config: Any) -> None:
        await self.js.add_stream(StreamConfig(name=name, subjects=[STREAMS[name]], **config))

    async def consumer(self, name: str = "c", stream: str = "T", **config: Any) -> ConsumerInfo:
        defaults: dict[str, Any] = {
            "ack_policy": AckPolicy.EXPLICIT,
            "ack_wait": NO_ACK_WAIT_SECONDS,
            "max_deliver": -1,
        }
        return await self.js.add_consumer(stream, ConsumerConfig(durable_name=name, **{**defaults, **config}))

    async def publish(self, subject: str, body: bytes = b"x", *, identity: str | None = None) -> Any:
        """Returns the sequence, `(sequence, "duplicate")`, or the server's error code; "none" without a stream."""
        headers = {"Nats-Msg-Id": identity} if identity is not None else None
        try:
            answer = json.loads(
                (await self.client.request(subject, body, timeout=PATIENCE_SECONDS, headers=headers)).data
            )
        except NoRespondersError:
            return "none"
        if "error" in answer:
            return answer["error"]["err_code"]
        return (answer["seq"], "duplicate") if answer.get("duplicate") else answer["seq"]

    async def pull(
        self, consumer: str = "c", stream: str = "T", *, batch: int = 100, expires: float = 20.0, **more: Any
    ) -> Pull:
        """Send a request like those of the bus: wait for a first message, then bring all that there are."""
        pull, inbox = Pull(), self.client.new_inbox()
        await self.client.subscribe(f"{inbox}.*", cb=pull.receive)
        request = {"batch": batch, "expires": int(expires * 1e9), "no_wait": True, **more}
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        await self.client.publish(subject, json.dumps(request).encode(), reply=f"{inbox}.1")
        await self.client.flush()
        return pull

    async def fetch(self, consumer: str = "c", stream: str = "T", **more: Any) -> Pull:
        """As `pull`, until the request has ended."""
        pull, batch = await self.pull(consumer, stream, **more), more.get("batch", 100)
        await until(lambda: pull.status is not None or len(pull.messages) >= batch)
        return pull

    async def answer(self, message: Msg, answer: bytes = b"+ACK") -> None:
        """Answer a delivery, until the server has carried it out: it handles answers beside requests."""
        await self.client.request(message.reply, answer, timeout=PATIENCE_SECONDS)

    async def answer_unconfirmed(self, message: Msg, answer: bytes = b"+ACK") -> None:
        """As `answer`, for what the server may leave without a confirmation."""
        await self.client.publish(message.reply, answer)
        await self.client.flush()

    async def info(self, consumer: str = "c", stream: str = "T") -> ConsumerInfo:
        return await self.js.consumer_info(stream, consumer)

    async def refusal(self, ask: Awaitable[Any]) -> int:
        """Returns the error code with which the server refuses a request."""
        try:
            await ask
        except APIError as error:
            return error.err_code or 0
        raise AssertionError("not refused")

    async def contents(self, stream: str = "T") -> dict[int, str]:
        """Returns the subject of each stored message by its sequence."""
        state = (await self.js.stream_info(stream)).state
        found = {}
        for sequence in range(state.first_seq or 1, state.last_seq + 1):
            try:
                found[sequence] = str((await self.js.get_msg(stream, sequence)).subject)
            except NotFoundError:
                continue
        return found

    async def ready(self) -> None:
        """Wait until the client has connected again and the server has recovered its streams."""

        async def answers() -> bool:
            try:
                await self.js.stream_info("T")
            except NotFoundError:
                return True
            except (ServiceUnavailableError, TimeoutError):
                return False
            return True

        await until(lambda: bool(self.client.is_connected))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await answers():
                await asyncio.sleep(0.02)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def twin_lab() -> AsyncIterator[Lab]:
    broker = JetStreamBroker(is_declared=False)

    async def connect(name: str) -> Client:
        return await MemoryConnector(broker, SoonLink(DELAY_SECONDS), name, PATIENCE_SECONDS).dial()

    client = await connect("lab")
    await client.flush()  # nothing may be under way when the virtual time of the test begins
    yield Lab(connect, client, TwinServer(broker))
    await client.close()


@asynccontextmanager
async def real_lab(url: str, server: Server | None = None) -> AsyncIterator[Lab]:
    async def connect(name: str) -> Client:
        return await Connector(url, name, {}, PATIENCE_SECONDS).dial()

    client = await connect("lab")
    lab = Lab(connect, client, server)
    for stream in STREAMS:
        try:
            await lab.js.delete_stream(stream)
        except NotFoundError:
            continue
    yield lab
    for stream in STREAMS if server is None else ():
        try:
            await lab.js.delete_stream(stream)
        except NotFoundError:
            continue
    await client.close()

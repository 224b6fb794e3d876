"""The network of the world: what lies between each process and each server.

A lane is one direction of one connection. It keeps order, as TCP does, unless the seed lets it reorder. A request or an
answer that is lost shows as Unavailable after the client's timeout; the server may have carried the request out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from tests.world.loop import SimLoop
from tests.world.processes import Process

from slackwater.model.errors import Unavailable

T = TypeVar("T")
_NEXT = 1e-9
"""Seconds between two messages of a lane: enough to keep their order."""


@dataclass(slots=True)
class Lane:
    """One direction of one connection. Delays in seconds, `loss` as a ratio."""

    delay_seconds: float = 0.0
    spread_seconds: float = 0.0
    loss: float = 0.0
    is_cut: bool = False
    reorders: bool = False
    last_arrival: float = 0.0

    def arrival(self, now: float, rng: Random) -> float | None:
        """When a message sent now arrives; None if it is lost."""
        if self.is_cut or (self.loss and rng.random() < self.loss):
            return None
        at = now + self.delay_seconds + self.spread_seconds * rng.random() ** 3
        if not self.reorders:
            at = max(at, self.last_arrival + _NEXT)
        self.last_arrival = at
        return at


@dataclass(slots=True)
class Server:
    """A broker or a database. While it `is_down` connections are refused at once."""

    name: str
    timeout_seconds: float
    is_down: bool = False
    links: list[ProcessLink] = field(default_factory=list)


class ProcessLink:
    """tests.support.link.Link of one process and one server."""

    def __init__(self, loop: SimLoop, process: Process, server: Server, rng: Random, out: Lane, back: Lane) -> None:
        self.process = process
        self.server = server
        self.out = out
        self.back = back
        self._loop = loop
        self._rng = rng
        self._context = Context()
        """Of the world: what is on the way arrives although its sender has crashed."""

    async def call(self, operation: Callable[[], T]) -> T:
        loop = self._loop
        answer = loop.create_future()
        now = loop.time()
        arrival = self.out.arrival(now, self._rng)

        def fail() -> None:
            if not answer.done():
                answer.set_exception(Unavailable(f"{self.server.name} did not answer within its time limit"))

        def give_up() -> None:
            loop.call_at(now + self.server.timeout_seconds, fail, context=self._context)

        def arrive() -> None:
            if self.server.is_down:
                refused = Unavailable(f"{self.server.name} is down: connection refused")
                self._answer(answer, give_up, lambda: answer.set_exception(refused))
            elif self.out.is_cut:
                give_up()
            else:
                self._carry_out(operation, answer, give_up)

        if arrival is None:
            give_up()
        else:
            loop.call_at(arrival, arrive, context=self._context)
        result: T = await answer
        return result

    def _carry_out(self, operation: Callable[[], T], answer: object, give_up: Callable[[], None]) -> None:
        assert isinstance(answer, asyncio.Future)
        self._loop.current = self.process  # the server's steps of this request are the sender's
        try:
            result = operation()
        except Exception as error:  # noqa: BLE001 - the caller receives it
            refusal = error
            self._answer(answer, give_up, lambda: answer.set_exception(refusal))
        else:
            self._answer(answer, give_up, lambda: answer.set_result(result))

    def _answer(self, answer: object, give_up: Callable[[], None], settle: Callable[[], None]) -> None:
        assert isinstance(answer, asyncio.Future)
        arrival = self.back.arrival(self._loop.time(), self._rng)
        if arrival is None:
            give_up()
            return

        def arrive() -> None:
            if self.back.is_cut:
                give_up()
            elif not answer.done():
                settle()

        self._loop.call_at(arrival, arrive, context=self._context)

    def send(self, operation: Callable[[], None]) -> None:
        arrival = self.out.arrival(self._loop.time(), self._rng)
        if arrival is None:
            return

        def arrive() -> None:
            if not self.out.is_cut and not self.server.is_down:
                self._loop.current = self.process
                operation()

        self._loop.call_at(arrival, arrive, context=self._context)

    def deliver(self, receive: Callable[[], None]) -> None:
        arrival = self.back.arrival(self._loop.time(), self._rng)
        if arrival is None:
            return

        self._loop.call_at(arrival, self._receive, receive, context=self.process.context)

    def _receive(self, receive: Callable[[], None]) -> None:
        if not self.back.is_cut:
            receive()

    def on_close(self, closed: Callable[[], None]) -> None:
        self.process.on_death(closed)


class Network:
    """All connections. Faults are set on the lanes of a process, by its name, and outlive its incarnations."""

    def __init__(self, loop: SimLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._lanes: dict[tuple[str, str], tuple[Lane, Lane]] = {}
        self.delay_seconds = 0.0005
        self.spread_seconds = 0.002
        self.reorders = False

    def link(self, process: Process, server: Server) -> ProcessLink:
        out, back = self.lanes(process.name, server.name)
        link = ProcessLink(self._loop, process, server, self._rng, out, back)
        server.links.append(link)
        return link

    def lanes(self, process: str, server: str) -> tuple[Lane, Lane]:
        """The lanes to the server and back."""
        key = process, server
        if key not in self._lanes:
            self._lanes[key] = self._lane(), self._lane()
        return self._lanes[key]

    def _lane(self) -> Lane:
        return Lane(self.delay_seconds, self.spread_seconds, reorders=self.reorders)

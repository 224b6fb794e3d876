"""The network of the simulated world: order, loss, cuts in one direction, and what a crash leaves on its way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.world.clocks import HostClock
from tests.world.loop import SimLoop, sim_loop
from tests.world.network import Network, ProcessLink, Server
from tests.world.processes import Process

from slackwater.model.errors import Unavailable

TIMEOUT = 2.0


class Scene:
    """One process, one server, one link."""

    def __init__(self) -> None:
        self.loop: SimLoop = sim_loop(Random(1))
        self.network = Network(self.loop, Random(2))
        self.server = Server("server", TIMEOUT)
        self.process = Process(self.loop, "p", 1, HostClock(self.loop))
        self.link: ProcessLink = self.network.link(self.process, self.server)
        self.out, self.back = self.network.lanes("p", "server")
        self.applied: list[int] = []

    def call(self, number: int) -> Awaitable[None]:
        return self.link.call(lambda: self.applied.append(number))

    def run(self, work: Callable[[], Any]) -> Any:
        task = self.process.start(work())
        self.loop.run(self.loop.time() + 100)
        return task.result() if task.done() else None


def test_messages_keep_their_order_however_long_each_takes() -> None:
    scene = Scene()
    scene.out.spread_seconds = 1.0

    async def send() -> None:
        for number in range(50):
            scene.link.send(lambda number=number: scene.applied.append(number))  # type: ignore[misc]

    scene.run(send)
    assert scene.applied == [*range(50)]


@pytest.mark.parametrize(("direction", "applied"), [("out", []), ("back", [1])])
def test_a_cut_shows_as_unavailable_and_only_a_cut_of_answers_leaves_an_effect(
    direction: str, applied: list[int]
) -> None:
    scene = Scene()
    getattr(scene, direction).is_cut = True

    async def call() -> float:
        with pytest.raises(Unavailable):
            await scene.call(1)
        return scene.loop.time()

    assert scene.run(call) == TIMEOUT
    assert scene.applied == applied


def test_a_request_on_its_way_is_carried_out_although_its_sender_has_crashed() -> None:
    scene = Scene()
    scene.out.delay_seconds = 1.0
    closed: list[str] = []
    scene.link.on_close(lambda: closed.append("closed"))

    async def call() -> None:
        await scene.call(1)
        scene.applied.append(2)

    scene.loop.call_later(0.5, scene.process.crash)
    scene.run(call)
    assert scene.applied == [1]
    assert closed == ["closed"]


def test_what_is_delivered_to_a_crashed_process_is_not_received() -> None:
    scene = Scene()
    scene.process.crash()
    scene.link.deliver(lambda: scene.applied.append(1))
    scene.loop.run(10)
    assert scene.applied == []

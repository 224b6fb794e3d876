"""The scene lend: prod requests the whole machine and uses a part of it; batch pods wait for room.

A placer that counts requests finds none. A placer that reads the offer places pods as far as it goes. Both are the
function `place`; the scene is the scheduler here. A pod may use what it requests and no more (limit = request), so that
batch stays within the offer, and the core-seconds are those that were lent.

Offers fall, often to 0, in the window in which pods start: each `slackwater exec` needs some 0.4 CPU seconds before its
pod runs, which count as system, and the p95 of a window of five one-second samples is nearly their maximum (seen: 1.0
to 1.3 cores of system instead of 0.2). The next window is without it, so a turn waits for it. In a window of a minute,
the default, the p95 ignores three seconds of it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import Process
from dataclasses import dataclass, field
from typing import Final

from slackwater.demo.scenes import lend_picture, lend_result
from slackwater.demo.scenes.lend_result import OFFERS, TITLES, VARIANTS, LendScene, LendTurn
from slackwater.demo.scenes.other_work import measured
from slackwater.demo.scenes.request_bench import RequestBench, running_bench
from slackwater.demo.scenes.result import interleaved
from slackwater.demo.scenes.scene import DemoScene, Stage, wait_until
from slackwater.model.quantities import format_cpu

WAITING, LOAD, TURN_SECONDS = 8, 0.25, 3.5
POD_MEMORY_MIB: Final = 64
WORKLOAD: Final = "storefront"
"""A workload of its own, so that its predicted peak knows no surge of another scene or an earlier run."""
_OFFER_SECONDS, _BUSY_SECONDS, _BUSY_CPU_SECONDS, _STEP_SECONDS = 20.0, 4.0, 0.5, 0.25
_OVERHEAD_SECONDS: Final = 9.0
_PAIR_SECONDS: Final = 9.0


@dataclass(frozen=True, slots=True)
class Room:
    """What a placer may give: CPU in milli-cores and memory in bytes."""

    cpu_milli: int
    memory_bytes: int


def place(room: Room, waiting: int, pod: Room) -> int:
    """Returns how many of the waiting pods fit into the room."""
    fits = min(room.cpu_milli // pod.cpu_milli, room.memory_bytes // pod.memory_bytes)
    return max(0, min(waiting, fits))


@dataclass(slots=True)
class LendTurns:
    """Runs the turns."""

    stage: Stage
    cpu_milli: int = 0
    memory_bytes: int = 0
    turns: list[LendTurn] = field(default_factory=list)

    @property
    def pod(self) -> Room:
        return Room(self.cpu_milli // WAITING, POD_MEMORY_MIB << 20)

    async def perform(self, turns: int) -> LendScene:
        """Run so many turns of each variant, interleaved."""
        node = await self._node()
        self.cpu_milli, self.memory_bytes = node.cpu_milli, node.memory_bytes
        async with running_bench(self.stage, self.cpu_milli, WORKLOAD) as bench:
            await self._warm_up()
            with measured() as other:
                offered = await self._offered(bench)
            if not offered:
                return LendScene(
                    left_out=f"no offer of {format_cpu(self.pod.cpu_milli)} CPU within {_OFFER_SECONDS:g} s, while "
                    f"other processes used {other.found.cpus:.2f} CPU (see slackwater why "
                    f"node/{self.stage.api.node} batch-cpu)"
                )
            for variant in interleaved(VARIANTS, turns):
                self.turns.append(await self._turn(bench, variant))
        return LendScene(
            cpu_milli=self.cpu_milli, waiting=WAITING, pod_milli=self.pod.cpu_milli, turns=tuple(self.turns)
        )

    async def _node(self) -> Room:
        nodes = {node["name"]: node for node in await self.stage.api.nodes()}
        for _ in range(40):
            facts = nodes.get(self.stage.api.node or "", {}).get("facts")
            if facts:
                return Room(int(facts["capacity"]["cpu_milli"]), int(facts["capacity"]["memory_bytes"]))
            await asyncio.sleep(_STEP_SECONDS)
            nodes = {node["name"]: node for node in await self.stage.api.nodes()}
        return Room(1000 * self.stage.workloads.cpus, 0)

    async def _warm_up(self) -> None:
        """Run one batch pod before anything is measured: what the stack does for the first one it does once. Without it
        the first turn with offers had a p99 of 30 to 33 ms, later ones of 19 to 23."""
        pod = await self._batch(0)
        try:
            await self._until_busy()
        finally:
            await self.stage.workloads.stop(pod)

    async def _offered(self, bench: RequestBench) -> bool:
        """Send prod's usual requests until an offer that knows them is there; returns whether it came in time."""
        self.stage.narrator.write_line(
            f"lend: prod requests all {format_cpu(self.cpu_milli)} CPU and uses about {LOAD:.0%}; waiting for the offer"
        )
        until = time.monotonic() + _OFFER_SECONDS
        rate = bench.rate(LOAD)
        bench.doing = "lend: waiting for the offer"
        load = await self.stage.workloads.load(bench.port, f"usual:{_OFFER_SECONDS}:{rate:.2f}", 0.0, "usual")
        try:
            while time.monotonic() < until:
                if place(await self._offer(), WAITING, self.pod):
                    return True
                await asyncio.sleep(_STEP_SECONDS)
            return False
        finally:
            await self.stage.workloads.stop(load.process)

    async def _offer(self) -> Room:
        offers = await self.stage.api.offers()
        return Room(offers[0].cpu_milli, offers[0].memory_bytes) if offers else Room(0, 0)

    async def _next_offer(self) -> Room:
        """Waits a while for an offer with room: what the start of the last turn's pods took counts until the next
        window."""
        for _ in range(int(_OFFER_SECONDS / _STEP_SECONDS)):
            if place(offer := await self._offer(), WAITING, self.pod):
                return offer
            await asyncio.sleep(_STEP_SECONDS)
        return await self._offer()

    async def _requested(self) -> Room:
        """Returns what is left when the requests of all pods are counted."""
        pods = [pod for pod in await self.stage.api.pods() if pod["node"] == self.stage.api.node]
        requested = [pod["request"] for pod in pods]
        return Room(
            max(0, self.cpu_milli - sum(request["cpu_milli"] for request in requested)),
            max(0, self.memory_bytes - sum(request["memory_bytes"] for request in requested)),
        )

    async def _turn(self, bench: RequestBench, variant: str) -> LendTurn:
        room = await (self._next_offer() if variant == OFFERS else self._requested())
        placed = place(room, WAITING, self.pod)
        self.stage.narrator.write_line(
            f"lend {TITLES[variant]}: room for {format_cpu(room.cpu_milli)} CPU, {placed} of {WAITING} pods placed"
        )
        pods = [await self._batch(number) for number in range(1, placed + 1)]
        try:
            if pods:
                await self._until_busy()
            found = await bench.measure(f"lend-{len(self.turns)}", f"lend {TITLES[variant]}", LOAD, TURN_SECONDS)
        finally:
            await asyncio.gather(*(self.stage.workloads.stop(pod) for pod in pods))
        phase = found.phase
        return LendTurn(
            variant=variant,
            other=found.other,
            seconds=TURN_SECONDS,
            requests=phase.requests,
            errors=phase.errors,
            p99_ms=phase.p99_ms,
            slowest_ms=found.slowest_ms,
            prod_cpu=phase.prod_cpu,
            free_milli=room.cpu_milli,
            placed=placed,
            placed_milli=placed * self.pod.cpu_milli,
            batch_core_seconds=round(phase.batch_cpu * TURN_SECONDS, 2) if pods else 0.0,
        )

    async def _batch(self, number: int) -> Process:
        command = (sys.executable, "-m", "slackwater.demo.batch", "--processes", "1")
        return await self.stage.workloads.pod(
            "batch", f"lent-{number}", self.pod.cpu_milli, f"{POD_MEMORY_MIB}Mi", *command, limited=True
        )

    async def _until_busy(self) -> None:
        kernel = self.stage.kernel
        began = kernel.read().batch_cpu
        await wait_until(lambda: kernel.read().batch_cpu - began >= _BUSY_CPU_SECONDS, _BUSY_SECONDS)


async def perform(stage: Stage, turns: int) -> LendScene:
    """Runs the scene."""
    return await LendTurns(stage).perform(turns)


LEND: Final = DemoScene(
    name="lend",
    plan="prod requests the whole machine and uses a quarter; without offers no batch pod is placed, with offers as "
    "many as the offer has room for",
    turns=2,
    seconds=lambda turns: _OVERHEAD_SECONDS + _PAIR_SECONDS * turns,
    result=LendScene,
    perform=perform,
    report=lend_result.report,
    picture=lend_picture.picture,
)

"""The scene lend: prod requests the whole machine and uses a part of it; batch pods wait for room.

A placer that counts requests finds none. A placer that reads the offer places pods as far as it goes. Both are the
function `place`; the scene is the scheduler here. A pod may use what it requests and no more (limit = request), so that
batch stays within the offer, and the core-seconds are those that were lent.

Offers fall, often to 0, in the window in which pods start: each `slackwater exec` needs some 0.4 CPU seconds before its
pod runs, which count as system. The next window is without it, so a turn waits for it. On a machine that others fill,
the offer is rightly 0, and a turn says so.
"""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.demo.machine.other_work import measured
from slackwater.demo.machine.request_bench import MeasuredStretch, RequestBench, running_bench
from slackwater.demo.machine.workloads import program
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, TurnFigure
from slackwater.demo.stage import Stage, holds_within, require
from slackwater.model.quantities import Resources, format_cpu

REQUESTS, OFFERS = "requests", "offers"
WAITING, LOAD, TURN_SECONDS = 8, 0.25, 3.5
POD_MEMORY_MIB: Final = 64
WORKLOAD: Final = "storefront"
"""A workload of its own, so that its predicted peak knows no surge of another scene."""
BEYOND_PLACED: Final = 1.1
"""A quota is kept per period, so that a pod may use a little more than its limit at the edges of a turn."""
_NODE_SECONDS, _FULL_SECONDS, _OFFER_SECONDS = 40.0, 10.0, 30.0


def place(room: Resources, waiting: int, pod: Resources) -> int:
    """Returns how many of the waiting pods fit into the room."""
    fits = min(room.cpu_milli // pod.cpu_milli, room.memory_bytes // pod.memory_bytes)
    return max(0, min(waiting, fits))


@dataclass(frozen=True, slots=True)
class LendTurn:
    """One turn. `room_milli` is the room by requests, or the offer; `core_seconds` is what the placed pods used.
    `full` says which other processes leave no room to offer; empty where none do."""

    room_milli: int
    placed: int
    placed_milli: int
    core_seconds: float
    stretch: MeasuredStretch
    has_decision: bool = True
    full: str = ""


@dataclass(slots=True)
class Lending:
    """Runs the turns beside the running service, on a node with this capacity."""

    stage: Stage
    bench: RequestBench
    node: Resources
    pod: Resources
    offer: dict[str, Any] = field(default_factory=dict)
    """The last one that was read; empty before the first."""

    async def run_turn(self, variant: str) -> LendTurn:
        """Place what the variant's placer finds room for, and measure prod beside it."""
        full = await self.wait_for_room() if variant == OFFERS else ""
        room = _amount(self.offer.get("batch")) if variant == OFFERS else await self._requested()
        placed = place(room, WAITING, self.pod)
        async with self.stage.programs() as pods:
            pods.extend(await asyncio.gather(*(self.start_batch(number) for number in range(1, placed + 1))))
            if pods:
                await self.stage.batch_runs()
            stretch = await self.bench.measure(LOAD, TURN_SECONDS)
        return LendTurn(
            room_milli=room.cpu_milli,
            placed=placed,
            placed_milli=placed * self.pod.cpu_milli,
            core_seconds=round(stretch.batch_cpu * TURN_SECONDS, 2) if placed else 0.0,
            stretch=stretch,
            has_decision=bool(self.offer.get("decision_ids")),
            full=full,
        )

    async def wait_for_room(self) -> str:
        """Waits for an offer with room; returns which other processes left none, empty if none did."""

        async def has_room() -> bool:
            self.offer = await self.stage.api.offer() or {}
            return place(_amount(self.offer.get("batch")), WAITING, self.pod) > 0

        for seconds in (_FULL_SECONDS, _OFFER_SECONDS):
            with measured() as other:
                if await holds_within(has_room, seconds):
                    return ""
            if full := other.found.disturbance(self.stage.cpus):
                return full
        return ""

    async def _requested(self) -> Resources:
        """Returns what is left when the requests of all pods are counted."""
        pods = [pod for pod in await self.stage.api.items("/v1/pods") if pod["node"] == self.stage.api.node]
        return (self.node - sum((_amount(pod["request"]) for pod in pods), Resources())).at_least_zero()

    async def start_batch(self, number: int) -> Process:
        """Start a batch pod that may use what it requests."""
        milli, command = self.pod.cpu_milli, program("batch", processes=1)
        limit = ("--cpu-limit", f"{milli}m")
        pod = self.stage.workloads.pod
        return await pod("batch", f"lent-{number}", milli, f"{POD_MEMORY_MIB}Mi", *command, flags=limit)


def _amount(document: Mapping[str, int] | None) -> Resources:
    return Resources(document["cpu_milli"], document["memory_bytes"]) if document else Resources()


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[LendTurn]]:
    """Starts prod, runs one batch pod so that no turn is the first to start one, and lets the first offer come."""
    nodes: dict[str, Any] = {}

    async def is_known() -> bool:
        nodes.update(await stage.api.nodes())
        return stage.api.node in nodes

    await require(is_known, _NODE_SECONDS, f"the node {stage.api.node} did not report")
    node = _amount(nodes[stage.api.node]["capacity"])
    async with running_bench(stage, node.cpu_milli, WORKLOAD) as bench:
        lending = Lending(stage, bench, node, Resources(node.cpu_milli // WAITING, POD_MEMORY_MIB << 20))
        async with stage.programs() as pods:
            pods.append(await lending.start_batch(0))
            await stage.batch_runs()
        async with stage.programs() as usual:
            usual.append((await bench.send(LOAD, _FULL_SECONDS + _OFFER_SECONDS)).process)
            await lending.wait_for_room()
        yield lending.run_turn


LEND: Final[DemoScene[LendTurn]] = DemoScene(
    name="lend",
    plan="prod requests the whole machine and uses a quarter; batch is placed without offers, then on the offer",
    title="lend: prod requests all CPU and uses a quarter of it; batch pods wait for room",
    variants=(SceneVariant(REQUESTS, "without offers"), SceneVariant(OFFERS, "with offers")),
    compared=(REQUESTS, OFFERS),
    columns=(
        TurnFigure("room_cpu", "room", lambda turn: turn.room_milli / 1000, "CPU", 2),
        TurnFigure("placed", f"batch pods placed (of {WAITING})", lambda turn: turn.placed, counted="more"),
        TurnFigure("core_seconds", "lent to batch", lambda turn: turn.core_seconds, "core-s", 1, counted="more"),
        TurnFigure("p99_ms", "prod's p99", lambda turn: turn.stretch.p99_ms, "ms", 1, "less"),
        TurnFigure("prod_cpu", "prod used", lambda turn: turn.stretch.prod_cpu, "CPU", 2),
        TurnFigure("errors", "failed requests", lambda turn: turn.stretch.errors),
    ),
    promises=(
        Promise("no batch pod is placed without an offer", lambda turn: turn.placed == 0, (REQUESTS,)),
        Promise("an offer with its decision comes", lambda turn: turn.has_decision, (OFFERS,)),
        Promise(
            "what prod leaves free is offered",
            lambda turn: turn.placed > 0 or bool(turn.full),
            (OFFERS,),
            lambda turn: f"an offer of {format_cpu(turn.room_milli)} CPU beside prod's {turn.stretch.prod_cpu:.2f}",
        ),
        Promise("no more is placed than there is room for", lambda turn: turn.placed_milli <= turn.room_milli),
        Promise("pods on the offer run", lambda turn: not turn.placed or turn.core_seconds > 0),
        Promise(
            "batch uses no more than was placed",
            lambda turn: turn.core_seconds <= BEYOND_PLACED * turn.placed_milli / 1000 * turn.stretch.seconds,
            seen=lambda turn: f"{turn.core_seconds:.2f} core-s of {format_cpu(turn.placed_milli)} CPU",
        ),
    ),
    note=lambda turn: f"offer {format_cpu(turn.room_milli)} CPU because {turn.full}" if turn.full else "",
    opened=opened,
    setup_seconds=9.0,
    round_seconds=12.0,
    rounds=3,
)

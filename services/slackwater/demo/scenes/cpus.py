"""The scene cpus: the same service beside greedy batch, sharing all CPUs and on a CPU of its own (QoS class LSR).

Both turns share by request, without throttling, so that only the CPU makes the difference.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from slackwater.demo.machine.request_bench import MeasuredStretch, running_bench
from slackwater.demo.machine.workloads import program
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, TurnFigure
from slackwater.demo.stage import Stage, holds_within
from slackwater.model.errors import Unavailable

SHARED, OWN = "shared", "own"
LOAD, LEAD_SECONDS, STRETCH_SECONDS = 0.25, 1.0, 3.5
"""Of the machine; of two CPUs it is half of the one that the service gets."""
_PLACED_SECONDS, _GIVEN_BACK_SECONDS = 20.0, 20.0
_SERVICE, _BATCH, _POLICY = "quotes", "crunch", {"mode": "observe", "weights": "by-request"}


@dataclass(frozen=True, slots=True)
class CpusTurn:
    """One turn: the requests, the CPUs on which the service and batch may run by their processes, and whether batch
    has all of them again afterwards."""

    stretch: MeasuredStretch
    service_cpus: frozenset[int]
    batch_cpus: frozenset[int]
    is_given_back: bool

    @property
    def is_alone(self) -> bool:
        return bool(self.service_cpus) and not self.service_cpus & self.batch_cpus


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[CpusTurn]]:
    """Starts batch on all CPUs; each turn starts the service."""
    kernel = stage.kernel

    async def run_turn(variant: str) -> CpusTurn:
        before = kernel.allowed_cpus("batch", _BATCH)
        flags = ("--qos", "LSR") if variant == OWN else ()
        async with running_bench(stage, 1000, _SERVICE, flags) as bench:
            if variant == OWN:
                await holds_within(lambda: kernel.allowed_cpus("batch", _BATCH) != before, _PLACED_SECONDS)
            await bench.measure(LOAD, LEAD_SECONDS)
            stretch = await bench.measure(LOAD, STRETCH_SECONDS)
            service, batch = kernel.allowed_cpus("prod", _SERVICE), kernel.allowed_cpus("batch", _BATCH)
        is_given_back = await holds_within(lambda: kernel.allowed_cpus("batch", _BATCH) == before, _GIVEN_BACK_SECONDS)
        return CpusTurn(stretch, service, batch, is_given_back)

    if stage.cpus < 2:
        raise Unavailable("this machine has one CPU: no service can have one of its own")
    async with stage.programs() as pods:
        command = program("batch", processes=2 * stage.cpus)
        pods.append(await stage.workloads.pod("batch", _BATCH, 250 * stage.cpus, "256Mi", *command))
        if not await stage.batch_runs():
            raise Unavailable("the batch job used no CPU")
        yield run_turn


def _cpus(cpus: frozenset[int]) -> str:
    return ",".join(str(cpu) for cpu in sorted(cpus)) or "none"


CPUS: Final[DemoScene[CpusTurn]] = DemoScene(
    name="cpus",
    plan="the same service beside greedy batch: on all CPUs, and on a CPU of its own",
    title="cpus: the same requests beside the same batch job",
    variants=(SceneVariant(SHARED, "all CPUs", _POLICY), SceneVariant(OWN, "its own CPU", _POLICY)),
    compared=(SHARED, OWN),
    columns=(
        TurnFigure("p99_ms", "prod's p99", lambda turn: turn.stretch.p99_ms, "ms", 1, "less"),
        TurnFigure("service_cpus", "service on", lambda turn: _cpus(turn.service_cpus), "CPU"),
        TurnFigure("batch_cpus", "batch on", lambda turn: _cpus(turn.batch_cpus), "CPU"),
        TurnFigure("batch_cpu", "batch used", lambda turn: turn.stretch.batch_cpu, "CPU", 2, "more"),
        TurnFigure("prod_cpu", "prod used", lambda turn: turn.stretch.prod_cpu, "CPU", 2),
        TurnFigure("errors", "failed requests", lambda turn: turn.stretch.errors),
    ),
    promises=(
        Promise("no batch process runs on the service's CPU", lambda turn: turn.is_alone, (OWN,)),
        Promise("the service has one CPU", lambda turn: len(turn.service_cpus) == 1, (OWN,)),
        Promise("without its class it shares all", lambda turn: turn.service_cpus == turn.batch_cpus, (SHARED,)),
        Promise("batch gets every CPU back", lambda turn: turn.is_given_back),
    ),
    opened=opened,
    setup_seconds=5.0,
    round_seconds=19.0,
    rounds=3,
    is_optional=True,
)

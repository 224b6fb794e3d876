"""The scene cpu: the same surge beside greedy batch under plain sharing, tier weights alone, and Slackwater.

Weights alone are those of Slackwater, with the idle class and without quotas. Slackwater is the policy as it is
installed: while weights are in force, a quota comes only if the waterline stays crossed for long (decision 0094).
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

PLAIN, WEIGHTS, SLACKWATER = "plain", "weights", "slackwater"
LOAD, LEAD_SECONDS, SURGE_SECONDS = 0.60, 1.0, 3.5
"""Every turn is measured after so much of its surge, so that no latency of its beginning counts."""
_WEIGHTS_SECONDS, _RESTORE_SECONDS = 60.0, 90.0


@dataclass(frozen=True, slots=True)
class CpuTurn:
    """One turn: the surge, how many throttles were decided in it, whether batch yielded to prod by its weight, and
    whether every quota was as before at the end."""

    stretch: MeasuredStretch
    throttles: int
    batch_yields: bool
    is_restored: bool


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[CpuTurn]]:
    """Starts prod and batch, and waits until batch uses CPU."""
    kernel, api = stage.kernel, stage.api
    async with running_bench(stage, 500 * stage.cpus) as bench, stage.programs() as pods:

        async def run_turn(variant: str) -> CpuTurn:
            await holds_within(lambda: kernel.batch_yields() == (variant != PLAIN), _WEIGHTS_SECONDS)
            originals, decided = kernel.batch_limits(), len(await api.decisions("throttle"))
            await bench.measure(LOAD, LEAD_SECONDS)
            stretch = await bench.measure(LOAD, SURGE_SECONDS)
            has_yielded, decided = kernel.batch_yields(), len(await api.decisions("throttle")) - decided
            await api.observe()
            is_restored = await holds_within(lambda: kernel.batch_limits() == originals, _RESTORE_SECONDS)
            await bench.drain()
            return CpuTurn(stretch, decided, has_yielded, is_restored)

        command = program("batch", processes=2 * stage.cpus)
        flags = ("--cpu-period-ms", "1000")  # the variants share CPU by weights (decision 0094)
        pods.append(await stage.workloads.pod("batch", "crunch", 250 * stage.cpus, "256Mi", *command, flags=flags))
        if not await stage.batch_runs():
            raise Unavailable("the batch job used no CPU")
        yield run_turn


CPU: Final[DemoScene[CpuTurn]] = DemoScene(
    name="cpu",
    plan="the same surge of requests beside greedy batch: plain sharing, weights alone, and Slackwater",
    title="cpu: the same surge of requests beside the same batch job",
    variants=(
        SceneVariant(PLAIN, "plain sharing", {"mode": "observe", "weights": "by-request"}),
        SceneVariant(WEIGHTS, "weights alone", {"mode": "observe", "weights": "by-tier-idle"}),
        SceneVariant(SLACKWATER, "Slackwater", {"mode": "throttle", "weights": "by-tier-idle"}),
    ),
    compared=(PLAIN, SLACKWATER),
    columns=(
        TurnFigure("p99_ms", "prod's p99", lambda turn: turn.stretch.p99_ms, "ms", 1, "less"),
        TurnFigure("batch_cpu", "batch used", lambda turn: turn.stretch.batch_cpu, "CPU", 2, "more"),
        TurnFigure("prod_cpu", "prod used", lambda turn: turn.stretch.prod_cpu, "CPU", 2),
        TurnFigure("pressure", "prod stalled", lambda turn: turn.stretch.pressure, "share", 3),
        TurnFigure("errors", "failed requests", lambda turn: turn.stretch.errors),
        TurnFigure("throttles", "throttles", lambda turn: turn.throttles),
    ),
    promises=(
        Promise("batch yields to prod by its weight", lambda turn: turn.batch_yields, (WEIGHTS, SLACKWATER)),
        Promise("prod runs in its surge", lambda turn: turn.stretch.prod_cpu > 0),
        Promise("every quota of batch is put back", lambda turn: turn.is_restored),
    ),
    opened=opened,
    setup_seconds=5.0,
    round_seconds=19.0,
    rounds=3,
)

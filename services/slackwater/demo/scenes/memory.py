"""The scene memory: prod grows in a full parent cgroup, without Slackwater and with it.

Four batch pods hold 250 MiB each in a parent of 1,500 MiB; prod grows from 200 to 1,000. Without Slackwater the parent
is a plain cgroup and the kernel chooses whom it kills. With it the parent is the agent's own tree
(SLACKWATER_AGENT_MEMORY_BYTES), and a rule on its memory evicts batch pods with grace.
"""

from __future__ import annotations

import asyncio
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from slackwater.demo.machine.jobs import Ending, Job, Start, start_job
from slackwater.demo.machine.parent import limited_parent
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, Series, TurnFigure
from slackwater.demo.stage import Stage, require

PLAIN, SLACKWATER = "plain", "slackwater"
MIB: Final = 1 << 20
LIMIT_MIB, BATCH_PODS, BATCH_MIB = 1500, 4, 250
PROD_START_MIB, PROD_END_MIB, PROD_MIB_PER_SECOND = 200, 1000, 60.0
POOL: Final = "default"
WATERLINE, TARGET, GRACE_SECONDS = 0.90, 0.88, 5
NEEDED_MIB: Final = LIMIT_MIB + 1000
_START_SECONDS, _GROW_SECONDS = 60.0, 90.0


@dataclass(frozen=True, slots=True)
class MemoryTurn:
    """One turn: whether prod was killed and at how many MiB, how each batch pod ended, and seconds, MiB of prod and MiB
    of batch all the time."""

    prod_killed: bool
    prod_mib: int
    slowest_ms: float
    batch: tuple[Ending, ...]
    levels: Sequence[tuple[float, int, int]] = field(default=())


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[MemoryTurn]]:
    """Needs nothing between the turns, which grow prod beside batch in a plain parent or in the agent's tree."""

    async def start_pod(name: str, command: Sequence[str]) -> Process:
        tier = "prod" if name == "memory-prod" else "batch"
        # the request of batch is a hard limit too, so it has room for the interpreter
        request = f"{PROD_END_MIB if tier == 'prod' else BATCH_MIB + 50}Mi"
        return await stage.workloads.pod(tier, name, 100, request, *command)

    async def run_turn(variant: str) -> MemoryTurn:
        if variant == SLACKWATER:
            return await _turn(stage, start_pod)
        with limited_parent(stage.kernel.hierarchy, LIMIT_MIB * MIB) as parent:
            return await _turn(stage, parent.start)

    yield run_turn


async def _turn(stage: Stage, start: Start) -> MemoryTurn:
    async with stage.programs() as started:

        async def start_batch(number: int) -> Job:
            job = await start_job(stage, start, f"memory-batch-{number}", (BATCH_MIB, BATCH_MIB))
            started.append(job.process)
            return job

        batch = await asyncio.gather(*(start_batch(number) for number in range(1, BATCH_PODS + 1)))
        await require(lambda: all(pod.state["done"] for pod in batch), _START_SECONDS, "batch did not start")
        prod = await start_job(stage, start, "memory-prod", (PROD_START_MIB, PROD_END_MIB), PROD_MIB_PER_SECOND)
        started.append(prod.process)
        levels, began = list[tuple[float, int, int]](), time.monotonic()

        def is_over() -> bool:
            held = sum(pod.held_mib for pod in batch)
            levels.append((round(time.monotonic() - began, 1), prod.held_mib, held))
            stage.narrator.doing(f"memory: prod holds {prod.held_mib} MiB, batch {held}")
            return prod.ending() != "running" or bool(prod.state["done"])

        await require(is_over, _GROW_SECONDS, f"prod did not reach {PROD_END_MIB} MiB")
        return MemoryTurn(
            prod_killed=prod.ending() != "running",
            prod_mib=int(prod.state["mib"]),
            slowest_ms=float(prod.state["slowest_ms"]),
            batch=tuple(pod.ending() for pod in batch),
            levels=levels,
        )


_PODS: Final = {
    "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
    "allowedActions": ["throttle", "evict"],
}
_RULE: Final = {
    "name": "memory",
    "metricRule": {"name": "node_memory_usage_ratio", "value": WATERLINE, "target": TARGET},
    "avoidanceThreshold": 1,
    "actionName": "evict",
}
_AUTONOMY: Final = {"mode": "evict", "evictionsPerHour": 1000, "nodeEvictionsPerHour": 1000, "reliefsMissed": 1000}
"""Each turn evicts up to four pods of one node: the guards against a storm of evictions would end the scene, which may
take nine of them within minutes."""
_EVICT: Final = {"eviction": {"terminationGracePeriodSeconds": GRACE_SECONDS}, "disableScheduling": False}

MEMORY: Final[DemoScene[MemoryTurn]] = DemoScene(
    name="memory",
    plan=f"prod grows in a full parent of {LIMIT_MIB} MiB; plain, the kernel kills; else batch is evicted with grace",
    title=f"memory: prod grows to {PROD_END_MIB:,} MiB beside batch in a parent of {LIMIT_MIB:,} MiB",
    variants=(
        SceneVariant(PLAIN, "without Slackwater"),
        SceneVariant(
            SLACKWATER,
            "with Slackwater",
            nodeqos={"mode": "evict", "weights": "by-tier-idle", "rules": [_RULE]},
            documents=(
                ("avoidanceactions", "evict", _EVICT), ("podqos", "default", _PODS), ("autonomies", POOL, _AUTONOMY),
            ),
        ),
    ),
    compared=(PLAIN, SLACKWATER),
    columns=(
        TurnFigure("prod_killed", "prod killed", lambda turn: int(turn.prod_killed), counted="less"),
        TurnFigure(
            "killed", f"batch pods killed (of {BATCH_PODS})", lambda turn: turn.batch.count("killed"),
            counted="less",
        ),
        TurnFigure("checkpoint", "evicted with a checkpoint", lambda turn: turn.batch.count("checkpoint")),
        TurnFigure("running", "still running", lambda turn: turn.batch.count("running")),
        TurnFigure("prod_mib", "prod holds", lambda turn: turn.prod_mib, "MiB"),
        TurnFigure("slowest_ms", "slowest MiB", lambda turn: turn.slowest_ms, "ms", 1),
    ),
    promises=(
        Promise(
            "prod is not killed", lambda turn: not turn.prod_killed, (SLACKWATER,),
            lambda turn: f"killed at {turn.prod_mib} MiB",
        ),
        Promise(
            "no batch pod is killed without its checkpoint", lambda turn: "killed" not in turn.batch, (SLACKWATER,),
            lambda turn: f"{turn.batch.count('killed')} of {BATCH_PODS} killed",
        ),
        Promise("batch is evicted with grace", lambda turn: "checkpoint" in turn.batch, (SLACKWATER,)),
    ),
    series=(
        Series("prod holds, MiB", lambda turn: [(at, prod) for at, prod, _ in turn.levels]),
        Series(
            "prod and batch hold together, MiB",
            lambda turn: [(at, prod + batch) for at, prod, batch in turn.levels],
            LIMIT_MIB,
            "limit of the parent",
        ),
    ),
    memory_mib=NEEDED_MIB,
    opened=opened,
    setup_seconds=0.0,
    round_seconds=22.0,
    needs_quiet_cpu=False,
)  # fmt: skip

"""The memory scene: prod grows in a full parent cgroup, without Slackwater and with it, in turns.

Four batch pods hold 250 MiB each in a parent of 1,500 MiB; prod grows from 200 to 1,000. Without Slackwater the parent
is a plain cgroup and the kernel chooses whom it kills. With it the parent is the agent's own tree
(SLACKWATER_AGENT_MEMORY_BYTES), and a rule on its memory evicts batch pods with grace.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slackwater.demo.scenes import memory_picture, memory_result
from slackwater.demo.scenes.memory_result import PLAIN, SLACKWATER, Ending, MemoryScene, MemoryTurn
from slackwater.demo.scenes.other_work import measured
from slackwater.demo.scenes.parent import ParentGroup
from slackwater.demo.scenes.result import interleaved
from slackwater.demo.scenes.scene import DemoScene, Stage
from slackwater.model.errors import Misconfigured, Unavailable

MIB: Final = 1 << 20
LIMIT_MIB, BATCH_PODS, BATCH_MIB = 1500, 4, 250
PROD_START_MIB, PROD_END_MIB, PROD_MIB_PER_SECOND = 200, 1000, 60.0
WATERLINE, TARGET = 0.90, 0.88
GRACE_SECONDS = 5
NEEDED_MIB: Final = LIMIT_MIB + 1000
"""Available memory from which the machine itself is not in want."""
_START_SECONDS, _GROW_SECONDS, _STEP_SECONDS = 40.0, 25.0, 0.1
_TURN_PAIR_SECONDS: Final = 21.0

Start = Callable[[str, Sequence[str]], Any]


@dataclass(slots=True)
class Program:
    """One started program and the files that it writes."""

    process: Process
    out: Path
    checkpoint: Path

    @property
    def state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self.out.read_text())
        except (FileNotFoundError, ValueError):
            return {"mib": 0, "slowest_ms": 0.0, "done": False}
        return found

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    def ending(self) -> Ending:
        if self.is_running:
            return "running"
        return "checkpoint" if self.checkpoint.exists() else "killed"


@dataclass(slots=True)
class MemoryTurns:
    """Runs the turns."""

    stage: Stage
    turns: list[MemoryTurn] = field(default_factory=list)

    async def perform(self, turns: int) -> MemoryScene:
        """Run so many turns of each variant, interleaved."""
        if (available := available_mib()) < NEEDED_MIB:
            return self._left_out(f"{available} MiB are available, it needs {NEEDED_MIB}")
        before = [(kind, name, await self.stage.api.document(kind, name)) for kind, name, _ in documents()]
        try:
            for variant in interleaved((PLAIN, SLACKWATER), turns):
                self.turns.append(await (self._plain() if variant == PLAIN else self._guarded()))
        except Misconfigured as error:
            return self._left_out(error.message)
        finally:
            for kind, name, document in before:
                await self.stage.api.put_back(kind, name, document)
        return MemoryScene(limit_mib=LIMIT_MIB, prod_end_mib=PROD_END_MIB, turns=tuple(self.turns))

    def _left_out(self, why: str) -> MemoryScene:
        return MemoryScene(limit_mib=LIMIT_MIB, prod_end_mib=PROD_END_MIB, left_out=why)

    async def _plain(self) -> MemoryTurn:
        self.stage.narrator.write_line(
            f"memory without Slackwater: prod grows to {PROD_END_MIB} MiB beside {BATCH_PODS} batch pods of "
            f"{BATCH_MIB} MiB in a parent of {LIMIT_MIB} MiB"
        )
        name = f"slackwater-plain-{time.monotonic_ns()}"
        with ParentGroup.limited(self.stage.kernel.hierarchy, name, LIMIT_MIB * MIB) as parent:

            async def start(_name: str, command: Sequence[str]) -> Process:
                return await parent.start(*command)

            return await self._turn(PLAIN, start)

    async def _guarded(self) -> MemoryTurn:
        self.stage.narrator.write_line(
            f"memory with Slackwater: the same under a waterline of {WATERLINE:.0%} of the parent, batch may be evicted"
        )
        await self._apply()

        async def start(name: str, command: Sequence[str]) -> Process:
            tier = "prod" if name == "prod" else "batch"
            return await self.stage.workloads.pod(tier, f"memory-{name}", 100, _request(tier), *command)

        return await self._turn(SLACKWATER, start)

    async def _turn(self, variant: str, start: Start) -> MemoryTurn:
        batch = [await self._program(start, f"batch-{n}", BATCH_MIB, BATCH_MIB) for n in range(1, BATCH_PODS + 1)]
        programs = list(batch)
        try:
            await self._until(lambda: all(one.state["done"] for one in batch), _START_SECONDS, "batch did not start")
            prod = await self._program(start, "prod", PROD_START_MIB, PROD_END_MIB)
            programs.append(prod)
            with measured() as other:
                levels = await self._watched(prod, batch)
            state = prod.state
            return MemoryTurn(
                variant=variant,
                other=other.found,
                prod_finished=bool(state["done"]) and prod.is_running,
                prod_mib=int(state["mib"]),
                slowest_mib_ms=float(state["slowest_ms"]),
                batch=tuple(one.ending() for one in batch),
                levels=tuple(levels),
            )
        finally:
            await asyncio.gather(*(self.stage.workloads.stop(one.process) for one in programs))

    async def _watched(self, prod: Program, batch: Sequence[Program]) -> list[tuple[float, int, int]]:
        """Follow the growth until prod is done or dead; returns seconds, MiB of prod, MiB of running batch pods."""
        levels, began = [], time.monotonic()
        while prod.is_running and not prod.state["done"] and time.monotonic() - began < _GROW_SECONDS:
            held = sum(int(one.state["mib"]) for one in batch if one.is_running)
            levels.append((round(time.monotonic() - began, 1), int(prod.state["mib"]), held))
            self.stage.narrator.now(f"prod holds {levels[-1][1]} MiB, batch {held} MiB", None, {})
            await asyncio.sleep(_STEP_SECONDS)
        await asyncio.sleep(_STEP_SECONDS)
        return levels

    async def _program(self, start: Start, name: str, start_mib: int, end_mib: int) -> Program:
        folder = self.stage.workloads.folder
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"memory-{name}-{time.monotonic_ns()}"
        out, checkpoint = folder / f"{stem}.json", folder / f"{stem}.checkpoint"
        command = (
            *(sys.executable, "-m", "slackwater.demo.scenes.growth", "--start", str(start_mib), "--end", str(end_mib)),
            *("--per-second", str(PROD_MIB_PER_SECOND), "--out", str(out), "--checkpoint", str(checkpoint)),
        )
        return Program(await start(name, command), out, checkpoint)

    async def _until(self, holds: Callable[[], bool], seconds: float, problem: str) -> None:
        for _ in range(int(seconds / _STEP_SECONDS)):
            if holds():
                return
            await asyncio.sleep(_STEP_SECONDS)
        raise Unavailable(f"memory scene: {problem} within {seconds:g} s")

    async def _apply(self) -> None:
        for kind, name, spec in documents():
            await self.stage.api.put(kind, name, spec)


def _request(tier: str) -> str:
    """Returns the memory request; of batch it is a hard limit too, so it has room for the interpreter."""
    return f"{PROD_END_MIB if tier == 'prod' else BATCH_MIB + 50}Mi"


def available_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0


def documents() -> list[tuple[str, str, dict[str, Any]]]:
    """Returns path, name and spec of what lets the rule evict batch pods."""
    pods = {
        "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
        "allowedActions": ["throttle", "evict"],
    }
    rule = {
        "name": "memory",
        "metricRule": {"name": "node_memory_usage_ratio", "value": WATERLINE, "target": TARGET},
        "avoidanceThreshold": 1,
        "actionName": "evict",
    }
    return [
        ("avoidanceactions", "evict", {"eviction": {"terminationGracePeriodSeconds": GRACE_SECONDS},
                                            "disableScheduling": False}),
        ("podqos", "default", pods),
        ("nodeqos", "default", {"mode": "evict", "weights": "by-tier-idle", "rules": [rule]}),
    ]  # fmt: skip


async def perform(stage: Stage, turns: int) -> MemoryScene:
    """Runs the scene."""
    return await MemoryTurns(stage).perform(turns)


MEMORY: Final = DemoScene(
    name="memory",
    plan=f"prod grows in a full parent cgroup of {LIMIT_MIB} MiB; plain, the kernel kills; with Slackwater, batch is "
    "evicted with grace",
    turns=1,
    seconds=lambda turns: _TURN_PAIR_SECONDS * turns,
    result=MemoryScene,
    perform=perform,
    report=memory_result.report,
    picture=memory_picture.picture,
)

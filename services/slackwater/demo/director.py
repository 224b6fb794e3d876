"""Runs the scenes of the demo, one after the other, and keeps `run-summary.json`.

`run` executes while the stack is up and writes an unfinished summary after every scene. `finish` is called after
everything has stopped: it adds the results of the restore and the leftovers, prints the tables and returns the exit
status. The demo's state is in a folder of its own below the state directory, where the summary lies.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from slackwater.demo import schedule, simulation, summary, table
from slackwater.demo.api import Api
from slackwater.demo.comparison import PolicyComparison
from slackwater.demo.kernel import Kernel
from slackwater.demo.narrator import Narrator
from slackwater.demo.scenes import catalog
from slackwater.demo.scenes.cpu import MODES, keep_running
from slackwater.demo.scenes.cpu_result import SLACKWATER, CpuScene
from slackwater.demo.scenes.memory_result import MemoryScene
from slackwater.demo.scenes.policies import PoliciesScene
from slackwater.demo.scenes.result import Result, SceneSummary
from slackwater.demo.scenes.scene import DemoScene, Stage
from slackwater.demo.schedule import PlannedScene
from slackwater.demo.summary import RunSummary
from slackwater.demo.workloads import Workloads
from slackwater.runtime.state import (
    DEMO_PICTURES,
    RUN_SUMMARY,
    VARIABLE,
    Endpoint,
    client_state_dir,
    write_atomically,
)

_DECISIONS_SECONDS = 0.7
_END_SECONDS, _END_STEP_SECONDS = 10.0, 0.2


def summary_path(state_dir: Path) -> Path:
    """Where the summary lies: beside the demo's own folder, in the state directory."""
    return state_dir.parent / RUN_SUMMARY


async def run(endpoint: Endpoint, state_dir: Path, seconds: int | None, driver: str, scene: str = catalog.ALL) -> int:
    """Run the chosen scenes; return the exit status as known before the stop. Cancel the task to end it early."""
    summary_path(state_dir).unlink(missing_ok=True)
    (state_dir / "agent" / "restore-report.json").unlink(missing_ok=True)  # of an earlier run
    shutil.rmtree(state_dir / DEMO_PICTURES, ignore_errors=True)
    chosen = catalog.chosen(scene)
    if driver != "linux":
        names = [one.name for one in chosen]
        return await simulation.direct(endpoint, summary_path(state_dir), seconds, names)
    async with Api(endpoint, datetime.now(UTC), platform.node()) as api:
        with Narrator() as narrator:
            stage = Stage(api, narrator, Workloads(state_dir, len(os.sched_getaffinity(0))), Kernel.of(state_dir))
            return await Production(endpoint, stage, summary_path(state_dir), seconds, scene, chosen).perform()


def finish(state_dir: Path, console: Console | None = None) -> int:
    """After the stop: complete `run-summary.json`, print the tables, return the exit status (0, 2 or 3).

    Returns 0 without a summary of `run`, which was interrupted before it wrote one.
    """
    file = summary_path(state_dir)
    if not file.exists():
        return 0
    found = RunSummary.model_validate_json(file.read_text())
    exact, files = restored(state_dir)
    remains = _remains(Kernel.of(state_dir)) if found.driver == "linux" else ()
    update = {"restored_exactly": exact, "restored_files": files, "leftovers": remains, "finished": True}
    complete = found.model_copy(update=update)
    judged = {"failures": summary.failures(complete), "not_measurable": summary.why_not_measurable(complete)}
    complete = complete.model_copy(update={**judged, "exit": summary.exit_status(complete)})
    write_atomically(file, complete.model_dump_json(indent=1) + "\n")
    table.show(complete, console or table.console())
    return 0 if complete.interrupted else summary.exit_status(complete)


def _remains(kernel: Kernel) -> tuple[str, ...]:
    """Returns what is left once killed processes had time to end: idle ones need CPU for it, which others may take."""
    deadline = time.monotonic() + _END_SECONDS
    while (found := tuple(kernel.remains())) and time.monotonic() < deadline:
        time.sleep(_END_STEP_SECONDS)
    return found


def restored(state_dir: Path) -> tuple[bool | None, int]:
    """The agent's report on reading back every file: whether all were restored, and how many; None without a report."""
    try:
        report = json.loads((state_dir / "agent" / "restore-report.json").read_text())
    except FileNotFoundError:
        return None, 0
    return bool(report["exact"]), len(report["files"])


@dataclass(slots=True)
class Production:
    """One run on this machine's cgroups."""

    endpoint: Endpoint
    stage: Stage
    file: Path
    seconds: int | None
    name: str
    chosen: Sequence[DemoScene[Any]]
    found: dict[str, SceneSummary] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)

    async def perform(self) -> int:
        """Announce and run the scenes; without a duration show the tables and go on until cancelled."""
        planned = schedule.plan(self.chosen, self.seconds)
        self._announce(planned)
        try:
            async with self._watching():
                for one in planned:
                    await self._scene(one)
            if self.seconds is None:
                self.stage.narrator.__exit__()
                table.show(await self._write(), table.console())
                self.stage.narrator.__enter__()
                async with self._watching():
                    await keep_running(self.stage)
        finally:
            await self.stage.workloads.stop_all()
        return summary.exit_status((await self._write()).model_copy(update={"restored_exactly": True}))

    def _announce(self, planned: Sequence[PlannedScene]) -> None:
        """Say what will happen, with the seconds of each scene, and what there is no time for."""
        write_line = self.stage.narrator.write_line
        folder = self.stage.workloads.state_dir
        setting = "" if client_state_dir() == folder else f"{VARIABLE}={folder} "  # an operator's instance runs too
        self.stage.narrator.greet(self.endpoint, platform.node(), setting)
        write_line(f"pictures and tables: {self.endpoint.http_url}/demo")
        shown = [one for one in planned if not one.skipped]
        total = sum(one.seconds for one in shown)
        write_line(f"{len(shown)} of {len(planned)} scenes, about {total:.0f} s:")
        for number, one in enumerate(shown, 1):
            write_line(f"scene {number}, {one.scene.name}, {one.seconds:.0f} s: {one.scene.plan}")
        for one in planned:
            if one.skipped:
                write_line(f"skipped, {one.scene.name}: {one.skipped}")

    async def _scene(self, planned: PlannedScene) -> None:
        """Run a scene, keep its report and picture, and write the summary so far."""
        scene, began = planned.scene, time.monotonic()
        entry = SceneSummary(plan=scene.plan, turns_each=planned.turns, skipped=planned.skipped)
        if not planned.skipped:
            self.stage.narrator.write_line(f"scene {scene.name}")
            before = await self.stage.api.policy()
            try:
                result = await scene.perform(self.stage, planned.turns)
            finally:
                await self.stage.api.apply(before)
            self.results[scene.name] = result
            entry = entry.model_copy(
                update={
                    **scene.judged(result).model_dump(),
                    "took_seconds": round(time.monotonic() - began, 1),
                    "result": result.model_dump(mode="json"),
                }
            )
            if result.turns and scene.picture is not None:
                picture = self.stage.workloads.state_dir / DEMO_PICTURES / f"{scene.name}.svg"
                write_atomically(picture, scene.picture(result))
                entry = entry.model_copy(update={"picture": str(picture)})
        self.found[scene.name] = entry
        await self._write()

    async def _write(self) -> RunSummary:
        """Write the summary so far; returns it."""
        api, workloads, kernel = self.stage.api, self.stage.workloads, self.stage.kernel
        cpu, memory = self.results.get("cpu"), self.results.get("memory")
        policies = self.results.get("policies")
        turns = cpu.turns if isinstance(cpu, CpuScene) else ()
        ours = [turn for turn in turns if turn.variant == SLACKWATER]
        found = RunSummary(
            scene=self.name,
            scenes=self.found,
            memory=memory if isinstance(memory, MemoryScene) else None,
            driver="linux",
            driver_note="",
            machine={
                "node": platform.node(),
                "cpus": workloads.cpus,
                "kernel": platform.release(),
                "cgroups": kernel.hierarchy.version,
                "load_average": list(os.getloadavg()),
            },
            started_at=self.started_at,
            seconds=self.seconds,
            workload=_workload(cpu) if isinstance(cpu, CpuScene) else {},
            waterline=cpu.waterline if isinstance(cpu, CpuScene) else None,
            phases=_phases(cpu) if isinstance(cpu, CpuScene) else {},
            reaction=ours[0].reaction if ours else summary.Reaction(),
            comparison=policies.comparison if isinstance(policies, PoliciesScene) else PolicyComparison(),
            counts=await api.counts(),
            offers=await api.offers(),
            conclusion=" ".join(f"{text}." for entry in self.found.values() for text in entry.sentences),
            took_seconds=round(time.monotonic() - self.began, 1),
        )
        write_atomically(self.file, found.model_dump_json(indent=1) + "\n")
        return found

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        """Print decisions in the background during the block; raise their errors here."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._watch_decisions())
            yield
            task.cancel()

    async def _watch_decisions(self) -> None:
        while True:
            for item in await self.stage.api.decisions():
                if item["id"] not in self.seen:
                    self.seen.add(item["id"])
                    self.stage.narrator.decision(item, None, None)
            await asyncio.sleep(_DECISIONS_SECONDS)


def _workload(cpu: CpuScene) -> dict[str, float]:
    return {
        "workers": cpu.workers,
        "rounds": cpu.rounds,
        "request_cpu_ms": cpu.request_cpu_ms,
        "surge_rate": cpu.rate,
    }


def _phases(cpu: CpuScene) -> dict[str, summary.Phase]:
    """The surges by variant; the second and later turns have a number."""
    names = {
        id(turn): summary.nth(variant, number) for variant in MODES for number, turn in enumerate(cpu.of(variant), 1)
    }
    return {names[id(turn)]: turn.phase.model_copy(update={"name": names[id(turn)]}) for turn in cpu.turns}

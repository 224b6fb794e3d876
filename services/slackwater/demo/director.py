"""Runs the scenes of the demo, one after the other, and keeps `run-summary.json`.

`run` executes while the stack is up and writes an unfinished summary after every scene. `finish` is called after
everything has stopped: it adds the results of the restore and the leftovers, prints the table and returns the exit
status. The demo's state is in a folder of its own below the state directory, where the summary lies.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from slackwater.demo import schedule, summary, table
from slackwater.demo.api import Api
from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.workloads import Workloads
from slackwater.demo.narrator import Narrator, terminal
from slackwater.demo.picture import picture
from slackwater.demo.runner import SceneRun
from slackwater.demo.scene import DemoScene
from slackwater.demo.scenes import catalog
from slackwater.demo.schedule import PlannedScene
from slackwater.demo.stage import Stage
from slackwater.demo.summary import RunSummary, SceneSummary
from slackwater.model.errors import Unavailable
from slackwater.model.plurals import counted
from slackwater.runtime.owned_files import write_atomically
from slackwater.runtime.state import DEMO_PICTURES, RUN_SUMMARY, VARIABLE, Endpoint, client_state_dir

_END_SECONDS, _END_STEP_SECONDS = 10.0, 0.2
_OVERTIME_SECONDS, _LATE_SECONDS = 60.0, 3.0
"""How much later than said a run may end: until it has shown a scene, and afterwards."""
_NO_CGROUPS = "it needs writable cgroups: run as root, or delegate a cgroup tree"


def summary_path(state_dir: Path) -> Path:
    """Where the summary lies: beside the demo's own folder, in the state directory."""
    return state_dir.parent / RUN_SUMMARY


async def run(endpoint: Endpoint, state_dir: Path, seconds: int | None, driver: str, scene: str = catalog.ALL) -> int:
    """Run the chosen scenes; return the exit status as known before the stop. Cancel the task to end it early.

    All scenes without a limit of time are followed by a wait for the cancellation, so that a user can look around.
    """
    summary_path(state_dir).unlink(missing_ok=True)
    workloads, kernel = Workloads(state_dir, len(os.sched_getaffinity(0))), Kernel.of(state_dir)
    began = RunSummary(
        driver=driver,
        machine={
            "node": platform.node(),
            "cpus": workloads.cpus,
            "kernel": platform.release(),
            "cgroups": kernel.hierarchy.version,
            "load_average": list(os.getloadavg()),
        },
        started_at=datetime.now(UTC),
        seconds=seconds,
        scene=scene,
        console_url=endpoint.http_url,
    )
    async with Api(endpoint, began.started_at, platform.node()) as api:
        with Narrator() as narrator:
            stage = Stage(api, narrator, workloads, kernel)
            return await Direction(stage, catalog.chosen(scene, driver), began).perform()


def finish(state_dir: Path, console: Console | None = None) -> int:
    """After the stop: complete `run-summary.json`, print the table, return the exit status (0, 2 or 3).

    Returns 0 for a run that was interrupted, also before it wrote a summary.
    """
    file = summary_path(state_dir)
    if not file.exists():
        return 0
    found = RunSummary.model_validate_json(file.read_text())
    exact, files = restored(state_dir)
    remains = _remains(Kernel.of(state_dir)) if found.driver == "linux" else ()
    update = {"restored_exactly": exact, "restored_files": files, "leftovers": remains, "finished": True}
    whole = found.model_copy(update=update)
    whole = whole.model_copy(update={"failures": summary.failures(whole), "exit": summary.exit_status(whole)})
    write_atomically(file, whole.model_dump_json(indent=1) + "\n")
    console = console or terminal()
    told = [] if whole.stays_up else [*table.lines(whole, console.width), *table.next_steps(whole)]
    console.print("\n".join([*told, *table.ending(whole)]), markup=False)
    return whole.exit or 0


def _remains(kernel: Kernel) -> tuple[str, ...]:
    """Returns what is left once killed processes had time to end: idle ones need CPU for it, which others may take."""
    deadline = time.monotonic() + _END_SECONDS
    while (found := tuple(kernel.remains())) and time.monotonic() < deadline:
        time.sleep(_END_STEP_SECONDS)
    return found


def restored(state_dir: Path) -> tuple[bool | None, int]:
    """The agent's report on reading back every file: whether all were restored, and how many; None without a report."""
    with suppress(FileNotFoundError):
        report = json.loads((state_dir / "agent" / "restore-report.json").read_text())
        return bool(report["exact"]), len(report["files"])
    return None, 0


@dataclass(slots=True)
class Direction:
    """One run: which scenes it shows, and its summary so far."""

    stage: Stage
    scenes: Sequence[DemoScene[Any]]
    run: RunSummary
    began: float = field(default_factory=time.monotonic)

    async def perform(self) -> int:
        """Announce and run the scenes."""
        seconds, driver = self.run.seconds, self.run.driver
        planned = schedule.plan([scene for scene in self.scenes if scene.driver == driver], seconds)
        others = [PlannedScene(scene, 0, _NO_CGROUPS) for scene in self.scenes if scene.driver != driver]
        shown = [entry for entry in planned if entry.rounds]
        self._announce(shown)
        self._write(scenes={
            entry.scene.name: SceneSummary(plan=entry.scene.plan, left_out=entry.left_out)
            for entry in (*others, *planned)
        })  # fmt: skip
        deadline = None if seconds is None else self.began + seconds - schedule.STOP_SECONDS
        try:
            for number, scene in enumerate(shown, 1):
                await self._scene(scene, f"{number}/{len(shown)}", deadline, shown[number:])
            stays_up = seconds is None and self.run.scene == catalog.ALL
            self._write(is_over=True, stays_up=stays_up, commands=await self._commands() if shown else ())
            if stays_up:
                await self._stay_up()
        finally:
            self._write()  # the seconds until here, also of a run that is interrupted
            await self.stage.workloads.stop_all()
        return summary.exit_status(self.run) or 0

    async def _stay_up(self) -> None:
        """Print the table, and wait until cancelled."""
        narrator = self.stage.narrator
        narrator.__exit__()
        told = [*table.lines(self.run, narrator.console.width), *table.next_steps(self.run)]
        narrator.console.print("\n".join(told), markup=False)
        narrator.write_line("all scenes are over; everything stays up until Ctrl-C, which puts everything back")
        await asyncio.Event().wait()

    def _announce(self, shown: Sequence[PlannedScene]) -> None:
        """Say what will happen, with the seconds of each scene."""
        write_line = self.stage.narrator.write_line
        write_line(f"pictures and tables while it runs: {self.stage.api.endpoint.http_url}/demo")
        write_line(f"{counted(len(shown), 'scene')}, about {sum(scene.seconds for scene in shown):.0f} s:")
        for scene in shown:
            write_line(f"{scene.scene.name}, {scene.seconds:.0f} s: {scene.scene.plan}")

    async def _scene(
        self, planned: PlannedScene, place: str, deadline: float | None, later: Sequence[PlannedScene]
    ) -> None:
        """Run a scene, keep its report and picture, and write the summary so far."""
        scene = planned.scene
        has_shown = any(entry.is_shown for entry in self.run.scenes.values())
        overtime = _LATE_SECONDS if has_shown else _OVERTIME_SECONDS
        entry, turns = await SceneRun(self.stage, planned, deadline, overtime, later).perform()
        if entry.is_shown:
            file = self.stage.workloads.state_dir / DEMO_PICTURES / f"{scene.name}.svg"
            write_atomically(file, picture(scene, turns))
            entry = entry.model_copy(update={"picture": str(file)})
        self.stage.narrator.write_line(f"scene {place}, {scene.name}: {outcome(entry)}")
        self._write(scenes={**self.run.scenes, scene.name: entry})

    def _write(self, **update: Any) -> None:
        """Write the summary with these fields."""
        self.run = self.run.model_copy(update={"took_seconds": round(time.monotonic() - self.began, 1), **update})
        write_atomically(summary_path(self.stage.workloads.state_dir), self.run.model_dump_json(indent=1) + "\n")

    async def _commands(self) -> tuple[str, ...]:
        """Returns what a user may try with the data of this run, also after its stop."""
        folder, node = self.stage.workloads.state_dir, self.stage.api.node
        if self.run.driver != "linux":
            node = "sim-01"
        own = Path(sys.executable).with_name("slackwater")
        is_on_path = Path(shutil.which("slackwater") or "/").resolve() == own.resolve()
        program = "slackwater" if is_on_path else shlex.quote(os.path.relpath(own))
        if client_state_dir() != folder:  # an operator's instance runs too
            program = f"{VARIABLE}={shlex.quote(str(folder))} {program}"
        last = "get offers"
        with suppress(Unavailable):  # too busy to answer
            for kind in ("offer", "throttle", "evict"):
                for decision in (await self.stage.api.decisions(kind))[:1]:
                    last = f"why decision/{decision['id']}"
        return tuple(f"{program} {subject}" for subject in (f"why node/{node} batch-cpu", "get decisions", last))


def outcome(entry: SceneSummary) -> str:
    """Returns in one line what a scene came to."""
    if entry.left_out:
        return f"left out, {entry.left_out}"
    if entry.failures:
        return f"FAILED, {entry.failures[0]}"
    return f"shown in {counted(len(entry.turns), 'turn')}, every promise kept"

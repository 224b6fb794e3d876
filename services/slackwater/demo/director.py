"""Runs the main job: starts the workloads, applies the same surge four times under different policies, and measures.

`run` executes while the stack is up and writes an unfinished summary. `finish` is called after everything has stopped:
it adds the results of the restore and the leftovers, prints the summary and returns the exit status.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from slackwater.demo import policies, schedule, simulation, summary, table
from slackwater.demo.api import Api
from slackwater.demo.comparison import PolicyComparison
from slackwater.demo.contest import BATCH_PODS, BATCH_SHARE, Contest
from slackwater.demo.kernel import Gauge, Kernel, QuotaWatch
from slackwater.demo.narrator import Narrator
from slackwater.demo.reaction import PressureSample, reaction
from slackwater.demo.scenes.memory import LIMIT_MIB, MEMORY, PROD_END_MIB
from slackwater.demo.scenes.memory_result import MemoryScene
from slackwater.demo.scenes.scene import Stage
from slackwater.demo.summary import ALONE, PAIRS, PLAIN, SLACKWATER, WEIGHTS, OfferLine, RunCounts, RunSummary, nth
from slackwater.demo.workloads import Load, Workloads
from slackwater.runtime.state import Endpoint, write_atomically

SUMMARY_FILE = "run-summary.json"
_GAUGE_SECONDS = 0.5
_WARM_SECONDS, _WARM_RATE, _LOADED_SECONDS = 1.5, 40.0, 1.5
_LAST_SURGE_IS_OVER_SECONDS = 1.5
"""Seconds after which the agent's last sample no longer contains the previous surge, which it would react to."""
_LOOP_PATIENCE_SECONDS = 8.0


async def run(
    endpoint: Endpoint, state_dir: Path, seconds: int | None, driver: str, scene: str = summary.ALL_SCENES
) -> int:
    """Run the main job; return the exit status as known before the stop. Cancel the task to end it early."""
    (state_dir / SUMMARY_FILE).unlink(missing_ok=True)
    (state_dir / "agent" / "restore-report.json").unlink(missing_ok=True)  # of an earlier run
    if driver != "linux":
        return await simulation.direct(endpoint, state_dir, seconds, SUMMARY_FILE)
    async with Api(endpoint, datetime.now(UTC), platform.node()) as api:
        with Narrator() as narrator:
            production = Production(endpoint, state_dir, seconds, api, narrator, scene)
            return await production.perform()


def finish(state_dir: Path, console: Console | None = None) -> int:
    """After the stop: complete `run-summary.json`, print the table, return the exit status (0, 2 or 3).

    Returns 0 without a summary of `run`, which was interrupted before it wrote one.
    """
    file = state_dir / SUMMARY_FILE
    if not file.exists():
        return 0
    found = RunSummary.model_validate_json(file.read_text())
    exact, files = restored(state_dir)
    remains = tuple(Kernel.of(state_dir).remains()) if found.driver == "linux" else ()
    update = {"restored_exactly": exact, "restored_files": files, "leftovers": remains, "finished": True}
    complete = found.model_copy(update=update)
    judged = {"failures": summary.failures(complete), "not_measurable": summary.why_not_measurable(complete)}
    complete = complete.model_copy(update={**judged, "exit": summary.exit_status(complete)})
    write_atomically(file, complete.model_dump_json(indent=1) + "\n")
    table.show(complete, console or table.console())
    return 0 if complete.interrupted else summary.exit_status(complete)


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
    state_dir: Path
    seconds: int | None
    api: Api
    narrator: Narrator
    scene: str = summary.ALL_SCENES
    doing: str = "starting"
    memory: MemoryScene | None = None
    waterline: float | None = None
    told_waterline: float | None = None
    """The waterline on pressure, while it is in force."""
    pressure: PressureSample | None = None
    phases: dict[str, summary.Phase] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    kernel: Kernel = field(init=False)
    gauge: Gauge = field(init=False)
    workloads: Workloads = field(init=False)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.kernel = Kernel.of(self.state_dir)
        self.gauge = Gauge(self.kernel)
        self.workloads = Workloads(self.state_dir, len(os.sched_getaffinity(0)))

    async def perform(self) -> int:
        """Run all phases, then restore the previous policy."""
        before = await self.api.policy()
        try:
            self._announce()
            self.memory = await self._memory()
            if self.scene == summary.MEMORY_SCENE:
                return await self._memory_alone()
            async with self._watching():
                found = await self._phases()
            await self.api.apply(before)
        finally:
            await self.workloads.stop_all()
        return summary.exit_status(found.model_copy(update={"restored_exactly": True}))

    def _announce(self) -> None:
        """Say what will happen."""
        self.narrator.greet(self.endpoint, platform.node())
        scenes = {
            summary.MEMORY_SCENE: f"memory: prod grows in a full parent of {LIMIT_MIB} MiB, without Slackwater "
            "(the kernel kills) and with it (batch is evicted with grace), in turns",
            summary.CPU_SCENE: "CPU: the same surge of requests with plain sharing, tier weights, alone, and under a "
            "waterline",
        }
        chosen = [text for name, text in scenes.items() if self.scene in (summary.ALL_SCENES, name)]
        for number, text in enumerate(chosen, 1):
            self.narrator.write_line(f"scene {number} of {len(chosen)}, {text}")

    async def _memory(self) -> MemoryScene | None:
        """Run the memory scene, if it was asked for and there is time."""
        if self.scene == summary.CPU_SCENE:
            return None
        if self.scene != summary.MEMORY_SCENE and not schedule.has_memory(self.seconds):
            why = f"skipped: it needs SECONDS={schedule.MEMORY_SECONDS} or more, or SCENE=memory"
            return MemoryScene(limit_mib=LIMIT_MIB, prod_end_mib=PROD_END_MIB, left_out=why)
        stage = Stage(self.api, self.narrator, self.workloads, self.kernel)
        return await MEMORY.perform(
            stage, schedule.memory_pairs(self.seconds, alone=self.scene == summary.MEMORY_SCENE)
        )

    async def _memory_alone(self) -> int:
        found = self._summary(RunCounts(), (), summary.Reaction(), {}, PolicyComparison())
        write_atomically(self.state_dir / SUMMARY_FILE, found.model_dump_json(indent=1) + "\n")
        return summary.exit_status(found.model_copy(update={"restored_exactly": True}))

    async def _phases(self) -> RunSummary:
        parts = schedule.lengths(schedule.cpu_seconds(self.seconds, self.scene))
        await self.api.set_mode("observe", "by-request")
        self.doing = "starting the service"
        port, rounds = await self.workloads.service(schedule.REQUEST_SECONDS)
        cost = await self._cost(port)
        rates = schedule.rates(self.workloads.cpus, cost)
        self.narrator.write_line(
            f"service up: {self.workloads.cpus} workers, {cost * 1000:.1f} ms of CPU per request; "
            f"a surge is {rates.surge:.0f} requests/s, about {schedule.SURGE_LOAD:.0%} of this machine"
        )
        surge = Surge(self, port, rates, parts)
        await surge.first()
        self._set_waterline()
        crunch = await self.workloads.batch()
        await self._wait_for_batch()
        await surge.phase(PLAIN, "plain sharing: CPU weights by request, no throttling")
        await self.api.set_mode("observe", "by-tier", self.waterline)
        await asyncio.sleep(parts.settle)
        await surge.phase(WEIGHTS, "tier weights only, no throttling")
        found = await self._pair(surge, 1)
        if summary.is_too_slow(self.phases):
            self.narrator.write_line(
                "p99 above its bound: measuring two more pairs (about a minute), the median decides"
            )
            longer = replace(surge, parts=schedule.in_doubt(parts))
            for number in range(2, PAIRS + 1):
                await self.api.set_mode("observe", "by-tier", self.waterline)
                await self._pair(longer, number)
        compared = await self._compare(port, parts, crunch)
        workload = {"workers": self.workloads.cpus, "rounds": rounds, "request_cpu_ms": round(cost * 1000, 3)}
        loads = {"rest_rate": round(rates.rest, 1), "surge_rate": round(rates.surge, 1)}
        result = await self._conclude(found, {**workload, **loads}, compared)
        result = result.model_copy(update={"took_seconds": round(time.monotonic() - self.began, 1)})
        write_atomically(self.state_dir / SUMMARY_FILE, result.model_dump_json(indent=1) + "\n")
        if self.seconds is None:
            await self._repeat(surge, result)
        return result

    async def _pair(self, surge: Surge, number: int) -> summary.Reaction:
        """Measure the service alone and, immediately after, the same surge under Slackwater."""
        with self.kernel.batch_stands_still():
            doing = "service alone, batch is stopped: the reference for Slackwater"
            await surge.phase(nth(ALONE, number), doing)
        await asyncio.sleep(_LAST_SURGE_IS_OVER_SECONDS)
        with QuotaWatch(self.kernel) as watch:
            await self.api.set_mode("throttle", "by-tier", self.waterline)
            await asyncio.sleep(surge.parts.settle)
            return await surge.guarded(nth(SLACKWATER, number), watch)

    async def _compare(self, port: int, parts: schedule.Lengths, crunch: Process) -> PolicyComparison:
        """Run the comparison of the two policies, if there is time.

        The CPU cost per request and the usage by other work are taken from the four surges, which is more accurate than
        the short measurement before the first.
        """
        if not parts.comparison:
            return PolicyComparison(left_out=f"skipped: it needs SECONDS={schedule.compared_from(self.scene)} or more")
        cpus, phases = self.workloads.cpus, self.phases.values()
        rates = schedule.compared(
            cpus,
            summary.cpu_seconds_per_request(phases),
            sum(phase.other_cpu for phase in phases) / len(phases),
            policies.COMPARED.target * cpus,
            BATCH_SHARE * cpus,
        )
        self.narrator.write_line(
            f"comparing all-or-nothing and precise throttling above {policies.COMPARED.waterline:.0%} of the machine's "
            f"CPU: {BATCH_PODS} batch pods with a demand of {BATCH_SHARE:.0%} of it, surges of {rates.surge:.0f} "
            "requests/s"
        )
        deadline, self.told_waterline = time.monotonic() + parts.comparison, None
        found = await Contest(self, port, rates.surge, rates.rest, deadline).perform(crunch)
        self.told_waterline = self.waterline
        return found

    async def _cost(self, port: int) -> float:
        """CPU seconds of one request, measured on the service under the load of a surge.

        The cost at rest would give surges that are too large on a machine that slows down under load.
        """
        first = await self._cost_at(port, "warm", _WARM_SECONDS, _WARM_RATE)
        rate = round(schedule.rates(self.workloads.cpus, first).surge, 1)
        return await self._cost_at(port, "loaded", _LOADED_SECONDS, rate)

    async def _cost_at(self, port: int, name: str, seconds: float, rate: float) -> float:
        began = self.kernel.read().prod_cpu
        load = await self.workloads.load(port, f"{name}:{seconds}:{rate}", 0.0, name)
        await load.process.wait()
        return (self.kernel.read().prod_cpu - began) / max(1, len(load.samples(name)))

    def _set_waterline(self) -> None:
        alone = self.gauge.pressures(*self.last_surge)
        self.waterline = self.told_waterline = schedule.waterline([sample.some for sample in alone])
        self.narrator.write_line(
            f"waterline on prod's CPU pressure: {self.waterline:.3f} (from its pressure without batch)"
        )

    last_surge: tuple[float, float] = (0.0, 0.0)
    """Times in monotonic seconds."""

    async def _wait_for_batch(self) -> None:
        for _ in range(200):
            if self.kernel.batch_limits() and self.kernel.read().batch_cpu > 0.2:
                return
            await asyncio.sleep(0.05)

    async def _conclude(
        self, reacted: summary.Reaction, workload: dict[str, float], compared: PolicyComparison
    ) -> RunSummary:
        """Write the summary so far; waits briefly for windows, predictions and offers, the slow half of the loop."""
        for _ in range(int(_LOOP_PATIENCE_SECONDS / 0.5)):
            counts, offers = await self.api.counts(), await self.api.offers()
            if counts.predictions and counts.decisions.get("restore") and offers:
                break
            await asyncio.sleep(0.5)
        found = self._summary(counts, offers, reacted, workload, compared)
        stopped_well = found.model_copy(update={"restored_exactly": True})  # assumed here; `finish` checks it
        found = found.model_copy(update={"failures": summary.failures(stopped_well)})
        write_atomically(self.state_dir / SUMMARY_FILE, found.model_dump_json(indent=1) + "\n")
        return found

    def _summary(
        self,
        counts: RunCounts,
        offers: tuple[OfferLine, ...],
        reacted: summary.Reaction,
        workload: dict[str, float],
        compared: PolicyComparison,
    ) -> RunSummary:
        return RunSummary(
            scene=self.scene,
            memory=self.memory,
            driver="linux",
            driver_note="",
            machine={
                "node": platform.node(),
                "cpus": self.workloads.cpus,
                "kernel": platform.release(),
                "cgroups": self.kernel.hierarchy.version,
                "load_average": list(os.getloadavg()),
            },
            started_at=self.started_at,
            seconds=self.seconds,
            workload=workload,
            waterline=self.waterline,
            phases=self.phases,
            reaction=reacted,
            comparison=compared,
            counts=counts,
            offers=offers,
            conclusion=summary.conclusion(self.phases) if self.phases else "",
        )

    async def _repeat(self, surge: Surge, found: RunSummary) -> None:
        """Without a duration: print the table, then repeat surges until cancelled."""
        self.narrator.__exit__()
        table.show(found, table.console())
        self.narrator.__enter__()
        while True:
            await surge.phase(SLACKWATER, "Slackwater, repeated until Ctrl-C", keep=False)
            await asyncio.sleep(10)

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        """Read gauges and decisions in the background during the block; raise their errors here."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._watch_gauges()), group.create_task(self._watch_decisions())]
            yield
            for task in tasks:
                task.cancel()

    async def _watch_gauges(self) -> None:
        while True:
            if (self.kernel.hierarchy.cpu or Path("/")).joinpath(self.kernel.root, "batch").is_dir():
                self.pressure = self.gauge.tick()
                self.narrator.now(self.doing, self.pressure, self.kernel.batch_limits())
            await asyncio.sleep(_GAUGE_SECONDS)

    async def _watch_decisions(self) -> None:
        while True:
            for item in await self.api.decisions():
                if item["id"] not in self.seen:
                    self.seen.add(item["id"])
                    self.narrator.decision(item, self.pressure, self.told_waterline)
            await asyncio.sleep(0.7)


@dataclass(slots=True)
class Surge:
    """Runs phases with the same surge: the same arrivals at the same rates."""

    production: Production
    port: int
    rates: schedule.Rates
    parts: schedule.Lengths

    async def first(self) -> None:
        """Run rest and a shorter surge before batch starts.

        Its latencies are not compared with later ones, because a virtual machine may run at half speed by then.
        """
        parts = replace(self.parts, surge=self.parts.first)
        load, began, ended = await replace(self, parts=parts)._begin("first", "service alone", tail=0.0)
        await self._until(ended + 0.1)
        await load.process.wait()
        self.production.last_surge = (began, ended)

    async def phase(self, name: str, doing: str, *, keep: bool = True) -> None:
        """Run rest and surge, and measure the phase."""
        load, began, ended = await self._begin(name, doing, tail=0.0)
        await self._until(ended + 0.1)
        await load.process.wait()
        if keep:
            self._measure(name, load, began, ended)

    async def guarded(self, name: str, watch: QuotaWatch) -> summary.Reaction:
        """Run the phase with the waterline; ends when batch is restored or the timeout expires."""
        production = self.production
        doing = "Slackwater: tier weights and the waterline"
        load, began, ended = await self._begin(name, doing, tail=self.parts.restore_patience)
        await self._until(ended + 0.1)
        production.doing = "surge over, restoring batch"
        for _ in range(int(self.parts.restore_patience / 0.05)):
            if watch.all_original():
                break
            await asyncio.sleep(0.05)
        await production.workloads.stop(load.process)
        self._measure(name, load, began, ended)
        pressures = production.gauge.pressures(began, ended + 1)
        return reaction(watch.changes, pressures, watch.originals, (began, ended), production.waterline or 1.0)

    async def _begin(self, name: str, doing: str, tail: float) -> tuple[Load, float, float]:
        production, parts = self.production, self.parts
        production.narrator.write_line(doing)
        production.doing = f"{doing} (rest)"
        start = time.monotonic() + 0.5
        stretches = [f"rest:{parts.rest}:{self.rates.rest}", f"surge:{parts.surge}:{self.rates.surge}"]
        stretches += [f"after:{tail}:{self.rates.rest}"] if tail else []
        load = await production.workloads.load(self.port, ",".join(stretches), start, name)
        began = start + parts.rest
        await self._until(began)
        production.doing = f"{doing} (surge)"
        return load, began, began + parts.surge

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - time.monotonic()))

    def _measure(self, name: str, load: Load, began: float, ended: float) -> None:
        production = self.production
        production.last_surge = (began, ended)
        pressures = [sample.some for sample in production.gauge.pressures(began, ended)]
        cores = production.gauge.cores(began, ended)
        samples = load.samples("surge")
        found = summary.phase(name, self.parts.surge, samples, pressures, cores)
        production.phases[name] = found
        production.narrator.write_line(
            f"  p99 {found.p99_ms or 0:.1f} ms, prod pressure {found.pressure_mean or 0:.3f}, "
            f"batch {found.batch_cpu:.2f} CPU"
        )

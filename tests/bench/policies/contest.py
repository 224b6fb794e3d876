"""Runs the same surges alternately under the precise and the all-or-nothing policy on this machine.

The policies alternate so that other work on the machine affects both alike. A surge begins only when every quota is at
its original. Before each pair the service gets the same requests alone, with batch frozen, and the precise policy
follows first: a virtual machine may run at half speed a minute later, so latencies are compared with those measured
just before. The figures are read from the kernel (tests.bench.policies.comparison defines them).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from tests.bench.policies import documents
from tests.bench.policies.comparison import (
    MachineUse,
    PolicyComparison,
    SurgeFigures,
    SurgeSeen,
    figures,
    median,
    outcome,
    p99_ms,
    p99_of_enough_ms,
    rate,
    stolen,
    undisturbed,
)
from tests.bench.policies.documents import ALL_OR_NOTHING, PRECISE
from tests.bench.policies.watch import QuotaWatch, UseWatch, batch_stands_still, lowered_of

from slackwater.demo.api import NODEQOS, Api
from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.workloads import Workloads, program
from slackwater.demo.programs.load import Sample, Stretch

BATCH_PODS, BATCH_SHARE = 8, 0.42
"""The number of batch pods, and their total demand as a share of the machine."""
_REST_SECONDS, _SURGE_SECONDS, _SETTLE_SECONDS = 2.5, 12.0, 0.5
"""Rest and settling last as long as the cool-down, because a surge that comes sooner counts as a relapse of the last
restore. A surge lasts four times as long, so that a restore during the surge shows up and the p99 depends on more than
the slowest half dozen requests."""
_CALM_SECONDS = 2.5
"""Throttling is disabled after the surge of the service alone. Otherwise a sample that includes its last second would
throttle batch before the next surge, and the demand of batch would be measured on throttled pods."""
_FREE_PATIENCE_SECONDS, _START_PATIENCE_SECONDS = 25.0, 20.0
_POLL_SECONDS = 0.1
_REST_LOAD, _SURGE_LOAD, _LEAST_SURGE_LOAD, _LEFT_TO_BATCH = 0.05, 0.60, 0.30, 1 / 3


@dataclass(frozen=True, slots=True)
class ContestStage:
    """What the comparison works with: the stack, the workloads and a line per surge."""

    api: Api
    kernel: Kernel
    workloads: Workloads
    write_line: Callable[[str], None]


@dataclass(slots=True)
class Contest:
    """Runs the comparison. A pair of surges begins only if it can end before `deadline` (monotonic)."""

    stage: ContestStage
    port: int
    request_cpu: float
    deadline: float
    surge_rate: float = 0.0
    rest_rate: float = 0.0
    alone: list[list[Sample]] = field(default_factory=list)
    """The requests of each surge without batch; `alone_calm` are those without steal."""
    alone_calm: list[Sample] = field(default_factory=list)
    alone_stolen: float = 0.0
    seen: list[SurgeSeen] = field(default_factory=list)
    rests: list[tuple[float, float]] = field(default_factory=list)
    """Periods in which no pod was throttled and the service was at rest."""
    longest_surge: float = 0.0

    async def perform(self) -> PolicyComparison:
        """Run the comparison beside pods of known demand."""
        stage = self.stage
        present = await stage.api.document(*NODEQOS) or {}
        limit = round(1000 * BATCH_SHARE * stage.workloads.cpus / BATCH_PODS)
        left_out = ""
        with UseWatch(stage.kernel) as use:
            await self._crowd(limit)
            if not await _all_live(stage.kernel, use, BATCH_SHARE * stage.workloads.cpus):
                raise TimeoutError(f"{BATCH_PODS} batch pods were not busy within {_START_PATIENCE_SECONDS:g} s")
            self._choose_rates(use)
            for policy in cycle((PRECISE, ALL_OR_NOTHING)):
                if policy == PRECISE:
                    if not self._has_time():
                        break
                    await self._apply(documents.released(documents.document(present, PRECISE)))
                    await self._by_itself(use)
                    await asyncio.sleep(_CALM_SECONDS)
                began = time.monotonic()
                document = documents.document(present, policy)
                await self._apply(document)
                if not await self._surge(policy, document, use):
                    left_out = (
                        f"ended early: batch was not fully restored {_FREE_PATIENCE_SECONDS:g} s after a surge under "
                        f"{policy}"
                    )
                    break
                self.longest_surge = max(self.longest_surge, time.monotonic() - began)
            await self._apply(present)
            return self._concluded(use, left_out)

    async def _apply(self, document: dict[str, Any]) -> None:
        await self.stage.api.put(*NODEQOS, document["spec"])

    async def _crowd(self, cpu_milli: int) -> None:
        """Start CPU-bound batch pods, each limited, so that their demand is known."""
        command = program("batch", processes=-(-cpu_milli // 1000))
        limit = ("--cpu-limit", f"{cpu_milli}m")
        for number in range(1, BATCH_PODS + 1):
            name = f"reindex-{number}"
            await self.stage.workloads.pod("batch", name, cpu_milli, "256Mi", *command, flags=limit)

    def _choose_rates(self, use: UseWatch) -> None:
        """The request rates: a surge leaves batch a third of its demand, because both policies act alike where all of
        batch's CPU is needed."""
        cpus, now = self.stage.workloads.cpus, time.monotonic()
        machine, batch = rate(use.between(now - 2.0, now), now - 2.0, now)
        room = documents.COMPARED.target * cpus - (machine - batch) - _LEFT_TO_BATCH * BATCH_SHARE * cpus
        prod = min(_SURGE_LOAD * cpus, max(_LEAST_SURGE_LOAD * cpus, room))
        self.rest_rate, self.surge_rate = _REST_LOAD * cpus / self.request_cpu, prod / self.request_cpu
        self.stage.write_line(f"surges of {self.surge_rate:.0f} requests/s beside {BATCH_PODS} batch pods")

    def _has_time(self) -> bool:
        alone = _SETTLE_SECONDS + _REST_SECONDS + _SURGE_SECONDS + 1.0 + _CALM_SECONDS
        ends = time.monotonic() + 2 * self.longest_surge + alone
        return not self.seen or ends <= self.deadline

    async def _by_itself(self, use: UseWatch) -> None:
        """Run the surge with batch frozen."""
        stage = self.stage
        number = len(self.seen) // 2 + 1
        settled = time.monotonic() + _SETTLE_SECONDS
        with batch_stands_still(stage.kernel), QuotaWatch(stage.kernel):  # the watch costs CPU in both cases
            load = await stage.workloads.load(self.port, self._stretches(), settled, f"alone-{number}")
            await load.process.wait()
        samples = load.samples("surge")
        began = settled + _REST_SECONDS
        used = use.between(began, began + _SURGE_SECONDS)
        self.alone.append(samples)
        self.alone_calm += undisturbed(samples, used)
        self.alone_stolen += stolen(used, began, began + _SURGE_SECONDS)

    def _stretches(self) -> list[Stretch]:
        return [Stretch("rest", _REST_SECONDS, self.rest_rate), Stretch("surge", _SURGE_SECONDS, self.surge_rate)]

    async def _surge(self, policy: str, document: dict[str, Any], use: UseWatch) -> bool:
        """Run rest and surge, and wait until batch is restored. Return whether it was restored in time."""
        stage = self.stage
        number = sum(one.policy == policy for one in self.seen) + 1
        with QuotaWatch(stage.kernel) as watch:
            settled = time.monotonic() + _SETTLE_SECONDS
            began = settled + _REST_SECONDS
            ended = began + _SURGE_SECONDS
            load = await stage.workloads.load(self.port, self._stretches(), settled, f"{policy}-{number}")
            free = await self._until_free(policy, document, use, watch, began, ended)
            until = time.monotonic()
            await load.process.wait()
            if all(one.at >= began for one in watch.changes):
                self.rests.append((settled, began))
            lowered = lowered_of(watch.changes, watch.originals)
            samples = [one for one in load.samples("surge") if one.intended < ended]
            self.seen.append(SurgeSeen(policy, began, ended, until, use.between(settled, until), lowered, samples))
        self._write_result(number, use)
        return free

    async def _until_free(
        self, policy: str, document: dict[str, Any], use: UseWatch, watch: QuotaWatch, began: float, ended: float
    ) -> bool:
        """Wait for the end of the surge and until batch is restored; under all or nothing, restore it."""
        stage, last_above = self.stage, began
        line = documents.COMPARED.waterline * stage.workloads.cpus
        while time.monotonic() < ended + _FREE_PATIENCE_SECONDS:
            await asyncio.sleep(_POLL_SECONDS)
            now = time.monotonic()
            if now > ended + _SETTLE_SECONDS and watch.all_original():
                return True
            if policy != ALL_OR_NOTHING:
                continue
            if use.last_second() > line:
                last_above = now
            last_above = max(last_above, *(one.at for one in watch.changes[-1:]), began)
            if documents.is_over(now, last_above, throttled=not watch.all_original()):
                await self._apply(documents.released(document))
                await _until_original(watch)
                await self._apply(document)
        return False

    def _machine(self, use: UseWatch) -> MachineUse:
        """The demand of batch: its usage while the service was at rest, or its limits if there was no rest."""
        cpus = self.stage.workloads.cpus
        rested = [(rate(use.between(*one), *one)[1], one[1] - one[0]) for one in self.rests]
        seconds = sum(span for _, span in rested)
        wanted = sum(used * span for used, span in rested) / seconds if seconds > 0 else BATCH_SHARE * cpus
        return MachineUse(cpus, documents.COMPARED.waterline, documents.COMPARED.target, wanted)

    def _write_result(self, number: int, use: UseWatch) -> None:
        last = self.seen[-1]
        found = figures(last, self._machine(use))
        below = "never" if found.seconds_to_below is None else f"after {found.seconds_to_below:.1f} s"
        self.stage.write_line(
            f"{last.policy}, surge {number}: below the waterline {below if found.crossed else '(never above)'}, "
            f"{found.pods} of {BATCH_PODS} pods throttled, batch lost {found.lost:.1f} CPU-s, {found.needed:.1f} needed"
        )

    def _concluded(self, use: UseWatch, left_out: str) -> PolicyComparison:
        machine = self._machine(use)
        found: list[SurgeFigures] = [figures(one, machine) for one in self.seen]
        outcomes = {}
        alone = p99_ms([sample for one in self.alone for sample in one])
        for policy in (ALL_OR_NOTHING, PRECISE):
            own = [one for one in found if one.policy == policy]
            seen = [one for one in self.seen if one.policy == policy]
            samples = [sample for one in seen for sample in one.samples]
            calm = [sample for one in seen for sample in undisturbed(one.samples, one.used)]
            if own:
                outcomes[policy] = outcome(own, samples, calm)
        return PolicyComparison(
            left_out=left_out,
            waterline=documents.COMPARED.waterline,
            target=documents.COMPARED.target,
            cool_down_seconds=documents.COOL_DOWN_SECONDS,
            cpus=self.stage.workloads.cpus,
            surge_seconds=_SURGE_SECONDS,
            batch_pods=BATCH_PODS,
            batch_wanted_cpus=round(machine.wanted, 3),
            alone_p99_ms=alone,
            alone_p99_median_ms=median([p99_ms(one) for one in self.alone]),
            alone_p99_undisturbed_ms=p99_of_enough_ms(self.alone_calm),
            alone_stolen=round(self.alone_stolen, 2),
            outcomes=outcomes,
            surges=tuple(found),
        )


async def _all_live(kernel: Kernel, use: UseWatch, wanted: float) -> bool:
    """Wait until every pod runs with its limit and their total usage is close to their demand."""
    deadline = time.monotonic() + _START_PATIENCE_SECONDS
    while time.monotonic() < deadline:
        limits = kernel.batch_limits()
        now = time.monotonic()
        used = rate(use.between(now - 2.0, now), now - 2.0, now)[1]
        if len(limits) >= BATCH_PODS and None not in limits.values() and used >= 0.85 * wanted:
            return True
        await asyncio.sleep(_POLL_SECONDS)
    return False


async def _until_original(watch: QuotaWatch) -> None:
    for _ in range(100):
        if watch.all_original():
            return
        await asyncio.sleep(0.02)

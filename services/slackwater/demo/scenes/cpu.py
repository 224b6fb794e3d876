"""The scene cpu: the same surge beside greedy batch under plain sharing, tier weights alone, and Slackwater.

Weights alone are those of Slackwater, with the idle class and without quotas. Slackwater is the policy as it is
installed: while weights are in force, a quota comes only if the waterline stays crossed for long (decision 0094).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from slackwater.demo.kernel import QuotaWatch
from slackwater.demo.reaction import ObservedQuotaChange, reaction
from slackwater.demo.scenes import cpu_picture, cpu_result
from slackwater.demo.scenes.cpu_result import PLAIN, SLACKWATER, TITLES, VARIANTS, WEIGHTS, CpuScene, CpuTurn
from slackwater.demo.scenes.request_bench import RequestBench, running_bench
from slackwater.demo.scenes.result import interleaved
from slackwater.demo.scenes.scene import DemoScene, Stage, wait_until
from slackwater.demo.schedule import SURGE_LOAD
from slackwater.demo.summary import Reaction

SURGE_SECONDS: Final = 3.5
MODES: Final = {
    PLAIN: ("observe", "by-request"),
    WEIGHTS: ("observe", "by-tier-idle"),
    SLACKWATER: ("throttle", "by-tier-idle"),
}
_SETTLE_SECONDS, _BUSY_SECONDS, _BUSY_CPU_SECONDS, _RESTORE_SECONDS = 0.7, 10.0, 0.5, 8.0
LEAD_SECONDS: Final = 1.0
"""Every turn is measured after so much of its surge, so that no latency of its beginning counts."""
_PAUSE_SECONDS: Final = 10.0
_OVERHEAD_SECONDS: Final = 1.5
_ROUND_SECONDS: Final = 3 * (LEAD_SECONDS + SURGE_SECONDS + _SETTLE_SECONDS + 0.4)


@dataclass(slots=True)
class CpuTurns:
    """Runs the turns."""

    stage: Stage
    turns: list[CpuTurn] = field(default_factory=list)

    async def perform(self, turns: int) -> CpuScene:
        """Run so many turns of each variant, interleaved."""
        present = await self.stage.api.policy()
        async with running_bench(self.stage, 500 * self.stage.workloads.cpus) as bench:
            batch = await self.stage.workloads.batch()
            try:
                await self._until_busy()
                for variant in interleaved(VARIANTS, turns):
                    self.turns.append(await self._turn(bench, variant))
            finally:
                await self.stage.workloads.stop(batch)
                await self.stage.api.apply(present)
        return CpuScene(
            turns=tuple(self.turns),
            waterline=pressure_waterline(present),
            workers=self.stage.workloads.cpus,
            rounds=bench.rounds,
            request_cpu_ms=round(bench.request_cpu * 1000, 3),
            rate=round(bench.rate(SURGE_LOAD), 1),
        )

    async def _turn(self, bench: RequestBench, variant: str) -> CpuTurn:
        self.stage.narrator.write_line(f"cpu, {TITLES[variant]}")
        watch = QuotaWatch(self.stage.kernel)
        with watch:
            await self.stage.api.set_mode(*MODES[variant])
            await asyncio.sleep(_SETTLE_SECONDS)
            lead = await bench.measure("cpu-lead", f"{TITLES[variant]}, before", SURGE_LOAD, LEAD_SECONDS)
            surge = await bench.measure(f"cpu-{len(self.turns)}", TITLES[variant], SURGE_LOAD, SURGE_SECONDS)
            await self.stage.api.set_mode(*MODES[WEIGHTS])  # every turn begins without a quota, and without a backlog
            await wait_until(watch.all_original, _RESTORE_SECONDS)
            await bench.drain()
        phase = surge.phase
        self.stage.narrator.write_line(
            f"  p99 {phase.p99_ms or 0:.1f} ms, prod pressure {phase.pressure_mean or 0:.3f}, "
            f"batch {phase.batch_cpu:.2f} CPU"
        )
        pressures = bench.gauge.pressures(lead.began, surge.ended)
        line = pressure_waterline(await self.stage.api.policy()) or 1.0
        reacted = reaction(watch.changes, pressures, watch.originals, (lead.began, surge.ended), line)
        return CpuTurn(
            variant=variant,
            other=surge.other,
            phase=phase,
            quota_seconds=quota_seconds(watch.changes, watch.originals, surge.began, surge.ended),
            lead_quota_seconds=quota_seconds(watch.changes, watch.originals, lead.began, surge.began),
            reaction=reacted if variant == SLACKWATER else Reaction(),
        )

    async def _until_busy(self) -> None:
        kernel = self.stage.kernel
        await wait_until(lambda: bool(kernel.batch_limits()), _BUSY_SECONDS)
        began = kernel.read().batch_cpu
        await wait_until(lambda: kernel.read().batch_cpu - began >= _BUSY_CPU_SECONDS, _BUSY_SECONDS)


def quota_seconds(changes: list[ObservedQuotaChange], originals: Any, began: float, ended: float) -> float:
    """Returns for how many seconds of a period some pod's quota differed from its original."""
    now, lowered, total = dict(originals), None, 0.0
    for change in [*changes, ObservedQuotaChange(ended, "", None)]:
        at = min(max(change.at, began), ended)
        if lowered is not None:
            total += at - lowered
        if change.pod:
            now[change.pod] = change.limit_milli
        lowered = at if now != dict(originals) else None
    return round(total, 2)


def pressure_waterline(document: dict[str, Any]) -> float | None:
    """Returns the waterline on prod's CPU pressure in a NodeQOS document."""
    rules = document["spec"].get("rules") or []
    values = [rule["metricRule"]["value"] for rule in rules if rule["metricRule"]["name"] == "prod_cpu_pressure"]
    return float(values[0]) if values else None


async def keep_running(stage: Stage) -> None:
    """Repeat the surge beside batch under the policy in force, until cancelled."""
    async with running_bench(stage, 500 * stage.workloads.cpus) as bench:
        batch, present = await stage.workloads.batch(), await stage.api.policy()
        await wait_until(lambda: bool(stage.kernel.batch_limits()), _BUSY_SECONDS)
        stage.narrator.write_line("the surge repeats under Slackwater until Ctrl-C; ask why, or add your own job")
        with QuotaWatch(stage.kernel) as watch:
            try:
                while True:
                    await bench.measure("repeated", "Slackwater, repeated until Ctrl-C", SURGE_LOAD, SURGE_SECONDS)
                    await asyncio.sleep(_PAUSE_SECONDS)
            finally:
                try:
                    await stage.api.set_mode(*MODES[PLAIN])  # idle batch without any CPU would end too late
                    await wait_until(watch.all_original, _RESTORE_SECONDS)
                finally:
                    await stage.workloads.stop(batch)
                await stage.api.apply(present)


async def perform(stage: Stage, turns: int) -> CpuScene:
    """Runs the scene."""
    return await CpuTurns(stage).perform(turns)


CPU: Final = DemoScene(
    name="cpu",
    plan="the same surge of requests beside greedy batch: plain sharing, weights alone (idle class), and Slackwater",
    turns=2,
    seconds=lambda turns: _OVERHEAD_SECONDS + _ROUND_SECONDS * turns,
    result=CpuScene,
    perform=perform,
    report=cpu_result.report,
    picture=cpu_picture.picture,
)

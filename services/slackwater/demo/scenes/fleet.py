"""The scene fleet: what machines without writable cgroups show, a surge on every node of a simulated fleet.

Policies, decisions, limits and reports are real; the machines are a model (slackwater.agent.adapters.simulated), whose
prod demand follows the wall clock, so each turn waits for the next peak. Its figures are those of the first nodes'
reports during the peak.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import mean
from typing import Any, Final

from slackwater.agent.adapters.simulated_load import REST_SECONDS, TIDE_SECONDS
from slackwater.demo.scene import DemoScene, Promise, RunTurn, SceneVariant, Series, TurnFigure
from slackwater.demo.stage import Stage, holds_within, require
from slackwater.model.errors import Unavailable

PLAIN, SLACKWATER = "plain", "slackwater"
WATERLINE: Final = 0.035
"""Above the pressure of rest beside all of batch, 0.030: a restore that crosses it again makes later ones wait."""
MOST_TIDES, NODES_READ = 3, 3
_FLEET_SECONDS, _RESTORE_SECONDS = 60.0, 3.0 * TIDE_SECONDS


@dataclass(frozen=True, slots=True)
class FleetTurn:
    """One surge: means over the reports in it, of prod's pressure and of CPU in cores per node. `is_throttled`: some
    batch pod had its limit lowered; `is_restored`: none has afterwards. `levels` are seconds and batch's cores."""

    pressure: float
    prod_cpu: float
    batch_cpu: float
    is_throttled: bool
    is_restored: bool
    levels: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class FleetSurges:
    """Runs the turns on the nodes of these names."""

    stage: Stage
    nodes: Sequence[str]

    async def run_turn(self, variant: str) -> FleetTurn:
        """Record the next peak; under Slackwater a later one if the control plane was too busy to act in time."""
        for _ in range(1 if variant == PLAIN else MOST_TIDES):
            turn = await self._surge()
            if turn.is_throttled:
                break
        return turn

    async def _surge(self) -> FleetTurn:
        now = datetime.now(UTC)
        began = now + timedelta(seconds=(REST_SECONDS - now.timestamp() % TIDE_SECONDS) % TIDE_SECONDS)
        ended = began + timedelta(seconds=TIDE_SECONDS - REST_SECONDS)
        await asyncio.sleep((ended - now).total_seconds() + 1)
        reports = [report for reports in await self._reports(began, ended) for report in reports]
        reports = [report for report in reports if datetime.fromisoformat(report["sampled_at"]) > began]
        if not reports:
            raise Unavailable("no report of a simulated node came during the surge")
        cores = {tier: [report["tiers"][tier]["cpu_milli"] / 1000 for report in reports] for tier in ("prod", "batch")}
        seconds = [(datetime.fromisoformat(report["sampled_at"]) - began).total_seconds() for report in reports]

        async def is_restored() -> bool:
            last = [reports[-1:] for reports in await self._reports(datetime.now(UTC))]
            return not any(report["throttled_pods"] for reports in last for report in reports)

        return FleetTurn(
            pressure=round(mean(report["prod_pressure"] or 0.0 for report in reports), 4),
            prod_cpu=round(mean(cores["prod"]), 3),
            batch_cpu=round(mean(cores["batch"]), 3),
            is_throttled=any(report["throttled_pods"] for report in reports),
            is_restored=await holds_within(is_restored, _RESTORE_SECONDS),
            levels=sorted(zip(seconds, cores["batch"], strict=True)),
        )

    async def _reports(self, since: datetime, until: datetime | None = None) -> list[list[dict[str, Any]]]:
        """Returns the reports of each node in a time, oldest first, with those shortly before it."""
        span = {"since": (since - timedelta(seconds=3)).isoformat()} | ({"until": until.isoformat()} if until else {})
        return [await self.stage.api.items(f"/v1/nodes/{node}/usage", **span) for node in self.nodes]


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[RunTurn[FleetTurn]]:
    """Waits for the first report of every node."""
    nodes: dict[str, Any] = {}

    async def is_known() -> bool:
        nodes.update(await stage.api.nodes())
        return bool(nodes) and {pod["node"] for pod in await stage.api.items("/v1/pods")} >= set(nodes)

    await require(is_known, _FLEET_SECONDS, "not every simulated node reported")
    yield FleetSurges(stage, sorted(nodes)[:NODES_READ]).run_turn


_RULE: Final = {"name": "pressure", "metricRule": {"name": "prod_cpu_pressure", "value": WATERLINE}}
_AT_ONCE: Final = {"throttle": {"excessRatio": 1.0, "quotaAfterSeconds": 0}}

FLEET: Final[DemoScene[FleetTurn]] = DemoScene(
    name="fleet",
    plan="a surge on every simulated node beside greedy batch, plain and with Slackwater",
    title="fleet: the same surge on every node of a simulated fleet",
    variants=(
        SceneVariant(PLAIN, "plain sharing", {"mode": "observe", "weights": "by-request"}),
        SceneVariant(
            SLACKWATER, "Slackwater", {"mode": "throttle", "weights": "by-tier", "rules": [_RULE], **_AT_ONCE}
        ),
    ),
    compared=(PLAIN, SLACKWATER),
    columns=(
        TurnFigure("pressure", "prod stalled", lambda turn: turn.pressure, "share", 3, counted="less"),
        TurnFigure("batch_cpu", "batch uses per node", lambda turn: turn.batch_cpu, "CPU", 2),
        TurnFigure("prod_cpu", "prod uses per node", lambda turn: turn.prod_cpu, "CPU", 2),
    ),
    promises=(
        Promise("batch gets a quota in the surge", lambda turn: turn.is_throttled, (SLACKWATER,)),
        Promise("every quota is put back after the surge", lambda turn: turn.is_restored),
    ),
    series=(Series("batch uses per node, CPU", lambda turn: turn.levels),),
    opened=opened,
    setup_seconds=TIDE_SECONDS,
    round_seconds=2.0 * TIDE_SECONDS,
    driver="simulated",
    is_sequence=True,
)

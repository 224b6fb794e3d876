"""The scene fleet: what machines without writable cgroups show, a surge on every node of a simulated fleet.

Policies, decisions and limits are real; the machines are a model (slackwater.agent.adapters.simulated), whose prod
demand follows the wall clock, so each turn waits for the next peak. The limits of all pods are read from the API, and
usage, pressure and p99 are computed by the driver's model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import mean
from typing import Any, Final

from slackwater.agent.adapters.simulated import REST_SECONDS, TIDE_SECONDS, CpuClaim, Shares, prod_load, settle, surging
from slackwater.agent.domain.weights import Policy, weigh
from slackwater.demo.scene import Column, Promise, Scene, Series, TakeTurn, Variant
from slackwater.demo.stage import Stage, holds_within, require
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier

PLAIN, SLACKWATER = "plain", "slackwater"
WATERLINE: Final = 0.025
"""Above the pressure that the model gives prod alone, 0.012."""
MOST_TIDES: Final = 3
_FLEET_SECONDS, _STEP_SECONDS, _RESTORE_SECONDS = 60.0, 0.25, REST_SECONDS - 1.0


@dataclass(frozen=True, slots=True)
class FleetTurn:
    """One surge, as means over its time and the nodes: computed p99 and pressure of prod, CPU in cores. `is_throttled`:
    some batch pod had a limit in it; `is_restored`: none had one after it. `moments` are seconds and batch's cores."""

    p99_ms: float
    pressure: float
    prod_cpu: float
    batch_cpu: float
    is_throttled: bool
    is_restored: bool
    moments: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class FleetSurges:
    """Runs the turns. `nodes` are capacities in milli-cores by name."""

    stage: Stage
    nodes: Mapping[str, int]

    async def take_turn(self, variant: str) -> FleetTurn:
        """Record the next peak; under Slackwater a later one if it was too busy to act in time."""
        policy = Policy.BY_REQUEST if variant == PLAIN else Policy.BY_TIER
        for _ in range(1 if variant == PLAIN else MOST_TIDES):
            turn = await self._surge(policy)
            if turn.is_throttled:
                break
        return turn

    async def _surge(self, policy: Policy) -> FleetTurn:
        await asyncio.sleep(_seconds_to_tide(datetime.now(UTC)))
        began, moments, is_throttled = datetime.now(UTC), list[tuple[float, float]](), False
        shares: list[Shares] = []
        prod: list[float] = []
        while surging(datetime.now(UTC)):
            pods = await self.stage.api.pods()
            is_throttled = is_throttled or _is_throttled(pods)
            now = self._shares(pods, policy)
            tiers = {pod["uid"]: pod["tier"] for pod in pods}
            used = {
                tier: sum(milli for one in now for uid, milli in one.usage.items() if tiers[uid] == tier)
                for tier in ("prod", "batch")
            }
            shares, prod = [*shares, *now], [*prod, used["prod"] / len(now) / 1000]
            seconds = (datetime.now(UTC) - began).total_seconds()
            moments.append((round(seconds, 2), used["batch"] / len(now) / 1000))
            await asyncio.sleep(_STEP_SECONDS)

        async def is_restored() -> bool:
            return not _is_throttled(await self.stage.api.pods())

        return FleetTurn(
            p99_ms=round(1000 * mean(share.prod_p99_seconds for share in shares), 2),
            pressure=round(mean(share.prod_pressure for share in shares), 4),
            prod_cpu=round(mean(prod), 3),
            batch_cpu=round(mean(cores for _, cores in moments), 3),
            is_throttled=is_throttled,
            is_restored=await holds_within(is_restored, _RESTORE_SECONDS),
            moments=tuple(moments),
        )

    def _shares(self, pods: Sequence[dict[str, Any]], policy: Policy) -> list[Shares]:
        """What the driver's model makes of the limits in force, on every node."""
        now = datetime.now(UTC)
        return [
            _shares([pod for pod in pods if pod["node"] == node], policy, capacity, prod_load(number, now))
            for number, (node, capacity) in enumerate(self.nodes.items(), start=1)
        ]


def _is_throttled(pods: Sequence[dict[str, Any]]) -> bool:
    return any(pod["cpu_limit_milli"] is not None for pod in pods if pod["tier"] == "batch")


def _seconds_to_tide(now: datetime) -> float:
    return (REST_SECONDS - now.timestamp() % TIDE_SECONDS) % TIDE_SECONDS + 0.05


def _shares(items: Sequence[dict[str, Any]], policy: Policy, capacity: int, load: float) -> Shares:
    pods, limits = [_pod(item) for item in items], {item["uid"]: item["cpu_limit_milli"] for item in items}
    weights = weigh(pods, policy)
    requested = sum(pod.request.cpu_milli for pod in pods if pod.tier is Tier.PROD) or 1
    claims = [
        CpuClaim(
            pod.uid,
            pod.tier,
            load * capacity * pod.request.cpu_milli / requested if pod.tier is Tier.PROD else capacity,
            weights.pods[pod.uid],
            limits[pod.uid],
        )
        for pod in pods
    ]
    return settle(capacity, capacity // 1000, claims, weights.tiers)


def _pod(item: dict[str, Any]) -> Pod:
    return Pod(
        uid=item["uid"],
        name=item["name"],
        namespace=item["namespace"],
        workload=item["workload"],
        tier=Tier(item["tier"]),
        qos=QoSClass(item["qos"]),
        priority=item["priority"],
        request=Resources(item["request"]["cpu_milli"], item["request"]["memory_bytes"]),
        started_at=datetime.fromisoformat(item["started_at"]),
    )


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[TakeTurn[FleetTurn]]:
    """Waits for the first report of every node."""

    async def is_known() -> bool:
        nodes = await stage.api.nodes()
        return bool(nodes) and {pod["node"] for pod in await stage.api.pods()} >= set(nodes)

    await require(is_known, _FLEET_SECONDS, "not every simulated node reported")
    nodes = {name: int(facts["capacity"]["cpu_milli"]) for name, facts in (await stage.api.nodes()).items()}
    yield FleetSurges(stage, nodes).take_turn


_RULE: Final = {"name": "pressure", "metricRule": {"name": "prod_cpu_pressure", "value": WATERLINE}}

FLEET: Final[Scene[FleetTurn]] = Scene(
    name="fleet",
    plan="a surge on every simulated node beside greedy batch, plain and with Slackwater; effects are computed",
    title="fleet: the same surge on every node of a simulated fleet (computed)",
    variants=(
        Variant(PLAIN, "plain sharing", {"mode": "observe", "weights": "by-request"}),
        Variant(
            SLACKWATER,
            "Slackwater",
            {
                "mode": "throttle",
                "weights": "by-tier",
                "rules": [_RULE],
                "throttle": {"excessRatio": 1.0, "quotaAfterSeconds": 0},
            },
        ),
    ),
    compared=(PLAIN, SLACKWATER),
    columns=(
        Column("p99_ms", "prod's p99 (computed)", lambda turn: turn.p99_ms, "ms", 1, "less", is_exact=True),
        Column("pressure", "prod stalled (computed)", lambda turn: turn.pressure, "share", 3, "less", is_exact=True),
        Column("batch_cpu", "batch uses per node", lambda turn: turn.batch_cpu, "CPU", 2),
        Column("prod_cpu", "prod uses per node", lambda turn: turn.prod_cpu, "CPU", 2),
    ),
    promises=(
        Promise("batch gets a quota in the surge", lambda turn: turn.is_throttled, (SLACKWATER,)),
        Promise("every quota is put back after the surge", lambda turn: turn.is_restored),
    ),
    series=(Series("batch uses per node, CPU", lambda turn: turn.moments),),
    opened=opened,
    setup_seconds=TIDE_SECONDS,
    round_seconds=2.0 * TIDE_SECONDS,
    driver="simulated",
    is_sequence=True,
)

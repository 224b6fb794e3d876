"""The main job on machines without writable cgroups: a simulated fleet under the same loop, policies and API.

The fleet's prod demand follows the wall clock (slackwater.agent.adapters.simulated), so each phase waits for the next
peak of demand. The limits of all pods are read from the API. The effect on the service (usage, pressure, p99) is
computed by the driver's model; for the service alone, without batch.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.simulated import (
    REST_SECONDS,
    SERVICE_SECONDS,
    TIDE_SECONDS,
    CpuClaim,
    Shares,
    prod_load,
    settle,
    surging,
)
from slackwater.agent.domain.weights import Policy, weigh
from slackwater.demo import schedule, summary, table
from slackwater.demo.api import Api
from slackwater.demo.comparison import PolicyComparison
from slackwater.demo.narrator import Narrator
from slackwater.demo.reaction import ObservedQuotaChange, PressureSample, reaction
from slackwater.demo.summary import ALONE, PLAIN, SLACKWATER, WEIGHTS, Phase, Reaction, RunSummary
from slackwater.model.errors import Unavailable
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.runtime.state import Endpoint, write_atomically

_STEP_SECONDS = 0.25
_FLEET_PATIENCE_SECONDS = 30
_NOTE = "no writable cgroups: latency and pressure are computed; to measure, run as root or delegate a cgroup tree"


async def direct(endpoint: Endpoint, file: Path, seconds: int | None, scenes: Sequence[str]) -> int:
    """Run three peaks under three policies, in about a minute for any `seconds`; None: until cancelled."""
    started_at = datetime.now(UTC)
    async with Api(endpoint, started_at) as api:
        with Narrator() as narrator:
            narrator.write_line(
                f"scenes that need writable cgroups and are not shown: {', '.join(scenes)}; instead, computed: a surge "
                "on every node under plain sharing, tier weights and Slackwater"
            )
            demo = FleetDemo(api, narrator)
            before = await api.policy()
            found = await demo.perform(started_at, seconds)
            write_atomically(file, found.model_dump_json(indent=1) + "\n")
            if seconds is None:
                narrator.write_line("the simulation continues under Slackwater until Ctrl-C")
                table.show(found, table.console())
                await asyncio.Event().wait()
            await api.apply(before)
    return summary.exit_status(found.model_copy(update={"restored_exactly": True}))


@dataclass(slots=True)
class SimulatedMoment:
    """The state of the fleet at one time under the limits in force."""

    at: float
    shares: Sequence[Shares]
    tiers: Sequence[dict[str, Tier]]

    def cores(self, tier: Tier) -> float:
        """CPU cores of a tier, mean over the nodes."""
        used = [
            sum(milli for key, milli in shares.usage.items() if tiers[key] is tier)
            for shares, tiers in zip(self.shares, self.tiers, strict=True)
        ]
        return sum(used) / len(used) / 1000

    def pressure(self) -> float:
        return sum(shares.prod_pressure for shares in self.shares) / len(self.shares)

    def p99_ms(self) -> float:
        return 1000 * sum(shares.prod_p99_seconds for shares in self.shares) / len(self.shares)


@dataclass(slots=True)
class FleetDemo:
    """One run on the fleet."""

    api: Api
    narrator: Narrator
    phases: dict[str, Phase] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    """Capacity in milli-cores by node."""
    changes: list[ObservedQuotaChange] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    limits: dict[str, int | None] = field(default_factory=dict)

    async def perform(self, started_at: datetime, seconds: int | None) -> RunSummary:
        await self._fleet()
        self.narrator.write_line(f"driver: simulated, {len(self.nodes)} nodes; {_NOTE}")
        await self.api.set_mode("observe", "by-request")
        await self._surge(PLAIN, Policy.BY_REQUEST, "plain sharing: CPU weights by request, no throttling")
        line = schedule.waterline([self.phases[ALONE].pressure_mean or 0.0])
        await self.api.set_mode("observe", "by-tier", line)
        await self._surge(WEIGHTS, Policy.BY_TIER, "tier weights only, no throttling")
        await asyncio.sleep(1.5)
        await self.api.set_mode("throttle", "by-tier", line)
        reacted = await self._surge(SLACKWATER, Policy.BY_TIER, "Slackwater: tier weights and the waterline", line)
        found = RunSummary(
            driver="simulated",
            driver_note=_NOTE,
            machine={
                "node": platform.node(),
                "nodes": len(self.nodes),
                "cpus_per_node": next(iter(self.nodes.values())) / 1000,
                "load_average": list(os.getloadavg()),
            },
            started_at=started_at,
            seconds=seconds,
            workload={"request_cpu_ms": SERVICE_SECONDS * 1000},
            waterline=line,
            phases=self.phases,
            reaction=reacted,
            comparison=PolicyComparison(left_out="skipped: it needs real cgroups"),
            counts=await self.api.counts(),
            offers=await self.api.offers(),
            conclusion=summary.conclusion(self.phases),
        )
        return found.model_copy(
            update={"failures": summary.failures(found.model_copy(update={"restored_exactly": True}))}
        )

    async def _fleet(self) -> None:
        """Wait for the first report of every node."""
        for _ in range(int(_FLEET_PATIENCE_SECONDS / _STEP_SECONDS)):
            nodes = await self.api.nodes()
            self.nodes = {node["name"]: node["facts"]["capacity"]["cpu_milli"] for node in nodes if node["facts"]}
            pods = await self.api.pods()
            if self.nodes and {pod["node"] for pod in pods} >= set(self.nodes):
                return
            await asyncio.sleep(_STEP_SECONDS)
        raise Unavailable(f"not every simulated node reported within {_FLEET_PATIENCE_SECONDS} s")

    async def _surge(self, name: str, policy: Policy, doing: str, line: float | None = None) -> Reaction:
        """Wait for the peak, record it and, with a waterline, the restore after it."""
        self.narrator.write_line(doing)
        high = _next_tide(datetime.now(UTC))
        await asyncio.sleep(max(0.0, (high - datetime.now(UTC)).total_seconds()))
        began, originals = time.monotonic(), dict.fromkeys(self.limits)
        ended = began + TIDE_SECONDS - REST_SECONDS
        moments: list[SimulatedMoment] = []
        alone: list[SimulatedMoment] = []
        while surging(datetime.now(UTC)) or (line is not None and self._throttled() and not surging(datetime.now(UTC))):
            pods = await self.api.pods()
            await self._record_changes(pods, line)
            if time.monotonic() <= ended:
                moments.append(self._moment(pods, policy))
                alone.append(self._moment([pod for pod in pods if pod["tier"] == "prod"], policy))
            elif time.monotonic() > ended + REST_SECONDS - 1:
                break
            await asyncio.sleep(_STEP_SECONDS)
        self.phases[name] = _phase(name, moments)
        self.phases.setdefault(ALONE, _phase(ALONE, alone))
        found = self.phases[name]
        self.narrator.write_line(f"  p99 {found.p99_ms:.1f} ms (computed), prod pressure {found.pressure_mean:.3f}")
        pressures = [PressureSample(m.at - _STEP_SECONDS, m.at, m.pressure()) for m in moments]
        return reaction(self.changes, pressures, originals, (began, ended), line or 1.0)

    async def _record_changes(self, pods: Sequence[dict[str, Any]], line: float | None) -> None:
        """Record changed limits and print new decisions of the first node."""
        for pod in pods:
            limit = pod["cpu_limit_milli"]
            if pod["tier"] == "batch" and self.limits.get(pod["uid"]) != limit:
                self.changes.append(ObservedQuotaChange(time.monotonic(), pod["uid"], limit))
                self.limits[pod["uid"]] = limit
        for item in await self.api.decisions():
            if item["id"] not in self.seen and item["node"] == min(self.nodes):
                self.narrator.decision(item, None, line)
            self.seen.add(item["id"])

    def _throttled(self) -> bool:
        return any(limit is not None for limit in self.limits.values())

    def _moment(self, pods: Sequence[dict[str, Any]], policy: Policy) -> SimulatedMoment:
        now = datetime.now(UTC)
        by_node = [[_pod(pod) for pod in pods if pod["node"] == node] for node in self.nodes]
        limits = {pod["uid"]: pod["cpu_limit_milli"] for pod in pods}
        shares = [
            _shares(members, limits, policy, capacity, prod_load(number, now))
            for number, (members, capacity) in enumerate(zip(by_node, self.nodes.values(), strict=True), start=1)
        ]
        return SimulatedMoment(
            time.monotonic(), shares, [{pod.uid: pod.tier for pod in members} for members in by_node]
        )


def _next_tide(now: datetime) -> datetime:
    into = now.timestamp() % TIDE_SECONDS
    wait = (REST_SECONDS - into) % TIDE_SECONDS
    return now + timedelta(seconds=wait + 0.05)


def _pod(item: dict[str, Any]) -> Pod:
    request = Resources(item["request"]["cpu_milli"], item["request"]["memory_bytes"])
    started_at = datetime.fromisoformat(item["started_at"])
    return Pod(
        uid=item["uid"],
        name=item["name"],
        namespace=item["namespace"],
        workload=item["workload"],
        tier=Tier(item["tier"]),
        qos=QoSClass(item["qos"]),
        priority=item["priority"],
        request=request,
        started_at=started_at,
    )


def _shares(pods: Sequence[Pod], limits: dict[str, int | None], policy: Policy, capacity: int, load: float) -> Shares:
    """The driver's model with the limits that the API returns."""
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


def _phase(name: str, moments: Sequence[SimulatedMoment]) -> Phase:
    """A phase of means over the peak; latency percentiles come from the model and are not measured."""
    count = max(1, len(moments))
    prod = sum(moment.cores(Tier.PROD) for moment in moments) / count
    pressures = [moment.pressure() for moment in moments]
    p99 = sum(moment.p99_ms() for moment in moments) / count
    seconds = float(TIDE_SECONDS - REST_SECONDS)
    rate = prod / SERVICE_SECONDS
    return Phase(
        name=name,
        seconds=seconds,
        requests=round(rate * seconds),
        request_rate=round(rate, 1),
        p50_ms=None,
        p99_ms=round(p99, 2) if moments else None,
        errors=0,
        pressure_mean=round(sum(pressures) / count, 4),
        pressure_p90=round(max(pressures, default=0.0), 4),
        prod_cpu=round(prod, 3),
        batch_cpu=round(sum(moment.cores(Tier.BATCH) for moment in moments) / count, 3),
    )

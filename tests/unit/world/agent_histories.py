"""Seeded histories of agents alone: writers that ask for anything, machines and brokers that fail, no other service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from tests.world.campaign import prepare
from tests.world.faults import FaultKind, fault_kinds
from tests.world.history import History
from tests.world.invariants import Invariant
from tests.world.invariants.agent.evictions import EvictionsAreCarriedOutOnce
from tests.world.invariants.agent.limits import LimitsAreWanted
from tests.world.invariants.agent.restore import EveryFileReadsAsBefore
from tests.world.machine.station import Station
from tests.world.plan import Plan, PlannedFault, agents
from tests.world.processes import Process
from tests.world.run import Child, Outcome
from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.events.envelope import event_of
from slackwater.events.intent_declared import IntentDeclared, MemoryProtection, WeightPolicy
from slackwater.model.errors import Unavailable

WRITERS = ("ensurance", "migration")
OF_AGENTS: Sequence[type[Invariant]] = (EvictionsAreCarriedOutOnce, LimitsAreWanted, EveryFileReadsAsBefore)
FAULTS = (
    "crash", "stop", "freeze", "cut", "clock jump", "clock drift", "broker killed", "power of the broker fails",
    "files refuse", "pod vanishes", "foreign writer", "disk of an agent is full", "disk of an agent is read-only",
    "machine reboots",
)  # fmt: skip
MIB = 1 << 20


class Writer:
    """One writer of intents, which declares documents for any node at any time."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._rng = world.random(f"writer {name}")
        self._generations: dict[str, int] = {}
        self._evictions: dict[str, list[dict[str, Any]]] = {}
        self._number = 0

    async def run(self, process: Process) -> None:
        async with self._world.bus(process) as bus:
            while self._world.loop.time() < self._world.plan.fault_seconds:
                await process.clock.sleep(self._rng.expovariate(1 / 4.0))
                try:
                    await self._act(bus, process)
                except (Unavailable, TimeoutError):
                    await process.clock.sleep(1.0)
            await asyncio.Event().wait()

    async def _act(self, bus: Bus, process: Process) -> None:
        station = self._rng.choice(list(self._world.stations.values()))
        now = process.clock.now()
        document = self._document(station, process)
        await bus.publish(event_of(document, source=self.name, time=now))

    def _document(self, station: Station, process: Process) -> IntentDeclared:
        rng, node = self._rng, station.node
        generation = self._generations.get(node, 0) + rng.choice((0, 1, 1, 1))
        self._generations[node] = max(1, generation)
        uids = [*station.machine.pods, "gone"]
        now = process.clock.now()
        asked = self._evictions.setdefault(node, [])
        if rng.random() < 0.4:
            self._number += 1
            deadline, grace = now + timedelta(seconds=rng.choice((1, 30, 120))), rng.choice((0, 1, 10))
            item = {"id": f"{self.name}-{self._number}", "pod_uid": rng.choice(uids), "grace_seconds": grace}
            asked.append({**item, "deadline": deadline, "reason": "test", "decision_id": "d"})
        if asked and rng.random() < 0.3:
            asked.pop(0)
        throttled = [uid for uid in uids if rng.random() < 0.4]
        return IntentDeclared.model_validate(
            {
                "node": node,
                "writer": self.name,
                "generation": self._generations[node],
                "declared_at": now,
                "lease_seconds": rng.choice((0.0, 2.0, 10.0, 60.0)),
                "weights": rng.choice(list(WeightPolicy)),
                "memory_protection": rng.choice(list(MemoryProtection)),
                "throttles": [
                    {"pod_uid": uid, "cpu_limit_milli": rng.choice((0, 5, 100, 777, 99_000)), "decision_id": "d"}
                    for uid in throttled
                ],
                "memory_throttles": [
                    {"pod_uid": uid, "memory_high_bytes": rng.choice((0, 1, 100 * MIB, 1 << 40)), "decision_id": "d"}
                    for uid in throttled
                    if rng.random() < 0.5
                ],
                "evictions": list(asked),
            }
        )


class AgentWorld(History):
    """Agents, a broker and writers."""

    def watch(self, invariant: Invariant) -> None:
        if isinstance(invariant, tuple(OF_AGENTS)):
            super().watch(invariant)

    def compose(self) -> None:
        for name in WRITERS:
            self.add(name, Writer(self, name).run)
        super().compose()


def plan_of(seed: int, nodes: int = 3, seconds: float = 240.0) -> Plan:
    """The plan of a seed: most kinds of faults, often."""
    rng = Random(f"agents of {seed}")
    given = {"sample_seconds": rng.choice((1.0, 2.0)), "report_seconds": rng.choice((2.0, 10.0))}
    plan = Plan(
        seed,
        nodes=nodes,
        replicas=0,
        clients=0,
        fault_seconds=seconds * 0.7,
        quiet_seconds=seconds * 0.25,
        rest_seconds=seconds * 0.05,
        settings={"agent": given},
    )
    kinds = [fault_kinds()[name] for name in FAULTS if rng.random() < 0.6]
    faults = [_fault(rng, plan, kind) for kind in kinds for _ in range(rng.choice((1, 3, 6)))]
    return Plan(**{**_fields(plan), "faults": tuple(sorted(faults, key=lambda fault: fault.at))})


def _fault(rng: Random, plan: Plan, kind: FaultKind) -> PlannedFault:
    seconds = rng.uniform(kind.seconds[0], min(kind.seconds[1], 40.0))
    at = rng.uniform(5.0, plan.fault_seconds - seconds)
    targets = [target for target in kind.targets(plan) if target in agents(plan) or "broker" in target]
    return PlannedFault(kind.name, rng.choice(targets), at, seconds, rng.uniform(*kind.amount))


def _fields(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in Plan.__slots__}


def perform_agents(plan: Plan) -> Outcome:
    """As tests.world.run.perform, with agents alone."""
    from tests.world import run

    whole, run.History = run.History, AgentWorld  # type: ignore[misc] # in a process that ends with the run
    try:
        return run.perform(plan)
    finally:
        run.History = whole  # type: ignore[misc]


def main(first: int, last: int) -> None:
    """Print seed, hash and result of each history, each performed in a forked process."""
    prepare()
    for seed in range(first, last):
        outcome = Child(partial(perform_agents, plan_of(seed))).result()
        sys.stdout.write(f"{seed} {outcome.digest} {outcome.failure or 'holds'}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

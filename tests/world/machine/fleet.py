"""Machines of a run by seed, and the pods on them: owners first, then batch pods that keep to what is offered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from random import Random

from tests.world.machine.load import draw_load
from tests.world.machine.machine import Hardware, Machine

from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier, default_qos

_GIB = 1 << 30
_MIB = 1 << 20
WORKLOADS = ("quotes", "orders", "search", "cart")
JOBS = ("crunch", "index", "train")


@dataclass(frozen=True, slots=True)
class FleetSizes:
    """How many pods, and how restless they are. Surges and ends of pods lie within `horizon_seconds` of their start."""

    prod: tuple[int, int] = (1, 3)
    batch: tuple[int, int] = (0, 3)
    churn_seconds: float = 60.0
    horizon_seconds: float = 600.0


def draw_sizes(rng: Random) -> FleetSizes:
    """Sizes by seed; small ones are frequent, because they are fast and find as much. The length of the plan has no
    part in them, so that a shorter plan keeps the history of its machines."""
    prod, batch = (1, rng.choice((1, 2, 4))), (0, rng.choice((1, 3, 6)))
    return FleetSizes(prod, batch, rng.choice((15.0, 60.0, 300.0)), rng.choice((150.0, 300.0, 600.0)))


def draw_hardware(rng: Random) -> Hardware:
    """Small machines with little memory are frequent, because something happens on them."""
    cpus = rng.choice((2, 4, 8))
    return Hardware(
        cpus,
        memory_bytes=cpus * rng.choice((_GIB // 2, _GIB, 4 * _GIB)),
        pure_v2=rng.random() < 0.6,
        system_milli=rng.choice((50, 200)),
        neighbour_pressure=rng.choice((0.3, 0.8, 2.0)),
        system_bytes=rng.choice((_GIB // 8, _GIB // 4)),
    )


@dataclass(slots=True)
class Workload:
    """Starts and ends the pods of one machine, as their owners and a scheduler would.

    `offered` returns the newest offer of the node that a client of the stream has read; batch pods are placed within
    it, so a node without an offer gets none after the first ones.
    """

    machine: Machine
    rng: Random
    sizes: FleetSizes
    offered: Callable[[], ResourcesOffered | None] = lambda: None
    started: int = 0
    placed: dict[str, Resources] = field(default_factory=dict)
    return_seconds: float = 0.0
    """From the end of an evicted pod to the start of another one in its place; 0: none takes its place."""
    is_quiet: bool = False
    """The faults are over: nothing starts or ends any more."""

    def begin(self) -> None:
        """The pods that run when the agent first looks."""
        for _ in range(self.rng.randint(*self.sizes.prod)):
            self.start(Tier.PROD, self.rng.choice(WORKLOADS), self._prod_request())
        for _ in range(self.rng.randint(*self.sizes.batch)):
            self.start(Tier.BATCH, self.rng.choice(JOBS), self._batch_request())
        if self.rng.random() < 0.2:
            self.start(Tier.BATCH, "keeper", self._batch_request(), qos=QoSClass.SYSTEM)

    async def run(self) -> None:
        """Churn until cancelled."""
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / self.sizes.churn_seconds))
            if not self.is_quiet:
                self.change()

    def change(self) -> None:
        """One thing that an owner or a scheduler does."""
        draw = self.rng.random()
        if draw < 0.6:
            self.place_batch()
        elif draw < 0.8 and (ours := self._uids(Tier.BATCH)):
            self.machine.end(self.rng.choice(ours))
        elif draw < 0.9 and len(prod := self._uids(Tier.PROD)) > 1:
            self.machine.end(self.rng.choice(prod))
        elif len(self._uids(Tier.PROD)) < self.sizes.prod[1]:
            self.start(Tier.PROD, self.rng.choice(WORKLOADS), self._prod_request())

    def place_batch(self) -> bool:
        """Start a batch pod if the offer has room beside those that run."""
        offer, request = self.offered(), self._batch_request()
        if offer is None:
            return False
        running = [running.pod.request for running in self.machine.running() if running.pod.tier is Tier.BATCH]
        cpu = sum(one.cpu_milli for one in running) + request.cpu_milli
        memory = sum(one.memory_bytes for one in running) + request.memory_bytes
        if cpu > offer.batch.cpu_milli or memory > offer.batch.memory_bytes:
            return False
        self.start(Tier.BATCH, self.rng.choice(JOBS), request)
        return True

    def replace_evicted(self, pod: Pod) -> None:
        """The controller of an evicted pod makes another one. A scheduler finds the room that the first one left."""
        if self.return_seconds:
            loop, context = asyncio.get_running_loop(), Context()  # not that of the agent that sent the signal
            loop.call_later(self.return_seconds, self._start_again, pod, context=context)

    def _start_again(self, pod: Pod) -> None:
        if not self.is_quiet:
            self.start(pod.tier, pod.workload, pod.request, pod.qos)

    def start(self, tier: Tier, workload: str, request: Resources, qos: QoSClass | None = None) -> Pod:
        self.started += 1
        machine = self.machine
        uid = f"{machine.name}-b{machine.boots}-{workload}-{self.started}"
        kind = qos or default_qos(tier)
        pod = Pod(uid, uid, "default", workload, tier, kind, DEFAULT_PRIORITY[tier], request, machine.clock.now())
        now = machine.time()
        machine.start(
            pod, draw_load(self.rng, tier, request.cpu_milli, request.memory_bytes, now, self.sizes.horizon_seconds)
        )
        return pod

    def _uids(self, tier: Tier) -> list[str]:
        return [one.pod.uid for one in self.machine.running() if one.pod.tier is tier]

    def _prod_request(self) -> Resources:
        hardware = self.machine.hardware
        share = self.rng.uniform(0.2, 0.7) / max(1, self.sizes.prod[1])
        return Resources(
            max(100, int(hardware.cpus * 1000 * share)), max(64 * _MIB, int(hardware.memory_bytes * share))
        )

    def _batch_request(self) -> Resources:
        hardware = self.machine.hardware
        return Resources(
            self.rng.choice((100, 500, hardware.cpus * 250)),
            self.rng.choice((64 * _MIB, hardware.memory_bytes // 16, hardware.memory_bytes // 5)),
        )


def offers_read(newest: Mapping[str, ResourcesOffered], node: str) -> Callable[[], ResourcesOffered | None]:
    """The offer of one node among those a client has read."""
    return lambda: newest.get(node)


def fleet_of(machines: Sequence[Machine], rng: Random, sizes: FleetSizes) -> list[Workload]:
    """A workload for each machine, its pods started."""
    workloads = [Workload(machine, Random(f"{machine.name} of {rng.random()}"), sizes) for machine in machines]
    for workload in workloads:
        workload.begin()
    return workloads

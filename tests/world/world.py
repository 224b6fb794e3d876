"""The world of one run: servers, replicas, agents, clients and operators on one loop, all from one plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.world.changes import apply_change
from tests.world.clients import Client
from tests.world.clocks import HostClock
from tests.world.faults import BROKER, POSTGRES, SERVICES, agents, fault_kinds, replicas
from tests.world.invariants import Invariant, Violation, all_invariants
from tests.world.loop import sim_loop
from tests.world.machine.fleet import draw_sizes
from tests.world.machine.station import Station, settings_of
from tests.world.machine_record import recorded
from tests.world.network import Network, Server
from tests.world.plan import Plan, PlannedChange, PlannedFault
from tests.world.processes import Process, State
from tests.world.servers import WorldBroker, WorldPostgres
from tests.world.trace import Kind, Trace

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.colocation.service import build as build_colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.ensurance.service import build as build_ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ingestion.service import build as build_ingestion
from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.errors import Misconfigured, SlackwaterError
from slackwater.prediction.service import build as build_prediction
from slackwater.prediction.settings import PredictionSettings
from slackwater.resources.catalog import kind_named
from slackwater.runtime.ownership import Timing
from slackwater.runtime.platform import Platform
from slackwater.store.port import Database
from slackwater.testing.jetstream.client import connect_memory_bus
from slackwater.testing.postgres_twin.database import twin_database

BUS_TIMEOUT_SECONDS, DATABASE_TIMEOUT_SECONDS = 2.0, 5.0
PACE_SECONDS, MOST_STEPS_A_SECOND = 10.0, 5000
RESTART_SECONDS = (1.0, 5.0)
"""Pause before a process that has ended by itself starts again, as a supervisor makes it."""
BUILDS: Mapping[str, tuple[Callable[[Any, Platform], Any], type[Any]]] = {
    "ingestion": (build_ingestion, IngestionSettings),
    "prediction": (build_prediction, PredictionSettings),
    "colocation": (build_colocation, ColocationSettings),
    "ensurance": (build_ensurance, EnsuranceSettings),
}
NOWHERE = Path("/nowhere")


def no_database(service: str) -> Database:
    raise Misconfigured(f"an agent asked for the database of {service}")


@dataclass(slots=True)
class Place:
    """Where a process runs, through all its incarnations."""

    name: str
    clock: HostClock
    main: Callable[[Process], Any]
    process: Process | None = None
    task: asyncio.Task[Any] | None = None
    incarnations: int = 0
    is_wanted: bool = True
    service: Any = None
    """What the composition root of a replica has built; None before its first start."""


class World:
    """`run` performs the plan. `failure` is then the first violation, or empty."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.plan = plan
        self.trace = trace
        self.loop = sim_loop(self.random("order"), in_order=plan.in_order)
        self.network = Network(self.loop, self.random("network"))
        self.network.delay_seconds, self.network.spread_seconds = plan.delay_seconds, plan.spread_seconds
        self.network.reorders = plan.reorders
        self.faults: dict[str, int] = {}
        """Faults begun so far, by kind."""
        self.places: dict[str, Place] = {}
        self.stations: dict[str, Station] = {}
        """The machines, by the name of the agent's process."""
        self._last_step: int | None = None
        self._restarts = self.random("restarts")
        self._operators = self.random("operators")
        self._clocks: dict[str, HostClock] = {}
        self._bus_server = Server(BROKER, BUS_TIMEOUT_SECONDS)
        self._database_server = Server(POSTGRES, DATABASE_TIMEOUT_SECONDS)
        self.broker = WorldBroker(self.clock_of(BROKER), self.record)
        self.postgres = WorldPostgres(self.clock_of(POSTGRES), self.record)
        self.clients = [Client(self, f"client-{number}") for number in range(plan.clients)]
        self.failed_step = 0
        """Of the record: that of the first violation; 0 if none, or at rest."""
        self.invariants: list[Invariant] = []
        for invariant in all_invariants():
            self.watch(invariant(self))

    def random(self, purpose: str) -> Random:
        """A random source of its own: what one part draws does not change what another one does."""
        return Random(f"{purpose} of {self.plan.seed}")

    def watch(self, invariant: Invariant) -> None:
        """Check an invariant from now on."""
        self.invariants.append(invariant)

        def check(step: Any) -> None:
            try:
                invariant.on_step(step)
            except Violation as violation:
                self.failed_step = self.failed_step or step.n
                self.loop.fail(f"{invariant.NAME}: {violation}", violation)

        for kind in invariant.KINDS:
            self.trace.listen(kind, check)

    def record(self, kind: Kind, subject: str, **more: Any) -> None:
        """Append a step of the process that runs now."""
        process = self.loop.current
        self.trace.add(self.loop.time(), "" if process is None else process.name, kind, subject, **more)
        if self._last_step is not None and self.trace.count >= self._last_step:
            self.loop.stop()

    def wall_seconds(self) -> float:
        """The wall clock of the process that runs now."""
        process = self.loop.current
        return (self._clocks[BROKER] if process is None else process.clock).seconds()

    def clock_of(self, host: str) -> HostClock:
        """The clock of the machine of a process or a server."""
        if host not in self._clocks:
            offset, rate = self.plan.clock_offsets.get(host, 0.0), self.plan.clock_rates.get(host, 1.0)
            self._clocks[host] = HostClock(self.loop, offset, rate)
        return self._clocks[host]

    # processes

    def add(self, name: str, main: Callable[[Process], Any]) -> None:
        """Start a process that is restarted whenever it ends."""
        self.places[name] = Place(name, self.clock_of(name), main)
        self.start(name)

    def start(self, name: str) -> None:
        """Start a process, unless it runs."""
        place = self.places[name]
        if place.process is not None and place.process.state is not State.DEAD:
            return
        place.incarnations += 1
        process = place.process = Process(self.loop, name, place.incarnations, place.clock)
        self.record(Kind.STARTED, process.member)
        place.task = process.start(self._life(place, process))

    async def _life(self, place: Place, process: Process) -> None:
        why = "stopped"
        try:
            await place.main(process)
        except asyncio.CancelledError:
            pass
        except SlackwaterError as error:
            why = f"{type(error).__name__}: {error.message}"
        except Exception as error:  # noqa: BLE001 - it fails the run
            self.loop.fail("a process ended with an exception that it does not declare", error)
        self.record(Kind.STOPPED, process.member, detail={"why": why})
        process.ended()
        if place.is_wanted and why != "stopped":
            self._restart_later(place, self._restarts.uniform(*RESTART_SECONDS))

    def _restart_later(self, place: Place, seconds: float) -> None:
        self.loop.call_later(seconds, self.start, place.name, context=Context())  # not that of the dead process

    def crash(self, name: str, restart_after: float) -> None:
        """Kill a process at whatever it waits for."""
        place = self.places[name]
        if place.process is None or place.process.state is State.DEAD:
            return
        self.record(Kind.CRASHED, place.process.member)
        place.process.crash()
        self._restart_later(place, restart_after)

    def stop(self, name: str, restart_after: float) -> None:
        """Stop a process in order, and start it again."""
        place = self.places[name]
        if place.task is None or place.process is None or not place.process.is_running:
            return
        place.task.cancel()
        place.task.add_done_callback(lambda _: self._restart_later(place, restart_after), context=Context())

    def freeze(self, name: str) -> None:
        place = self.places[name]
        if place.process is not None and place.process.is_running:
            self.record(Kind.FROZEN, place.process.member)
            place.process.freeze()

    def resume(self, name: str) -> None:
        place = self.places[name]
        if place.process is not None and place.process.state is State.FROZEN:
            self.record(Kind.RESUMED, place.process.member)
            place.process.resume()

    def queues(self) -> Mapping[str, int]:
        """What waits: by outbox, and by consumer of the services that run."""
        waiting = {f"outbox of {name}": len(self.postgres.schemas[name].tables["outbox"].rows) for name in SERVICES}
        for name, count in self.broker.waiting().items():
            if name.startswith(SERVICES):
                waiting[f"consumer {name}"] = count
        return waiting

    # composition

    def _replica(self, service: str) -> Callable[[Process], Any]:
        build, settings = BUILDS[service]
        given = settings(**self.plan.settings.get(service, {}))
        timing = Timing(**self.plan.settings.get("ownership", {}))

        async def main(process: Process) -> None:
            databases = self._databases(process)
            async with self.bus(process) as bus:
                platform = Platform(bus, process.clock, databases, NOWHERE, process.member, timing)
                place = self.places[process.name]
                place.service = built = build(given, platform)
                await built.run(lambda: None)

        return main

    def bus(self, process: Process, *, declares: bool = True) -> AbstractAsyncContextManager[NatsBus]:
        """The bus of a process, on its own connection to the broker."""
        link = self.network.link(process, self._bus_server)
        return connect_memory_bus(self.broker, name=process.name, link=link, declares=declares, clock=process.clock)

    def _databases(self, process: Process) -> Callable[[str], Database]:
        link = self.network.link(process, self._database_server)
        process.on_death(lambda: self.postgres.abandon_process(process.member, 0.0))

        def database(service: str) -> Database:
            return twin_database(self.postgres, service, process.clock, link=link, process=process.member)

        return database

    def _agent(self, name: str, number: int) -> Callable[[Process], Any]:
        node = f"node-{number:02d}"
        given = settings_of(node, dict(self.plan.settings.get("agent", {})))
        rng = self.random(f"machine {node}")
        station = Station(node, self.loop.time, self.clock_of(name), rng, draw_sizes(rng, self.plan.seconds))
        self.stations[name] = recorded(self, station)

        async def main(process: Process) -> None:
            process.on_death(station.agent_died)
            async with self.bus(process, declares=False) as bus:
                platform = Platform(bus, process.clock, no_database, NOWHERE, process.member)
                await station.agent(given, platform).run(lambda: None)

        return main

    def _rest_of_machines(self) -> None:
        for station in self.stations.values():
            station.rest()

    def compose(self) -> None:
        """Start everything that the plan names."""
        for name in replicas(self.plan):
            self.add(name, self._replica(name.rpartition("-")[0]))
        for number, name in enumerate(agents(self.plan)):
            self.add(name, self._agent(name, number))
        for client in self.clients:
            self.add(client.name, client.run)
        for station in self.stations.values():
            self.loop.create_task(station.workload.run())

    # the run

    def run(self, last_step: int | None = None) -> None:
        """Perform the plan, or its beginning up to a step of the record. Raises Failed at the first violation."""
        plan = self.plan
        self._last_step = last_step
        self.compose()
        for fault in plan.faults:
            self.loop.call_at(fault.at, self._begin, fault)
        for change in plan.changes:
            self.loop.call_at(change.at, self._change, change)
        self.record(Kind.PHASE, "faults")
        self.loop.call_at(PACE_SECONDS, self._check_pace, 0)
        self.loop.call_at(plan.fault_seconds, self.record, Kind.PHASE, "quiet")
        self.loop.call_at(plan.fault_seconds, self._rest_of_machines)
        self.loop.call_at(plan.fault_seconds + plan.quiet_seconds, self.record, Kind.PHASE, "rest")
        self.loop.run(plan.seconds)
        for place in self.places.values():
            if place.process is not None and place.process.is_running:
                place.process.release_done()
        self.loop.raise_failure()
        if last_step is None:
            self._check_at_rest()
        self._fold_rows()

    def _check_pace(self, before: int) -> None:
        """Fail a run in which something works without a pause."""
        steps = self.loop.steps - before
        if steps > MOST_STEPS_A_SECOND * PACE_SECONDS:
            self.loop.fail(f"no busy loop: {steps} callbacks within {PACE_SECONDS:g} virtual seconds")
        self.loop.call_later(PACE_SECONDS, self._check_pace, self.loop.steps)

    def _change(self, planned: PlannedChange) -> None:
        """Let a replica of the kind's service do a change, if one runs."""
        service = kind_named(planned.kind).service
        running = [
            place
            for name, place in self.places.items()
            if name.startswith(service) and place.service is not None and place.process and place.process.is_running
        ]
        if running:
            place = self._operators.choice(running)
            assert place.process is not None
            place.process.start(apply_change(self, place.service.changes, planned), "operator")

    def _begin(self, fault: PlannedFault) -> None:
        kind = fault_kinds()[fault.kind]
        self.faults[fault.kind] = self.faults.get(fault.kind, 0) + 1
        detail = {"target": fault.target, "seconds": round(fault.seconds, 3), "amount": round(fault.amount, 3)}
        self.record(Kind.FAULT_BEGAN, fault.kind, detail=detail)
        kind.begin(self, fault)
        self.loop.call_later(fault.seconds, self._end, fault)

    def _end(self, fault: PlannedFault) -> None:
        fault_kinds()[fault.kind].end(self, fault)
        self.record(Kind.FAULT_ENDED, fault.kind, detail={"target": fault.target})

    def _check_at_rest(self) -> None:
        for invariant in self.invariants:
            try:
                invariant.at_rest()
            except Violation as violation:
                self.loop.fail(f"{invariant.NAME} (at rest): {violation}", violation)
        self.loop.raise_failure()

    def _fold_rows(self) -> None:
        """The rows of every table, in the order of their insertion."""
        for service, schema in self.postgres.schemas.items():
            for name, table in schema.tables.items():
                self.trace.fold(repr([service, name, *table.committed()]).encode())

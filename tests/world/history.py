"""One history: a plan performed in a world, with its faults, changes, clients, machines and invariants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.world import versions
from tests.world.arrivals import Arrivals
from tests.world.changes import apply_change
from tests.world.claimers import Claimer
from tests.world.clients import Client
from tests.world.consoles import StreamReader, build_console, consoles
from tests.world.eager_operators import EagerOperators
from tests.world.faults import ROLLED, fault_kinds
from tests.world.invariants import Invariant, Violation, invariants_of
from tests.world.invariants.payloads import note_roster
from tests.world.job_operators import JobOperators
from tests.world.kept_rooms import KEEPS_ROOM
from tests.world.machine.fleet import draw_sizes
from tests.world.machine.station import Station, settings_of
from tests.world.machine_record import recorded
from tests.world.move_fleet import MoveFleet
from tests.world.move_habits import PAUSES
from tests.world.move_mishaps import MoveMishaps, RoundPauses
from tests.world.plan import CONSOLE, Plan, PlannedChange, PlannedFault, agents, replicas
from tests.world.processes import Process
from tests.world.quota_habits import EAGER
from tests.world.scripted_fleet import FLEET, ScriptedFleet
from tests.world.trace import Kind, Trace
from tests.world.world import NOWHERE, STOP_SECONDS, World

from slackwater.console.settings import ConsoleSettings
from slackwater.model.errors import Misconfigured
from slackwater.resources.catalog import kind_named
from slackwater.runtime.platform import Platform
from slackwater.store.port import Database

PACE_SECONDS, MOST_STEPS_A_SECOND = 10.0, 5000


def no_database(service: str) -> Database:
    raise Misconfigured(f"an agent asked for the database of {service}")


class History(World):
    """`run` performs the plan."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        super().__init__(plan, trace)
        self.faults: dict[str, int] = {}
        """Faults begun so far, by kind."""
        self._operators = self.random("operators")
        self.clients = [Client(self, f"client-{number}") for number in range(plan.clients)]
        self.stream_readers = [StreamReader(self, f"reader-{number}") for number in range(plan.consoles)]
        self.claimers = [Claimer(self, f"claimer-{number}") for number in range(plan.claimers)]
        self.moved = MoveFleet(self) if plan.move_nodes else None
        """The fleet of a world of moves."""
        if self.moved is not None:
            self.machines = self.moved.machines
            JobOperators(self, self.moved)
            if self.moved.files is not None:
                MoveMishaps(self, self.moved.files, self._begin)
            if KEEPS_ROOM in plan.habits:
                Arrivals(self, self.moved)
            if PAUSES in plan.habits:
                RoundPauses(self, self._begin)
        if EAGER in plan.habits:
            EagerOperators(self)
        self.failed_step = 0
        """Of the record: that of the first violation; 0 if none, or at rest."""
        self.trace.listen(Kind.STORED, note_roster)
        self.invariants: list[Invariant] = []
        for invariant in invariants_of(plan):
            self.watch(invariant(self))

    def watch(self, invariant: Invariant) -> None:
        """Check an invariant from now on."""
        self.invariants.append(invariant)

        def check(step: Any) -> None:
            try:
                invariant.on_step(step)
            except Violation as violation:
                self.failed_step = self.failed_step or step.n
                self.loop.fail(f"{invariant.NAME}: {violation}", violation)
            except Exception as error:  # noqa: BLE001 - else what made the step would take it for its own failure
                self.loop.fail(f"{invariant.NAME} fails itself: {error!r}", error)

        for kind in invariant.KINDS:
            self.trace.listen(kind, check)

    def compose(self) -> None:
        """Start everything that the plan names."""
        for name in replicas(self.plan):
            self.add(name, self.replica(name.rpartition("-")[0]))
        for number, name in enumerate(agents(self.plan)):
            self.add(name, self._agent(name, number))
        for client in self.clients:
            self.add(client.name, client.run)
        for claimer in self.claimers:
            self.add(claimer.name, claimer.run)
        if self.plan.scripted_nodes:
            self.add(FLEET, ScriptedFleet(self).run)
        if self.moved is not None:
            self._compose_moves(self.moved)
        for name in consoles(self.plan):
            self.add(name, self.replica(CONSOLE))
        for reader in self.stream_readers:
            self.add(reader.name, reader.run)
        for station in self.stations.values():
            self.loop.create_task(station.workload.run())

    def _compose_moves(self, fleet: MoveFleet) -> None:
        self.add(FLEET, fleet.run)
        fleet.compose(self.clock_of(FLEET).now())
        for name, machine in self.machines.items():
            self.add(name, machine.run)

    def _agent(self, name: str, number: int) -> Callable[[Process], Any]:
        node = f"node-{number:02d}"
        given = settings_of(node, dict(self.plan.settings.get("agent", {})))
        rng = self.random(f"machine {node}")
        station = Station(node, self.loop.time, self.clock_of(name), rng, draw_sizes(rng))
        station.workload.return_seconds = self.plan.return_seconds
        self.stations[name] = recorded(self, station)

        async def main(process: Process) -> None:
            process.on_death(station.agent_died)
            async with self.bus(process) as bus:
                platform = Platform(bus, process.clock, no_database, NOWHERE, process.member)
                await station.agent(given, platform).run(lambda: None)

        return main

    def _build(self, service: str) -> tuple[Callable[[Any, Platform], Any], type[Any]]:
        if service == CONSOLE:
            return build_console(self.console_model), ConsoleSettings
        return super()._build(service)

    def _rest(self) -> None:
        """End what faults left for later: answers of commits that would be lost while there are none to commit."""
        self.postgres.lost_answers = 0
        for station in self.stations.values():
            station.rest()

    def run(self, last_step: int | None = None) -> None:
        """Perform the plan, or its beginning up to a step of the record. Raises Failed at the first violation."""
        plan = self.plan
        self._last_step = last_step
        if any(fault.kind == ROLLED.name for fault in plan.faults):
            versions.install()
        self.compose()
        for fault in plan.faults:
            self.loop.call_at(fault.at, self._begin, fault)
        for change in plan.changes:
            self.loop.call_at(change.at, self.change, change)
        self.record(Kind.PHASE, "faults")
        self.loop.call_at(PACE_SECONDS, self._check_pace, 0)
        self.loop.call_at(plan.fault_seconds, self.record, Kind.PHASE, "quiet")
        self.loop.call_at(plan.fault_seconds, self._rest)
        self.loop.call_at(plan.fault_seconds + plan.quiet_seconds, self.record, Kind.PHASE, "rest")
        self.loop.run(plan.seconds)
        for place in self.places.values():
            if place.process is not None and place.process.is_running:
                place.process.release_done()
        self.loop.raise_failure()
        if last_step is None:
            self._check_at_rest()
            self._stop_agents()
        self._fold_rows()

    def _check_pace(self, before: int) -> None:
        """Fail a run in which something works without a pause."""
        steps = self.loop.steps - before
        if steps > MOST_STEPS_A_SECOND * PACE_SECONDS:
            self.loop.fail(f"no busy loop: {steps} callbacks within {PACE_SECONDS:g} virtual seconds")
        self.loop.call_later(PACE_SECONDS, self._check_pace, self.loop.steps)

    def change(self, planned: PlannedChange) -> None:
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

    def _stop_agents(self) -> None:
        """Stop every agent in order, so that what each leaves on its machine is checked. Raises Failed."""
        self.record(Kind.PHASE, "end")
        for name in self.stations:
            place = self.places[name]
            if place.task is not None and place.process is not None and place.process.is_running:
                place.is_wanted = False
                place.task.cancel()
        self.loop.run(self.plan.seconds + STOP_SECONDS)

    def _fold_rows(self) -> None:
        """The rows of every table, in the order of their insertion."""
        for service, schema in self.postgres.schemas.items():
            for name, table in schema.tables.items():
                self.trace.fold(repr([service, name, *table.committed()]).encode())

"""The world of one run: servers, clocks, links and processes on one loop, from one plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

from tests.support.console.read_model import MemoryReadModel
from tests.support.jetstream.client import connect_memory_bus
from tests.support.postgres_twin.database import twin_database
from tests.world.clocks import HostClock
from tests.world.loop import sim_loop
from tests.world.machine.station import Station
from tests.world.network import Network, Server
from tests.world.plan import (
    BROKER,
    CONSOLE,
    DESCHEDULER,
    MIGRATION,
    POSTGRES,
    QUOTA,
    SERVICES,
    Plan,
    PlannedChange,
    outboxes,
    services_of,
)
from tests.world.processes import Process, State
from tests.world.servers import WorldBroker, WorldPostgres
from tests.world.trace import NOTHING, Kind, Trace

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.colocation.service import build as build_colocation
from slackwater.colocation.settings import ColocationSettings
from slackwater.descheduler.service import build as build_descheduler
from slackwater.descheduler.settings import DeschedulerSettings
from slackwater.ensurance.service import build as build_ensurance
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.ingestion.service import build as build_ingestion
from slackwater.ingestion.settings import IngestionSettings
from slackwater.migration.service import build as build_migration
from slackwater.migration.settings import MigrationSettings
from slackwater.model.errors import SlackwaterError
from slackwater.prediction.service import build as build_prediction
from slackwater.prediction.settings import PredictionSettings
from slackwater.quota.service import build as build_quota
from slackwater.quota.settings import QuotaSettings
from slackwater.runtime.ownership import Timing
from slackwater.runtime.platform import Platform
from slackwater.store.port import Database

BUS_TIMEOUT_SECONDS, DATABASE_TIMEOUT_SECONDS = 2.0, 5.0
RESTART_SECONDS = (1.0, 5.0)
"""Pause before a process that has ended by itself starts again, as a supervisor makes it."""
BUILDS: Mapping[str, tuple[Callable[[Any, Platform], Any], type[Any]]] = {
    "ingestion": (build_ingestion, IngestionSettings),
    "prediction": (build_prediction, PredictionSettings),
    "colocation": (build_colocation, ColocationSettings),
    "ensurance": (build_ensurance, EnsuranceSettings),
    QUOTA: (build_quota, QuotaSettings),
    DESCHEDULER: (build_descheduler, DeschedulerSettings),
    MIGRATION: (build_migration, MigrationSettings),
}
REPLACED_SECONDS = 0.5
"""From the end of a process to the start of another version in its place."""
OLDER: Mapping[str, Any] = MappingProxyType({"version": "older"})
STOP_SECONDS = 10.0
"""So long an agent may take to give everything back."""
ENDS_AS_DECLARED = "processes end as declared"
"""An invariant of the world itself: a process ends with an error of its own kinds, or in order."""
NOWHERE = Path("/nowhere")


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
    is_older: bool = False
    """Whether it starts next as the version before this one."""
    service: Any = None
    """What the composition root of a replica has built; None before its first start."""
    served_by: Process | None = None
    """The process that has built it."""

    @property
    def is_serving(self) -> bool:
        """Whether the service of the process that runs now has been built: before, that of a dead process is here."""
        return self.process is not None and self.process.is_running and self.served_by is self.process


def settings_from(model: Any, values: Mapping[str, Any]) -> Any:
    """Validated settings of these values alone: their constructor looks at the environment too."""
    return model.__pydantic_validator__.validate_python(dict(values), self_instance=model.__new__(model))


class World:
    """Servers, machines and processes on one loop. tests.world.history performs a plan in it."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.plan = plan
        self.trace = trace
        self.loop = sim_loop(self.random("order"), in_order=plan.in_order)
        self.network = Network(self.loop, self.random("network"))
        self.network.delay_seconds, self.network.spread_seconds = plan.delay_seconds, plan.spread_seconds
        self.network.reorders = plan.reorders
        self.places: dict[str, Place] = {}
        self.stations: dict[str, Station] = {}
        """The machines, by the name of the agent's process."""
        self.machines: dict[str, Any] = {}
        """Those of a world of moves (tests.world.move_machines)."""
        self.console_model = MemoryReadModel()
        """The read model of the console, if the plan has one."""
        self.stream_readers: Sequence[Any] = ()
        self.changes = list(plan.changes)
        """What operators ask for, with what they add to the plan."""
        self._last_step: int | None = None
        self._restarts = self.random("restarts")
        self._clocks: dict[str, HostClock] = {}
        self._bus_server = Server(BROKER, BUS_TIMEOUT_SECONDS)
        self._database_server = Server(POSTGRES, DATABASE_TIMEOUT_SECONDS)
        self.broker = WorldBroker(self.clock_of(BROKER), self.record)
        self.postgres = WorldPostgres(self.clock_of(POSTGRES), self.record, outboxes(plan))

    def random(self, purpose: str) -> Random:
        """A random source of its own: what one part draws does not change what another one does."""
        return Random(f"{purpose} of {self.plan.seed}")

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
        process.is_older = place.is_older
        self.record(Kind.STARTED, process.member, detail=OLDER if place.is_older else NOTHING)
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
            if process.state is State.DEAD:  # killed in the middle of its work
                return
            self.loop.fail(f"{ENDS_AS_DECLARED}: {place.name} ended with {type(error).__name__}", error)
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

    def replace(self, name: str, *, is_older: bool, kills: bool) -> None:
        """End a process, and start it as another version; one that is dead now starts as this version next."""
        place = self.places[name]
        place.is_older = is_older
        if kills or (place.process is not None and place.process.state is State.FROZEN):
            self.crash(name, restart_after=REPLACED_SECONDS)
        else:
            self.stop(name, restart_after=REPLACED_SECONDS)

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
        waiting = {
            f"outbox of {name}": len(self.postgres.schemas[name].tables["outbox"].rows) for name in outboxes(self.plan)
        }
        own = tuple(services_of(self.plan)) if self.plan.move_nodes else SERVICES
        for name, count in self.broker.waiting().items():
            if name.startswith(own) or (self.plan.consoles and name.startswith(CONSOLE)):
                waiting[f"consumer {name}"] = count
        return waiting

    def change(self, planned: PlannedChange) -> None:
        """Let a replica of the kind's service do a change, if one runs (tests.world.history)."""
        raise NotImplementedError

    # composition

    def replica(self, service: str) -> Callable[[Process], Any]:
        build, settings = self._build(service)
        given = settings_from(settings, self.plan.settings.get(service, {}))
        timing = Timing(**self.plan.settings.get("ownership", {}))

        async def main(process: Process) -> None:
            databases = self.databases(process)
            async with self.bus(process, declares=service) as bus:
                platform = Platform(bus, process.clock, databases, NOWHERE, process.member, timing)
                place = self.places[process.name]
                place.service = built = build(given, platform)
                place.served_by = process
                await built.run(lambda: None)

        return main

    def _build(self, service: str) -> tuple[Callable[[Any, Platform], Any], type[Any]]:
        """Returns how a service is built, and its settings."""
        return BUILDS[service]

    def bus(self, process: Process, *, declares: str = "") -> AbstractAsyncContextManager[NatsBus]:
        """The bus of a process, on its own connection to the broker. A replica declares the streams and the consumers
        of its service, as `slackwater run SERVICE` does."""
        link, topology = self.network.link(process, self._bus_server), self.broker.topology
        return connect_memory_bus(
            self.broker,
            name=process.name,
            link=link,
            topology=topology.only(declares) if declares else topology,
            declares=bool(declares),
            clock=process.clock,
        )

    def databases(self, process: Process) -> Callable[[str], Database]:
        link = self.network.link(process, self._database_server)
        process.on_death(lambda: self.postgres.abandon_process(process.member, 0.0))

        def database(service: str) -> Database:
            return twin_database(self.postgres, service, process.clock, link=link, process=process.member)

        return database

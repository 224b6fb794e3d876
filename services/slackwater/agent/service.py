"""The composition root of the agent: one machine, one bus, and the promise to leave every file as it was found."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.adapters.journal_file import LinesJournal
from slackwater.agent.adapters.ledger_file import JsonLedger
from slackwater.agent.adapters.linux.driver import LinuxDriver, linux_driver
from slackwater.agent.adapters.linux.lock import AgentLock
from slackwater.agent.adapters.memory import MemoryIntents, MemoryJournal, MemoryLedger
from slackwater.agent.adapters.metrics import AgentMetrics
from slackwater.agent.adapters.report_file import keep_report
from slackwater.agent.adapters.simulated import SimulatedDriver
from slackwater.agent.domain.observation import Observation
from slackwater.agent.domain.stored_reports import StoredReports
from slackwater.agent.domain.tracing import TraceBudget
from slackwater.agent.edge.events import Envelopes
from slackwater.agent.edge.outgoing import Outgoing
from slackwater.agent.fleet import FleetService
from slackwater.agent.ports import Driver, EvictionLedger, IntentFile, JournalFile
from slackwater.agent.settings import AgentSettings
from slackwater.agent.usecases.actuate import Actuator, RestoreReport
from slackwater.agent.usecases.converge import ConvergeToIntents, Held, Observed
from slackwater.agent.usecases.evict import Completion, EvictPods, eviction_requests
from slackwater.agent.usecases.report import ReportUsage
from slackwater.agent.usecases.sample import SampleMachine, Tick
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.lease_renewed import LeaseRenewed
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import said_alone
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id, partition_of
from slackwater.model.nodes import NodeFacts
from slackwater.model.quantities import Resources, parse_cpu_milli, parse_memory_bytes
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Check
from slackwater.runtime.state import StateDir
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters
from slackwater.telemetry.spans import Attributes, span

if TYPE_CHECKING:  # an agent must not pay for FastAPI
    from fastapi import APIRouter

    from slackwater.agent.usecases.guard_disconnected import DisconnectedGuard

_log = get_logger(__name__)
_LOOK_AT_FACTS_EVERY_TICKS = 30
_GOODBYE_SECONDS = 0.5
_WATCH_PAUSE, _LONGEST_WATCH_PAUSE = 0.2, 5.0
STANDS_IN_FOR, ALONE = "ensurance", "agent"
"""Whose rules an agent goes on with when it is cut off, and as whom."""
_HEARD_WITHIN_SECONDS = 5.0
"""So long after a start nobody is alone: who is not cut off hears of ensurance before that."""
DECISIONS_KEPT = 200
"""So many decisions made alone wait for the bus; the oldest make room."""


@dataclass(slots=True)
class AgentService:
    """See slackwater.runtime.service.Service. After `run` has ended, `restore_report` tells what was given back."""

    settings: AgentSettings
    platform: Platform
    driver: Driver
    journal: JournalFile
    ledger: EvictionLedger
    lock: AgentLock | None = None
    report_file: Path | None = None
    intents: IntentFile = field(default_factory=MemoryIntents)
    restore_report: RestoreReport | None = None
    metrics: AgentMetrics = field(default_factory=lambda: AgentMetrics(process_meters(), STANDS_IN_FOR))
    recovery_report: RestoreReport | None = None
    """What a crashed run had left and the last start put back."""
    _running: Running | None = None

    @property
    def name(self) -> str:
        return "agent"

    @property
    def restored_exactly(self) -> bool:
        """Whether everything was put back; known after `run`."""
        return self.restore_report is not None and self.restore_report.exact

    async def run(self, started: Callable[[], None]) -> None:
        if self.lock is not None:
            self.lock.acquire()
        try:
            actuator = Actuator(self.driver, self.journal, performed=self.metrics.wrote)
            self.recovery_report = actuator.recover()
            self.driver.open()
            self._running = Running(self, actuator, described(self.driver.facts(), self.settings))
            try:
                await self._running.work(started)
            finally:
                await self._end(self._running)
        finally:
            self.journal.close()
            if self.lock is not None:
                self.lock.release()

    async def checks(self) -> Sequence[Check]:
        running = self._running
        if running is None:
            return (Check("agent samples", False, "not started"),)
        age = running.sample_age_seconds()
        fresh = age is not None and age <= 3 * self.settings.sample_seconds
        detail = "no sample yet" if age is None else f"last sample {age:.1f} s ago"
        waiting = f"{len(running.outgoing)} messages wait, {running.outgoing.dropped} reports dropped"
        return (Check("agent samples", fresh, detail), Check("agent reports", not running.outgoing.away, waiting))

    def routers(self) -> Sequence[APIRouter]:
        return ()

    async def _end(self, running: Running) -> None:
        """Give everything back first; only then, and briefly, tell the others."""
        running.last_words()
        self.restore_report = running.actuator.restore_all()
        self._running = None
        if self.report_file is not None:
            keep_report(self.report_file, self.restore_report)
        if not self.restore_report.exact:
            _log.warning("restore not exact", report=str(self.report_file))
        self.driver.close()
        with suppress(Unavailable, TimeoutError):
            await asyncio.wait_for(running.outgoing.flush(), _GOODBYE_SECONDS)


@dataclass(slots=True)
class Running:
    """One life of the agent, from open to restore: everything that must not survive a restart."""

    service: AgentService
    actuator: Actuator
    facts: NodeFacts
    boot_epoch: str = field(default_factory=new_id)
    outgoing: Outgoing = field(init=False)
    envelopes: Envelopes = field(init=False)
    converge: ConvergeToIntents = field(init=False)
    evict: EvictPods = field(init=False)
    sampling: SampleMachine = field(init=False)
    _stored: StoredReports = field(default_factory=StoredReports)
    _group: asyncio.TaskGroup | None = None
    _ticks: int = 0
    _lapsed: set[str] = field(default_factory=set)
    _alone: DisconnectedGuard | None = None
    _told_alone: int = 0
    _unreadable: str = ""
    _started_at: float = 0.0
    _host_apps: Mapping[str, str] = field(default_factory=dict)
    """Cgroups by name of what the operator wants counted apart."""
    _absent: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        settings, clock, driver = self.service.settings, self.service.platform.clock, self.service.driver
        self._host_apps = {app.name: app.cgroup for app in settings.host_applications}
        node = self.facts.name
        dropped = self.service.metrics.dropped
        bus = self.service.platform.bus
        self.outgoing = Outgoing(
            bus, clock, settings.buffered_reports, dropped, lambda at: self._stored.note(at, clock.monotonic())
        )
        traces = TraceBudget(settings.trace_seconds, settings.urgent_trace_seconds)
        self.envelopes = Envelopes(node, clock, traces)
        self.converge = ConvergeToIntents(
            node, self.boot_epoch, driver, self.actuator, clock, self.facts.capacity.cpu_milli
        )
        self.evict = EvictPods(node, driver, self.service.ledger, clock, self._spawn, self._announce)
        self.sampling = SampleMachine(
            driver,
            clock,
            Observation(),
            self.converge,
            ReportUsage(node, self.boot_epoch),
            settings.report_seconds,
            dropped=lambda: self.outgoing.dropped,
            behind=lambda: self.outgoing.away,
        )

    async def work(self, started: Callable[[], None]) -> None:
        """Until cancelled. The bus may be away all the time: sampling and leases go on without it."""
        self._describe()
        self._started_at = self.service.platform.clock.monotonic()
        self.converge.remember(self.service.intents.load())
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.evict.resume()
            group.create_task(self.outgoing.run())
            group.create_task(self._watch())
            group.create_task(self._sample())
            started()

    def sample_age_seconds(self) -> float | None:
        last = self.sampling.last_sample
        return None if last is None else self.service.platform.clock.monotonic() - last

    def last_words(self) -> None:
        """The report of the unfinished window."""
        report = self.sampling.report("shutdown")
        if report is not None:
            self.outgoing.report(self.envelopes.report(report))

    async def receive(self, event: Event[IntentDeclared]) -> None:
        """From the bus to the machine and back to the bus, without a pause in between."""
        document = event.data
        attributes: Attributes = {
            "node": self.facts.name,
            "writer": document.writer,
            "generation": document.generation,
            "throttles": len(document.throttles),
            "decision_id": next((throttle.decision_id for throttle in document.throttles), None),
        }
        with span("agent converge", event.traceparent, attributes, kind="consumer") as step:
            if step.real is not None:
                event = event.model_copy(update={"traceparent": step.traceparent})
            self._tell(self.converge.receive(event))
            self._keep(event)
            self.evict.forget(document.writer, {item.id for item in document.evictions})
            self._consider_evictions()

    async def hear(self, event: Event[LeaseRenewed]) -> None:
        """A writer renews what it wants of us, if it has read what we said of late."""
        told, own, now = event.data, self.facts.name, self.service.platform.clock.monotonic()
        if own not in told.blocked and self._stored.is_read(told.read_up_to, told.heard_within_seconds, now):
            self.converge.renew(told.writer, told.epoch)

    def _keep(self, event: Event[IntentDeclared]) -> None:
        """For the case that we start again and hear nobody. What was ignored is not kept."""
        held = self.converge.held
        if event.data.writer in held and held[event.data.writer].event is event:
            try:
                self.service.intents.save([one.event for one in held.values()])
            except Unavailable as error:  # what was kept before is older, and counts only where nobody is heard
                _log.warning("intents not kept", error=error.message)

    async def _sample(self) -> None:
        clock, interval = self.service.platform.clock, self.service.settings.sample_seconds
        due = clock.monotonic()
        while True:
            self._tick()
            due += interval
            late = clock.monotonic() - due
            if late > 0:  # the machine slept or was overloaded: skip whole intervals, keep the rhythm
                due += math.ceil(late / interval) * interval
            await clock.sleep(max(0.0, due - interval / 2 - clock.monotonic()))
            if self.sampling.is_due_early():
                due = clock.monotonic()  # the rhythm goes on from here
                continue
            await clock.sleep(due - clock.monotonic())

    def _tick(self) -> None:
        begun = time.perf_counter()
        self._look_who_guards()
        tick = self.sampling.tick()
        if self._host_apps:
            self._note_absent(tick)
        self._tell(tick.observed)
        self._guard_alone(tick)
        self._consider_evictions()
        self._measure(time.perf_counter() - begun)
        if tick.report is not None:
            self.outgoing.report(self.envelopes.report(said_alone(tick.report) if self._alone else tick.report))
            self.service.metrics.reported(tick.report.trigger)
        self._ticks += 1
        if self._ticks % _LOOK_AT_FACTS_EVERY_TICKS == 0:
            facts = described(self.service.driver.facts(), self.service.settings)
            facts = replace(facts, name=self.facts.name)  # a host may be renamed; who is known by a name keeps it
            if facts != self.facts:
                self.facts = facts
                self.converge.capacity_milli = facts.capacity.cpu_milli
                self._describe()

    def _note_absent(self, tick: Tick) -> None:
        """Say it once when a host application is not there, and once when it is back."""
        absent = frozenset(self._host_apps) - tick.host_apps
        for name in sorted(absent - self._absent):
            hint = "no such cgroup, or not with both CPU and memory: it counts as system until it is there"
            _log.warning("host application absent", name=name, cgroup=self._host_apps[name], hint=hint)
        for name in sorted(self._absent - absent):
            _log.info("host application is there", name=name, cgroup=self._host_apps[name])
        self._absent = absent

    def _measure(self, seconds: float) -> None:
        metrics, at = self.service.metrics, self.service.platform.clock.now().timestamp()
        metrics.ticked(self.facts.name, seconds, at, len(self.outgoing), self.converge.throttled())
        lapsed = self.converge.lapsed()
        for writer in lapsed - self._lapsed:
            metrics.lease_expired(writer)
        self._lapsed = lapsed

    async def _watch(self) -> None:
        pause = _WATCH_PAUSE
        while True:
            try:
                bus, node = self.service.platform.bus, self.facts.name
                async with (
                    bus.watch(IntentDeclared, self.receive, key=node),
                    bus.hear(LeaseRenewed, self.hear, partition=partition_of(node)),
                ):
                    await asyncio.Event().wait()
            except Unavailable as error:
                _log.warning("intents not watched", error=error.message)
            await self.service.platform.clock.sleep(pause)
            pause = min(_LONGEST_WATCH_PAUSE, pause * 2)

    def _look_who_guards(self) -> None:
        """Before limits of a lapsed lease rise: who goes on alone goes on with those in force, without a gap."""
        held, clock = self.converge.held.get(STANDS_IN_FOR), self.service.platform.clock
        if held is None or not held.event.data.rules or held.desired.alive(clock.monotonic()):
            if self._alone is not None:
                _log.info("no longer alone", node=self.facts.name, decisions=self._told_alone)
                self._alone.end()
                self._alone = None
            return
        if self._alone is None and clock.monotonic() - self._started_at < _HEARD_WITHIN_SECONDS:
            return
        self._alone = self._alone or self._begin_alone(held)

    def _guard_alone(self, tick: Tick) -> None:
        """While nobody renews what ensurance wanted, what it would do with the rules that it left here."""
        if (alone := self._alone) is None:
            return
        for record in alone.tick(tick.instant, tick.pods, self.evict.ending()):
            self._told_alone += 1
            key = f"decision/{self._told_alone % DECISIONS_KEPT}"
            _log.info("decided alone", node=self.facts.name, decision_id=record.id, kind=record.kind)
            self.outgoing.fact(key, self.envelopes.decided(record, alone.held.event))

    def _begin_alone(self, held: Held) -> DisconnectedGuard | None:
        """The planner is only loaded where it is needed: an agent that is never alone never pays for it."""
        if held.event.id == self._unreadable:
            return None
        from slackwater.agent.domain.disconnected import Machine
        from slackwater.agent.usecases.guard_disconnected import begin

        try:
            leaving, begun_at, pods = self.evict.ending(), self.evict.begun_lately(), self.service.driver.pods()
            clock = self.service.platform.clock
            alone = begin(held, Machine(self.facts), self.converge, clock, pods, leaving, begun_at)
        except ValueError as error:
            self._unreadable = held.event.id
            _log.warning("rules not readable", node=self.facts.name, error=str(error))
            return None
        self._told_alone = 0
        self.outgoing.alone()
        _log.warning("alone", node=self.facts.name, generation=held.desired.generation)
        return alone

    def _consider_evictions(self) -> None:
        now = self.service.platform.clock.monotonic()
        held = self.converge.held
        requests = [request for document in held.values() for request in eviction_requests(document.event)]
        alive = {writer: document.desired.alive(now) for writer, document in held.items()}
        if self._alone is not None:
            requests += self._alone.evictions
            alive[ALONE] = True
        if requests:
            self.evict.consider(requests, alive)

    def _describe(self) -> None:
        payload = NodeDescribed(
            facts=self.facts, boot_epoch=self.boot_epoch, described_at=self.service.platform.clock.now()
        )
        self.outgoing.fact("described", self.envelopes.origin(payload))

    def _tell(self, observed: Sequence[Observed]) -> None:
        for answer in observed:
            self.outgoing.fact(f"observed/{answer.payload.writer}", self.envelopes.observed(answer))

    def _announce(self, completion: Completion) -> None:
        id_, event = completion.payload.id, self.envelopes.completed(completion)
        self.service.metrics.evicted(completion.payload.outcome)
        self.outgoing.fact(f"eviction/{id_}", event, lambda: self.evict.published(id_))
        if self._alone is not None:
            self._alone.ended(completion.payload)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            raise RuntimeError("evictions run only while the agent works")
        self._group.create_task(coroutine)


def described(facts: NodeFacts, settings: AgentSettings) -> NodeFacts:
    """The machine's facts with what the operator decided about it."""
    reserved = Resources(
        parse_cpu_milli(settings.reserved_cpu, "SLACKWATER_AGENT_RESERVED_CPU"),
        parse_memory_bytes(settings.reserved_memory, "SLACKWATER_AGENT_RESERVED_MEMORY"),
    )
    return replace(
        facts,
        name=settings.node or facts.name,
        pool=settings.pool,
        reserved=reserved,
        labels={**facts.labels, **settings.labels},
        annotations={**facts.annotations, **settings.annotations},
    )


def build(settings: AgentSettings, platform: Platform, driver: Driver | None = None) -> AgentService | FleetService:
    """The agent of this machine, of the given one, or (by the settings) of a simulated fleet."""
    if driver is None and settings.driver == "simulated":
        return build_fleet(settings, platform)
    return build_agent(settings, platform, driver)


def build_fleet(settings: AgentSettings, platform: Platform) -> FleetService:
    """`settings.nodes` agents on simulated machines."""
    agents = []
    for number in range(1, settings.nodes + 1):
        node = f"sim-{number:02d}"
        machine = SimulatedDriver(
            node, number, platform.clock, started_at=platform.clock.now(), host_apps=settings.host_applications
        )
        agents.append(build_agent(settings.model_copy(update={"node": node, "pool": "simulated"}), platform, machine))
    report_file = platform.state_dir / "agent" / "restore-report.json"
    return FleetService(agents, report_file, keep_report, settings.sample_seconds)


def build_agent(settings: AgentSettings, platform: Platform, driver: Driver | None = None) -> AgentService:
    """The agent of this machine, or of the given one. Only a real machine gets a journal and a ledger on disk.

    Of the platform the bus, the clock and the state directory are used; the database is not.
    """
    if driver is not None and not isinstance(driver, LinuxDriver):
        return AgentService(settings, platform, driver, MemoryJournal(), MemoryLedger())
    if driver is None:
        instance = settings.instance or StateDir(platform.state_dir).instance_id()
        driver = linux_driver(platform.state_dir, instance, platform.clock, host_apps=settings.host_applications)
    folder = driver.layout.agent_dir
    return AgentService(
        settings,
        platform,
        driver,
        LinesJournal(folder / "journal"),
        JsonLedger(folder / "evictions.json"),
        AgentLock(folder),
        folder / "restore-report.json",
        JsonIntents(folder / "intents.json"),
    )

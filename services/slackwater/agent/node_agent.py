"""The agent of one machine as a service: open, recover, run, restore; and the wiring of one run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.memory import MemoryIntents, MemoryStarts
from slackwater.agent.adapters.report_file import keep_report
from slackwater.agent.domain.controls.catalog import CONTROLS
from slackwater.agent.domain.controls.control import Control
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.observation import Observation
from slackwater.agent.domain.stored_reports import StoredReports
from slackwater.agent.domain.tracing import TraceBudget
from slackwater.agent.domain.workload_template import node_labels
from slackwater.agent.edge.events import Envelopes
from slackwater.agent.edge.publisher import BusPublisher
from slackwater.agent.edge.send_queue import Outgoing
from slackwater.agent.edge.subscriptions import Subscriptions
from slackwater.agent.metrics import AgentMetrics
from slackwater.agent.ports import Driver, EvictionLedger, IntentFile, JournalFile, Launcher, Lock, StartLedger
from slackwater.agent.settings import AgentSettings
from slackwater.agent.usecases.actuate import Actuator, RestoreReport
from slackwater.agent.usecases.agent_loop import AgentLoop
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.agent.usecases.describe_node import PublishDescription
from slackwater.agent.usecases.disconnected_mode import STANDS_IN_FOR, DisconnectedMode
from slackwater.agent.usecases.evict import EvictPods
from slackwater.agent.usecases.handle_intents import HandleIntents
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.agent.usecases.record_placements import RecordPlacements
from slackwater.agent.usecases.report import ReportUsage
from slackwater.agent.usecases.sample import SampleMachine
from slackwater.agent.usecases.start_workloads import StartWorkloads
from slackwater.decisions.record_budget import RecordBudget
from slackwater.model.errors import Unavailable
from slackwater.model.identifiers import new_id
from slackwater.model.nodes import LABEL_CPUSETS, NodeFacts
from slackwater.model.quantities import Resources, parse_cpu_milli, parse_memory_bytes
from slackwater.runtime.platform import Platform
from slackwater.runtime.service import Check
from slackwater.telemetry.logs import get_logger
from slackwater.telemetry.metrics import process_meters

if TYPE_CHECKING:  # an agent must not pay for FastAPI
    from fastapi import APIRouter

_log = get_logger(__name__)
_GOODBYE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PodFeed:
    """What keeps a driver's pods up to date beside the loop, where they are not found on the machine alone."""

    follow: Sequence[Callable[[], Coroutine[Any, Any, None]]]
    """Each works until cancelled."""
    listed: Callable[[], Awaitable[None]]
    """Returns when the pods are known: before that a report would show a machine without pods."""
    error: Callable[[], str]
    """Why nothing new is known; empty while all is."""
    node_known: Callable[[], Awaitable[None]]
    """Returns when what describes the node is known, or will not be."""


@dataclass(slots=True)
class AgentService:
    """See slackwater.runtime.service.Service. After `run` has ended, `restore_report` holds what was given back."""

    settings: AgentSettings
    platform: Platform
    driver: Driver
    journal: JournalFile
    ledger: EvictionLedger
    lock: Lock | None = None
    report_file: Path | None = None
    intents: IntentFile = field(default_factory=MemoryIntents)
    disk: DiskFiles = OS_FILES
    """Where the report file is written."""
    controls: Sequence[Control[Any]] = CONTROLS
    feed: PodFeed | None = None
    launcher: Launcher | None = None
    """What starts workloads, where the operator has described any."""
    placement: PlacePods | None = None
    """What gives pods CPUs of their own, on machines whose cgroups are the agent's."""
    serves: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Serves what pods have to others on this machine, where a socket is configured."""
    starts: StartLedger = field(default_factory=MemoryStarts)
    restore_report: RestoreReport | None = None
    metrics: AgentMetrics = field(default_factory=lambda: AgentMetrics(process_meters(), STANDS_IN_FOR))
    recovery_report: RestoreReport | None = None
    """What a crashed run had left and the last start put back."""
    _running: AgentLoop | None = None
    _outgoing: Outgoing | None = None

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
            stored = StoredReports()
            outgoing = self._outgoing = self._queue(stored)
            self._running = self._loop(actuator, outgoing, stored)
            try:
                await self._running.run(started)
            finally:
                await self._end(self._running, actuator, outgoing)
        finally:
            self.journal.close()
            if self.lock is not None:
                self.lock.release()

    def desired_states(self) -> Sequence[DesiredState]:
        """What the running agent is asked for: the newest document of each writer, and in disconnected mode its own
        decisions. None before and after `run`."""
        if self._running is None:
            return ()
        converge = self._running.converge
        return (*converge.held.states(), *(() if converge.own is None else (converge.own,)))

    def sample_age_seconds(self) -> float | None:
        """How long ago the running agent sampled; None if it has not."""
        return None if self._running is None else self._running.sample_age_seconds()

    async def checks(self) -> Sequence[Check]:
        if self._running is None or self._outgoing is None:
            return (Check("agent samples", False, "not started"),)
        age = self._running.sample_age_seconds()
        fresh = age is not None and age <= 3 * self.settings.sample_seconds
        detail = "no sample yet" if age is None else f"last sample {age:.1f} s ago"
        waiting = f"{len(self._outgoing)} messages wait, {self._outgoing.dropped} reports dropped"
        checks = (Check("agent samples", fresh, detail), Check("agent reports", not self._outgoing.away, waiting))
        if self.feed is None:
            return checks
        error = self.feed.error()
        return (*checks, Check("agent pods", not error, error or "the API server is followed"))

    def routers(self) -> Sequence[APIRouter]:
        return ()

    async def _end(self, running: AgentLoop, actuator: Actuator, outgoing: Outgoing) -> None:
        """Give everything back first; only then publish, briefly, what still waits."""
        running.publish_last_report(self.settings.leave_on_stop)
        self.restore_report = actuator.restore_all()
        self._running = self._outgoing = None
        if self.report_file is not None:
            keep_report(self.report_file, self.restore_report, self.disk)
        if not self.restore_report.exact:
            _log.warning("restore not exact", report=str(self.report_file))
        self.driver.close()
        with suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await outgoing.flush()

    def _queue(self, stored: StoredReports) -> Outgoing:
        clock = self.platform.clock
        return Outgoing(
            self.platform.bus,
            clock,
            self.settings.buffered_reports,
            self.metrics.dropped,
            lambda position: stored.add(position, clock.monotonic()),
        )

    def _loop(self, actuator: Actuator, outgoing: Outgoing, stored: StoredReports) -> AgentLoop:
        """The use cases of one run, wired."""
        settings, driver, clock, boot_epoch = self.settings, self.driver, self.platform.clock, new_id()
        facts = self._facts()
        name = facts.name
        traces = TraceBudget(settings.trace_seconds, settings.urgent_trace_seconds)
        publisher = BusPublisher(outgoing, Envelopes(name, clock, traces))
        node = PublishDescription(self._facts, boot_epoch, clock, publisher, facts)
        converge = self._converging(name, boot_epoch, facts.capacity, actuator)
        evict = EvictPods(
            name,
            driver,
            self.ledger,
            clock,
            spawn=lambda eviction: loop.spawn(eviction),  # noqa: PLW0108 - the loop is made last
            announce=lambda completion: loop.on_completed(completion),  # noqa: PLW0108
            begins=not facts.is_evicted_by_api_server,
        )
        converge.evicted = evict.ending
        disconnected = DisconnectedMode(
            node,
            driver,
            converge,
            evict,
            clock,
            publisher,
            clock.monotonic(),
            settings.record_burst_bytes,
            settings.record_bytes_per_hour,
        )
        start = self._starting(
            name,
            spawn=lambda start: loop.spawn(start),  # noqa: PLW0108 - the loop is made last
            changed=lambda writer: intents.answer(writer),  # noqa: PLW0108
        )
        if start is not None:
            converge.starts = start.states
        intents = HandleIntents(name, clock, converge, evict, disconnected, publisher, self.intents, stored, start)
        sampling = SampleMachine(
            driver,
            clock,
            Observation(),
            converge,
            ReportUsage(name, boot_epoch),
            settings.report_seconds,
            dropped=lambda: outgoing.dropped,
            behind=lambda: outgoing.away,
        )
        loop = AgentLoop(
            clock,
            settings.sample_seconds,
            node,
            sampling,
            converge,
            evict,
            disconnected,
            intents,
            publisher,
            self.metrics,
            {app.name: app.cgroup for app in settings.host_applications},
            (outgoing.run, Subscriptions(self.platform.bus, clock, intents).run, *self._beside()),
            None if self.feed is None else self.feed.listed,
            None if self.feed is None else self.feed.node_known,
            self.placement,
        )
        if self.placement is not None:
            self.placement.spawn = loop.spawn
            self.placement.recorder = self._recorder(name, publisher)
        return loop

    def _recorder(self, node: str, publisher: BusPublisher) -> RecordPlacements:
        settings = self.settings
        budget = RecordBudget(settings.record_burst_bytes, settings.record_bytes_per_hour)
        return RecordPlacements(node, self.platform.clock, publisher, budget)

    def _beside(self) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
        """Tasks of the drivers and plugins beside the loop."""
        if self.feed is not None:
            yield from self.feed.follow
        if self.placement is not None and self.placement.remote is not None:
            yield self.placement.remote.run
        if self.serves is not None:
            yield self.serves

    def _converging(self, node: str, boot_epoch: str, capacity: Resources, actuator: Actuator) -> ConvergeToIntents:
        return ConvergeToIntents(
            node,
            boot_epoch,
            self.driver,
            actuator,
            self.platform.clock,
            capacity.cpu_milli,
            controls=self.controls,
            capacity_bytes=capacity.memory_bytes,
            memory_limit_bytes=self.settings.memory_bytes,
            cpusets=lambda: {} if self.placement is None else self.placement.cpusets,
        )

    def _facts(self) -> NodeFacts:
        """The machine's facts, what the operator decided about it, and what it can start."""
        facts = described(self.driver.facts(), self.settings)
        if self.placement is not None:
            facts = replace(
                facts,
                labels={**facts.labels, LABEL_CPUSETS: "off" if self.placement.off else "launch"},
                resources={**facts.resources, **self.placement.node_resources()},
            )
        if self.launcher is None:
            return facts
        return replace(facts, labels={**facts.labels, **node_labels(self.launcher.templates())})

    def _starting(
        self, node: str, spawn: Callable[[Coroutine[Any, Any, None]], None], changed: Callable[[str], None]
    ) -> StartWorkloads | None:
        if self.launcher is None:
            return None
        return StartWorkloads(node, self.driver, self.launcher, self.starts, self.platform.clock, spawn, changed)


def described(facts: NodeFacts, settings: AgentSettings) -> NodeFacts:
    """The machine's facts with what the operator decided about it."""
    reserved = Resources(
        parse_cpu_milli(settings.reserved_cpu, "SLACKWATER_AGENT_RESERVED_CPU"),
        parse_memory_bytes(settings.reserved_memory, "SLACKWATER_AGENT_RESERVED_MEMORY"),
    )
    memory = facts.capacity.memory_bytes
    if settings.memory_bytes is not None:
        memory = min(memory or settings.memory_bytes, settings.memory_bytes)
    return replace(
        facts,
        capacity=replace(facts.capacity, memory_bytes=memory),
        name=settings.node or facts.name,
        pool=settings.pool,
        reserved=reserved,
        labels={**facts.labels, **settings.labels},
        annotations={**facts.annotations, **settings.annotations},
    )

"""The loop of one run of the agent, from open to restore: sample, converge, decide while disconnected, report."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slackwater.agent.metrics import AgentMetrics
from slackwater.agent.ports import Completion, Publisher
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.agent.usecases.describe_node import PublishDescription
from slackwater.agent.usecases.disconnected_mode import DisconnectedMode
from slackwater.agent.usecases.evict import EvictPods
from slackwater.agent.usecases.handle_intents import HandleIntents
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.agent.usecases.sample import SampleMachine
from slackwater.events.usage_reported import is_disconnected
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_READ_FACTS_EVERY_TICKS = 30


@dataclass(slots=True)
class AgentLoop:
    """Holds everything that must not survive a restart of the agent. `host_apps` are cgroups by name; `beside` are the
    tasks that talk to the bus."""

    clock: Clock
    sample_seconds: float
    node: PublishDescription
    sampling: SampleMachine
    converge: ConvergeToIntents
    evict: EvictPods
    disconnected: DisconnectedMode
    intents: HandleIntents
    publisher: Publisher
    meter: AgentMetrics
    host_apps: Mapping[str, str]
    beside: Iterable[Callable[[], Coroutine[Any, Any, None]]]
    pods_known: Callable[[], Awaitable[None]] | None = None
    """Sampling begins when it returns."""
    node_known: Callable[[], Awaitable[None]] | None = None
    """The node is described when it returns: without its labels, offers would change at each start of the agent."""
    placement: PlacePods | None = None
    _group: asyncio.TaskGroup | None = None
    _ticks: int = 0
    _lapsed: set[str] = field(default_factory=set)
    _absent: frozenset[str] = frozenset()

    async def run(self, started: Callable[[], None]) -> None:
        """Until cancelled. The bus may be away all the time: sampling and leases go on without it."""
        if self.node_known is None:
            self.node.publish()
        self.converge.remember(self.intents.file.load())
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.evict.resume()
            if self.intents.start is not None:
                self.intents.start.resume()
            if self.node_known is not None:
                group.create_task(self._describe(self.node_known))
            for task in (*self.beside, self._sample):
                group.create_task(task())
            started()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run an eviction or a start beside the loop."""
        if self._group is None:
            raise RuntimeError("evictions and starts run only while the agent works")
        self._group.create_task(coroutine)

    def sample_age_seconds(self) -> float | None:
        last = self.sampling.last_sample
        return None if last is None else self.clock.monotonic() - last

    def publish_last_report(self, leaves: bool) -> None:
        """The report of the unfinished window, and with it whether the node leaves."""
        report = self.sampling.leave() if leaves else self.sampling.report("shutdown")
        if report is not None:
            self.publisher.reported(report)

    def on_completed(self, completion: Completion) -> None:
        """Publish the end of an eviction; in disconnected mode the guard learns of it."""
        id_ = completion.payload.id
        self.meter.evicted(completion.payload.outcome)
        self.publisher.completed(completion, lambda: self.evict.published(id_))
        self.disconnected.on_completed(completion.payload)

    async def _sample(self) -> None:
        if self.pods_known is not None:
            await self.pods_known()
        due = self.clock.monotonic()
        while True:
            self._tick()
            due += self.sample_seconds
            late = self.clock.monotonic() - due
            if late > 0:  # the machine slept or was overloaded: skip whole intervals, keep the rhythm
                due += math.ceil(late / self.sample_seconds) * self.sample_seconds
            await self.clock.sleep(max(0.0, due - self.sample_seconds / 2 - self.clock.monotonic()))
            if self.disconnected.is_unanswered or self.sampling.is_due_early():
                due = self.clock.monotonic()  # the rhythm goes on from here
                continue
            await self.clock.sleep(due - self.clock.monotonic())

    async def _describe(self, known: Callable[[], Awaitable[None]]) -> None:
        await known()
        if not self.node.update():
            self.node.publish()

    def _tick(self) -> None:
        begun = time.perf_counter()
        self.disconnected.update()
        if self.placement is not None:
            self.placement.update(self.sampling.driver.pods())
        tick = self.sampling.tick()
        if self.placement is not None:
            self.placement.publish()
        if self.host_apps:
            self._log_absent(tick.host_apps)
        self.publisher.observed(tick.observed)
        self.disconnected.decide(tick)
        if self.intents.consider_evictions():
            self.converge.settle(tick.pods)  # the pods have their grace from now on
        self.intents.consider_starts()
        self._measure(time.perf_counter() - begun)
        if tick.report is not None:
            self.publisher.reported(tick.report if self.disconnected.guard is None else is_disconnected(tick.report))
            self.meter.reported(tick.report.trigger)
        self._ticks += 1
        if self._ticks % _READ_FACTS_EVERY_TICKS == 0 and self.node.update():
            self.converge.capacity_milli = self.node.facts.capacity.cpu_milli

    def _log_absent(self, present: frozenset[str]) -> None:
        """One line when a host application is not there, and one when it is back."""
        absent = frozenset(self.host_apps) - present
        for name in sorted(absent - self._absent):
            hint = "no such cgroup, or not with both CPU and memory: it counts as system until it is there"
            _log.warning("host application absent", name=name, cgroup=self.host_apps[name], hint=hint)
        for name in sorted(self._absent - absent):
            _log.info("host application is there", name=name, cgroup=self.host_apps[name])
        self._absent = absent

    def _measure(self, seconds: float) -> None:
        at = self.clock.now().timestamp()
        self.meter.ticked(self.node.name, seconds, at, self.publisher.waiting, self.converge.throttled())
        lapsed = self.converge.held.lapsed(self.clock.monotonic())
        for writer in lapsed - self._lapsed:
            self.meter.lease_expired(writer)
        self._lapsed = lapsed

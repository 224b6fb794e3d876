"""A node of a world of moves: a machine with pods, and a scripted agent on it that reports and carries out evictions.

The agent is as strict as the real one: an eviction id is begun once, not after its deadline, and answered once; what
has begun goes on whatever a later document says. Its ledger outlives its process and its boots. Now and then it refuses
during the faults, for good or as if a budget had held the eviction for its time. Starts are in
tests.world.machine_starts.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Final

from tests.support.reports import usage
from tests.world.machine_starts import MachineStarts
from tests.world.processes import Process
from tests.world.refusals import is_of_two, is_selected
from tests.world.trace import Kind
from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted, completion_id
from slackwater.events.intent_declared import Eviction, IntentDeclared, WorkloadStart
from slackwater.events.intent_observed import IntentObserved, ObservedStart
from slackwater.events.measures import PodUsage
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.controls import MIGRATION
from slackwater.intents.document import is_older
from slackwater.model.errors import SlackwaterError
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.pods import Pod

LOST: Final = "the node was lost"
START_FAILED: Final = "its start failed"
NO_EVICTION: Final = frozenset({LOST, START_FAILED})
"""What a pod ended by, where no eviction ended it."""
REPORT_SECONDS, TICK_SECONDS, OFF_SECONDS = 5.0, 0.5, 1.0
REFUSED_SHARE, FINAL_SHARE = 0.15, 0.05
"""Of evictions; the second of those that are refused for good."""
SYSTEM_MILLI = 200


@dataclass(slots=True)
class HostedPod:
    """A pod that runs, and what it uses."""

    pod: Pod
    cpu_milli: int
    memory_bytes: int


class MoveMachine:
    """The pods and the disk of one node. `name` is that of its agent's process."""

    def __init__(self, world: World, name: str, cores: int, ended: Callable[[HostedPod], None]) -> None:
        self.name = name
        self.node = f"node-{name.rpartition('-')[2]}"
        self.cores = cores
        self.pods: dict[str, HostedPod] = {}
        self.boot = 1
        self._world = world
        self._rng: Random = world.random(f"machine of moves {name}")
        self._ended = ended
        self._away = 0
        self._held: IntentDeclared | None = None
        self._observed: tuple[int, tuple[ObservedStart, ...]] = (-1, ())
        self._ledger: dict[str, EvictionOutcome | None] = {}
        """By eviction id: None while the pod ends."""
        self._evictions: dict[str, Eviction] = {}
        self._completed_at: dict[str, datetime] = {}
        self._unanswered: dict[str, None] = {}
        """Ids whose outcome is not acknowledged, in order."""
        self.budgeted = 0.0
        """The share of pods that a disruption budget selects (tests.world.refusals)."""
        self.launched: Callable[[MoveMachine, WorkloadStart], HostedPod] | None = None
        """Makes the pod of a start."""
        later = partial(world.loop.call_later, context=Context())
        end = partial(self._end, by=START_FAILED)
        rng = world.random(f"starts of {name}")
        self.starts = MachineStarts(rng, self._launch, self.pods.__contains__, end, later)

    @property
    def is_on(self) -> bool:
        return self._away == 0

    @property
    def load_milli(self) -> int:
        return SYSTEM_MILLI + sum(hosted.cpu_milli for hosted in self.pods.values())

    # the machine

    def host(self, hosted: HostedPod) -> None:
        """A pod starts."""
        self.pods[hosted.pod.uid] = hosted
        self._record(Kind.POD_STARTED, hosted.pod.uid, workload=hosted.pod.workload)

    def vanish(self) -> None:
        """The machine is off: its pods have ended."""
        self._away += 1
        for uid in list(self.pods):
            self._end(uid, LOST)

    def come_back(self) -> None:
        self._away -= 1
        if self.is_on:
            self.boot += 1

    def _launch(self, item: WorkloadStart) -> str:
        assert self.launched is not None
        hosted = self.launched(self, item)
        self.pods[hosted.pod.uid] = hosted
        self._record(Kind.POD_STARTED, hosted.pod.uid, workload=hosted.pod.workload, start=item.id)
        return hosted.pod.uid

    def _end(self, uid: str, by: str) -> None:
        hosted = self.pods.pop(uid)
        self._record(Kind.POD_ENDED, uid, by=by, workload=hosted.pod.workload)
        self._ended(hosted)

    def _record(self, kind: Kind, uid: str, **detail: str) -> None:
        trace, at = self._world.trace, self._world.loop.time()
        trace.add(at, self.name, kind, uid, detail={"node": self.node, **detail})

    # the agent

    async def run(self, process: Process) -> None:
        """One start of the agent."""
        while not self.is_on:
            await process.clock.sleep(OFF_SECONDS)
        epoch, sequence, reported_at = f"{self.boot}-{process.incarnation}", 0, -REPORT_SECONDS
        self._observed = -1, ()
        async with self._world.bus(process) as bus, bus.watch(IntentDeclared, self._receive, key=self.node):
            while True:
                self._obey(process)
                self._obey_starts(process)
                await self._answer(bus, process)
                if self._world.loop.time() - reported_at >= REPORT_SECONDS:
                    reported_at, sequence = self._world.loop.time(), sequence + 1
                    await _published(bus, _event(process, self._report(process, epoch, sequence)))
                await process.clock.sleep(TICK_SECONDS)

    async def _receive(self, event: Event[IntentDeclared]) -> None:
        document = event.data
        if document.writer == MIGRATION.name and (self._held is None or not is_older(document, self._held)):
            self._held = document

    def _obey(self, process: Process) -> None:
        for item in self._held.evictions if self._held is not None else ():
            if item.id in self._ledger:
                continue
            self._evictions[item.id] = item
            is_faulty = self._world.loop.time() < self._world.plan.fault_seconds
            if process.clock.now() >= item.deadline:
                self._conclude(item.id, EvictionOutcome.EXPIRED)
            elif item.pod_uid not in self.pods:
                self._conclude(item.id, EvictionOutcome.ALREADY_GONE)
            elif is_selected(item.pod_uid, self.budgeted):
                if is_of_two(item.pod_uid):
                    self._conclude(item.id, EvictionOutcome.REFUSED)
            elif is_faulty and (drawn := self._rng.random()) < REFUSED_SHARE:
                self._conclude(item.id, EvictionOutcome.REFUSED if drawn < FINAL_SHARE else EvictionOutcome.EXPIRED)
            else:
                self._begin(item)

    def _obey_starts(self, process: Process) -> None:
        now, at_s = process.clock.now(), self._world.loop.time()
        if self._held is not None:
            is_faulty = at_s < self._world.plan.fault_seconds
            self.starts.consider(self._held, now, at_s, is_faulty=is_faulty)
        self.starts.follow(now, at_s)

    def _begin(self, item: Eviction) -> None:
        """The pod ends within its grace, or is killed after it, also if the agent is gone by then."""
        self._ledger[item.id] = None
        seconds = item.grace_seconds * (self._rng.random() if self._rng.random() < 0.7 else 1.0)
        outcome = EvictionOutcome.TERMINATED if seconds < item.grace_seconds else EvictionOutcome.KILLED
        self._record(Kind.POD_SIGNALLED, item.pod_uid, by=item.id)

        def end() -> None:
            if item.pod_uid in self.pods:
                self._end(item.pod_uid, item.id)
                self._conclude(item.id, outcome)
            else:
                self._conclude(item.id, EvictionOutcome.ALREADY_GONE)

        self._world.loop.call_later(seconds, end, context=Context())

    def _conclude(self, identity: str, outcome: EvictionOutcome) -> None:
        self._ledger[identity] = outcome
        self._unanswered[identity] = None

    async def _answer(self, bus: Bus, process: Process) -> None:
        """Publish outcomes and the generation that was carried out, until one is not acknowledged."""
        now = process.clock.now()
        for identity in list(self._unanswered):
            outcome, item = self._ledger[identity], self._evictions[identity]
            assert outcome is not None
            completed = EvictionCompleted(
                id=identity,
                node=self.node,
                pod_uid=item.pod_uid,
                writer=MIGRATION.name,
                outcome=outcome,
                completed_at=self._completed_at.setdefault(identity, now),
                decision_id=item.decision_id,
            )
            event = _event(process, completed).model_copy(update={"id": completion_id(self.node, identity, "")})
            if not await _published(bus, event):
                return
            self._unanswered.pop(identity, None)
        held = self._held
        states = () if held is None else self.starts.states(held)
        if held is not None and (held.generation, states) != self._observed:
            observed = IntentObserved(
                node=self.node,
                writer=held.writer,
                generation=held.generation,
                boot_epoch=str(self.boot),
                received_at=now,
                observed_at=now,
                starts=states,
            )
            if await _published(bus, _event(process, observed)):
                self._observed = held.generation, states

    def _report(self, process: Process, epoch: str, sequence: int) -> UsageReported:
        return UsageReported(
            node=self.node,
            boot_epoch=epoch,
            sequence=sequence,
            sampled_at=process.clock.now(),
            window_seconds=REPORT_SECONDS,
            node_usage=usage(self.load_milli, sum(hosted.memory_bytes for hosted in self.pods.values())),
            system_usage=usage(SYSTEM_MILLI, 1 << 28),
            pods=tuple(
                PodUsage(hosted.pod, usage(hosted.cpu_milli, hosted.memory_bytes)) for hosted in self.pods.values()
            ),
        )


def _event(process: Process, payload: Payload) -> Event[Any]:
    return event_of(payload, source=f"agent/{process.name}", time=process.clock.now())


async def _published(bus: Bus, event: Event[Any]) -> bool:
    """Whether the broker has acknowledged it."""
    try:
        await bus.publish(event)
    except SlackwaterError:
        return False
    return True

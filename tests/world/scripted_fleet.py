"""Nodes without agents: a script publishes what ingestion and colocation would say of them.

A world of quotas alone costs a tenth of the whole one, and its pools change as often as a seed wants. Each node joins,
is cordoned, is lost, is deleted, comes back, and its offer shrinks and grows. What holds is published again after some
seconds, because the broker may have lost it. The script also answers for ensurance whether running claims may be
reclaimed: not always at once while there are faults, always afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from tests.world.processes import Process
from tests.world.quota_habits import RETURNS
from tests.world.quotas import CORES_OF_A_NODE, POOLS
from tests.world.world import World

from slackwater.bus.port import Bus
from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.node_deleted import DeletionReason, NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.reclaim_answered import ReclaimAnswered
from slackwater.events.reclaim_requested import ReclaimRequested
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.model.errors import SlackwaterError
from slackwater.model.nodes import CpuTopology, Liveness, NodeFacts
from slackwater.model.quantities import Resources
from slackwater.model.time import Clock

FLEET: Final = "fleet"
GIB: Final = 1 << 30
AGAIN_SECONDS, PAUSE_SECONDS = 15.0, (1.0, 8.0)
CORDONED_SECONDS = 40.0
REFUSED_SHARE, REFUSED_SECONDS = 0.3, 10.0
_ACTS: Final = ("offer", "offer", "offer", "offer", "cordon", "uncordon", "lose", "find", "delete", "join")
_RETURNING: Final = (*_ACTS, "delete", "delete", "delete")
"""Where deleted nodes come back at once, more of them are deleted."""


@dataclass(slots=True)
class ScriptedNode:
    """One node, and the newest event of each type about it."""

    name: str
    pool: str
    cores: int
    generation: int = 0
    events: dict[type[Payload], Payload] = field(default_factory=dict)
    changed: set[type[Payload]] = field(default_factory=set)
    """Types that have not been acknowledged since they changed."""

    def note(self, payload: Payload) -> None:
        self.events[type(payload)] = payload
        self.changed.add(type(payload))


class ScriptedFleet:
    """The process that publishes. What it has said outlives it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.random("scripted fleet")
        self._leave = world.random("scripted leave")
        self.nodes = [
            ScriptedNode(f"node-{number:02d}", POOLS[number % len(POOLS)], self._rng.choice(CORES_OF_A_NODE))
            for number in range(world.plan.scripted_nodes)
        ]

    async def run(self, process: Process) -> None:
        """Change a node after each pause, until the faults are over; then put all of them right."""
        plan, clock = self._world.plan, process.clock
        async with (
            self._world.bus(process) as bus,
            bus.watch(ReclaimRequested, partial(self._answer, bus, clock)),
        ):
            for node in self.nodes:
                self._join(node, clock.now())
            is_quiet, said_at = False, self._world.loop.time()
            while True:
                now = self._world.loop.time()
                if not is_quiet and now >= plan.fault_seconds:
                    is_quiet = True
                    self._restore(clock.now())
                elif not is_quiet:
                    self._act(clock.now())
                is_due = now - said_at >= AGAIN_SECONDS
                said_at = now if is_due else said_at
                await self._publish(bus, clock.now(), every=is_due)
                await clock.sleep(self._rng.uniform(*PAUSE_SECONDS))

    async def _answer(self, bus: Bus, clock: Clock, event: Event[ReclaimRequested]) -> None:
        """As ensurance answers, by the draw instead of by Autonomies. An answer that is lost is asked for again."""
        request, now = event.data, clock.now()
        is_faulty = self._world.loop.time() < self._world.plan.fault_seconds
        is_refused = self._leave.random() < REFUSED_SHARE and is_faulty
        answer = ReclaimAnswered(
            id=request.id,
            tree=request.tree,
            granted=() if is_refused else tuple(each.claim for each in request.wanted),
            because="the script refuses" if is_refused else "",
            again_at=now + timedelta(seconds=REFUSED_SECONDS) if is_refused else None,
            valid_until=now + timedelta(seconds=request.valid_seconds),
            answered_at=now,
        )
        with suppress(SlackwaterError):
            await bus.publish(event_of(answer, source=FLEET, time=now, causedby=event))

    def _act(self, now: datetime) -> None:
        returns = RETURNS in self._world.plan.habits
        node, act = self._rng.choice(self.nodes), self._rng.choice(_RETURNING if returns else _ACTS)
        if NodeDescribed not in node.events:
            if act == "join" or returns:
                self._join(node, now)
        elif act == "offer":
            self._offer(node, now, self._rng.choice((0.0, 0.2, 0.5, 0.8)))
        elif act in ("cordon", "uncordon"):
            self._cordon(node, now, is_closed=act == "cordon")
        elif act in ("lose", "find"):
            self._see(node, now, Liveness.LOST if act == "lose" else Liveness.FRESH)
        elif act == "delete":
            node.events.clear()
            node.changed.clear()
            node.note(
                NodeDeleted(node=node.name, reason=DeletionReason.OPERATOR, deleted_by="operator", deleted_at=now)
            )

    def _restore(self, now: datetime) -> None:
        """Every node is there, open and alive, and stays as it is."""
        for node in self.nodes:
            if NodeDescribed not in node.events:
                self._join(node, now)
            self._cordon(node, now, is_closed=False)
            self._see(node, now, Liveness.FRESH)

    def _join(self, node: ScriptedNode, now: datetime) -> None:
        capacity = Resources(node.cores * 1000, node.cores * 4 * GIB)
        facts = NodeFacts(
            name=node.name,
            pool=node.pool,
            capacity=capacity,
            reserved=Resources(500, GIB),
            topology=CpuTopology(node.cores, node.cores, 1, 1),
            kernel="6.1",
            cgroup_version="v2",
            driver="simulated",
            agent_version="1",
        )
        node.events.pop(NodeDeleted, None)
        node.changed.discard(NodeDeleted)
        node.note(NodeDescribed(facts=facts, boot_epoch="1", described_at=now))
        self._offer(node, now, 0.5)

    def _offer(self, node: ScriptedNode, now: datetime, share: float) -> None:
        node.generation += 1
        batch = Resources(int(node.cores * 1000 * share), int(node.cores * 4 * GIB * share))
        node.note(
            ResourcesOffered(
                node=node.name, offered_at=now, generation=node.generation, batch=batch, degraded=None, decision_ids={}
            )
        )

    def _cordon(self, node: ScriptedNode, now: datetime, *, is_closed: bool) -> None:
        until = now + timedelta(seconds=CORDONED_SECONDS) if is_closed else None
        node.note(
            NodeSchedulingChanged(
                node=node.name, closed=is_closed, reason="", decision_id="", rules=(), since=now, told_at=now,
                valid_until=until,
            )
        )  # fmt: skip

    def _see(self, node: ScriptedNode, now: datetime, liveness: Liveness) -> None:
        node.note(
            NodeLivenessChanged(node=node.name, liveness=liveness, previous=None, last_report_at=now, changed_at=now)
        )

    async def _publish(self, bus: Bus, now: datetime, *, every: bool) -> None:
        """Publish what has changed, or all, until one is not acknowledged."""
        for node in self.nodes:
            for kind in in_order(node.events if every else node.changed):
                try:
                    await bus.publish(event_of(node.events[kind], source=FLEET, time=now))
                except SlackwaterError:
                    return
                node.changed.discard(kind)


def in_order(kinds: Any) -> Sequence[type[Payload]]:
    """Sorted by type: a set of classes has no order of its own."""
    return sorted(kinds, key=lambda kind: str(kind.TYPE))

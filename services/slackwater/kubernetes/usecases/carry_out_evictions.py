"""Carries out the evictions of nodes whose pods the API server evicts: plan, store, call, store the answer.

A completion is published in the transaction that stores the eviction's end, so there is one per id. A replica that
lost a partition stores nothing, so it calls nothing. After a crash between a call and its answer the pod itself says
whether the call had an effect.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.cluster_events import ClusterEvent, pod_subject
from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.port import ApiServer, BudgetRefused, EvictionRefused, RightMissing
from slackwater.apiserver.records import PodRecord
from slackwater.events.envelope import Event, event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome, completion_id
from slackwater.kubernetes.domain.eviction_plan import (
    CallAnswer,
    EvictionCall,
    EvictionMode,
    EvictionPhase,
    NodeEvictions,
    ServerAnswer,
    TrackedEviction,
    after_answer,
    plan_evictions,
)
from slackwater.kubernetes.metrics import EvictionMetrics
from slackwater.kubernetes.ports import EvictionStore, StoredEvictions
from slackwater.kubernetes.usecases.intents_read import IntentsRead
from slackwater.model.errors import Conflict, NotFound, SlackwaterError
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.loops import until_due
from slackwater.runtime.ownership import Lease
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

SERVICE: Final = "kubernetes"
AT_ONCE: Final = 4
"""Calls in flight: a server on two cores takes 200 per second."""
RETRY_SECONDS: Final = 1.0
GATHER_SECONDS: Final = 0.05
"""What changes within this time is planned together: a plan looks at all pods."""


class CarryOutEvictions:
    """The nodes of the partitions of this replica. `changed` is set whenever planning may have a new result."""

    def __init__(
        self,
        server: ApiServer,
        inventory: Inventory,
        intents: IntentsRead,
        store: EvictionStore,
        clock: Clock,
        meter: EvictionMetrics,
        mode: EvictionMode,
        owned: Callable[[], Collection[int]],
        changed: asyncio.Event,
        report: Callable[[ClusterEvent], None] = lambda _: None,
    ) -> None:
        self._report = report
        self._server = server
        self._inventory = inventory
        self._intents = intents
        self._store = store
        self._clock = clock
        self._meter = meter
        self._mode = mode
        self._owned = owned
        self._changed = changed
        self._stored: dict[str, StoredEvictions] = {}
        self._tracked: dict[str, tuple[TrackedEviction, ...]] = {}
        """Of every node with a row; newer than the row between a call and the storing of its answer."""

    @property
    def by_node(self) -> Mapping[str, tuple[TrackedEviction, ...]]:
        """The evictions of every node that has some."""
        return self._tracked

    async def acquire(self, leases: Sequence[Lease]) -> None:
        """Read the evictions of partitions that are held from now on. Raises Unavailable."""
        rows = await self._store.load([lease.partition for lease in leases])
        self._stored |= {row.node: row for row in rows}
        self._tracked |= {row.node: row.evictions for row in rows}
        self._changed.set()

    def drop(self, partitions: Collection[int]) -> None:
        """Forget partitions that another replica takes."""
        for node in [node for node in self._stored if partition_of(node) in partitions]:
            del self._stored[node], self._tracked[node]

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            try:
                again_at = await self.carry_out()
            except (SlackwaterError, OSError) as error:  # PostgreSQL is away, or the partition was lost
                log.warning("evictions not carried out", reason=str(error))
                again_at = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            await until_due(self._clock, self._changed, again_at)

    async def carry_out(self) -> datetime | None:
        """Make the calls that are due; returns when to plan again without news. Raises Unavailable, Conflict and Fenced
        if they cannot be stored: then none is made."""
        while True:
            now = self._clock.now()
            plan = plan_evictions(self._snapshot(), self._mode, now)
            await self._save(plan.tracked)
            if not plan.calls:
                self._meter.open(
                    sum(e.phase is not EvictionPhase.COMPLETED for tracked in self._tracked.values() for e in tracked)
                )
                return plan.again_at
            at_once = asyncio.Semaphore(AT_ONCE)

            async def call(due: EvictionCall, at_once: asyncio.Semaphore = at_once) -> None:
                async with at_once:
                    self._note(due, await self._call(due))

            async with asyncio.TaskGroup() as group:
                for due in plan.calls:
                    group.create_task(call(due))

    def _snapshot(self) -> list[NodeEvictions]:
        """The nodes of this replica with evictions; none before nodes and pods are listed."""
        if not self._inventory.nodes_synced:
            return []
        owned = self._owned()
        nodes = [node for node in {*self._intents.nodes(), *self._tracked} if partition_of(node) in owned]
        pods = self._pods_of(nodes)
        return [
            NodeEvictions(
                node,
                self._tracked.get(node, ()),
                self._intents.wanted(node) if self._intents.serves(node) else (),
                self._intents.may_begin(node),
                pods[node],
            )
            for node in sorted(nodes)
        ]

    def _pods_of(self, nodes: Collection[str]) -> Mapping[str, Mapping[str, PodRecord]]:
        found: dict[str, dict[str, PodRecord]] = defaultdict(dict)
        wanted = frozenset(nodes)
        for pod in self._inventory.pods.values() if wanted else ():
            if pod.node in wanted:
                found[pod.node][pod.uid] = pod
        return found

    async def _save(self, tracked: Mapping[str, tuple[TrackedEviction, ...]]) -> None:
        """Store what differs from its row, and publish what has ended since."""
        rows, events = list[StoredEvictions](), list[Event[EvictionCompleted]]()
        for node, evictions in tracked.items():
            row = self._stored.get(node, StoredEvictions(node))
            if evictions != row.evictions:
                rows.append(StoredEvictions(node, row.version, evictions))
                ended = {eviction.id for eviction in row.evictions if eviction.outcome is not None}
                events += [_completion(node, e) for e in evictions if e.outcome is not None and e.id not in ended]
        if not rows:
            return
        try:
            written = await self._store.save(rows, events)
        except Conflict:  # this replica's rows are old
            await self._reload([row.node for row in rows])
            raise
        self._stored |= {row.node: row for row in written}
        self._tracked |= {row.node: row.evictions for row in written}
        for event in events:
            self._meter.completed(event.data.outcome)
            self._report_end(event.data)
            log.info("eviction ended", node=event.data.node, id=event.data.id, outcome=event.data.outcome.value)

    async def _reload(self, nodes: Collection[str]) -> None:
        partitions = {partition_of(node) for node in nodes}
        rows = {row.node: row for row in await self._store.load(partitions)}
        for node in nodes:
            row = self._stored[node] = rows.get(node, StoredEvictions(node))
            self._tracked[node] = row.evictions

    async def _call(self, due: EvictionCall) -> CallAnswer:
        if self._clock.now() >= due.deadline:
            return CallAnswer(ServerAnswer.FAILED, "the deadline passed before the call")
        try:
            await self._server.evict_pod(due.pod, due.uid, due.grace_seconds, dry_run=due.dry_run)
        except BudgetRefused as error:
            return CallAnswer(ServerAnswer.BUDGET, error.message, error.retry_after_seconds)
        except NotFound:
            return CallAnswer(ServerAnswer.GONE)
        except Conflict:
            return CallAnswer(ServerAnswer.OTHER_POD)
        except RightMissing as error:
            return CallAnswer(ServerAnswer.FORBIDDEN, error.message)
        except EvictionRefused as error:
            return CallAnswer(ServerAnswer.REFUSED, error.message)
        except SlackwaterError as error:
            return CallAnswer(ServerAnswer.FAILED, error.message)
        return CallAnswer(ServerAnswer.ACCEPTED)

    def _report_end(self, end: EvictionCompleted) -> None:
        """Report an eviction that ended no pod. One that did was reported when it was accepted."""
        if end.outcome not in (EvictionOutcome.REFUSED, EvictionOutcome.EXPIRED, EvictionOutcome.FAILED):
            return
        pod = self._pods_of([end.node])[end.node].get(end.pod_uid)
        if pod is not None:
            subject = pod_subject(pod.key, pod.uid)
            note = f"not evicted for {end.writer}: {end.detail}"
            self._report(ClusterEvent(subject, f"Eviction{end.outcome.value.capitalize()}", "Evict", note, True))

    def _report_accepted(self, due: EvictionCall) -> None:
        found = (eviction for eviction in self._tracked.get(due.node, ()) if eviction.id == due.id)
        for eviction in found:
            note = f"evicted for {eviction.writer} from node {due.node}: slackwater why pod/{due.pod}"
            self._report(ClusterEvent(pod_subject(due.pod, due.uid), "EvictionAccepted", "Evict", note))

    def _note(self, due: EvictionCall, answer: CallAnswer) -> None:
        self._meter.called(answer.answer.value)
        log.info("eviction called", node=due.node, id=due.id, pod=due.pod, answer=answer.answer.value)
        if answer.answer is ServerAnswer.ACCEPTED and not due.dry_run:
            self._report_accepted(due)
        now = self._clock.now()
        self._tracked[due.node] = tuple(
            after_answer(eviction, answer, self._mode, now) if eviction.id == due.id else eviction
            for eviction in self._tracked.get(due.node, ())
        )


def _completion(node: str, eviction: TrackedEviction) -> Event[EvictionCompleted]:
    completed = EvictionCompleted(
        id=eviction.id,
        node=node,
        pod_uid=eviction.pod_uid,
        writer=eviction.writer,
        outcome=eviction.outcome or EvictionOutcome.FAILED,
        detail=eviction.detail[:MOST_DETAIL],
        completed_at=eviction.completed_at or eviction.deadline,
        decision_id=eviction.decision_id,
    )
    return event_of(
        completed,
        source=SERVICE,
        time=completed.completed_at,
        causedby=eviction.cause or None,
        traceparent=eviction.traceparent or None,
        id=completion_id(node, eviction.id, eviction.cause),
    )


MOST_DETAIL: Final = 500

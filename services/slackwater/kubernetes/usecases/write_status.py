"""Writes offers to the status of nodes: plan, record, apply; again after every change and when something is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.port import ApiServer, FieldsOwned
from slackwater.apiserver.records import ClusterNode, is_newer
from slackwater.kubernetes.domain.status_plan import (
    NodeStatusFacts,
    StatusPatch,
    StatusPolicy,
    StatusSnapshot,
    TokenBucket,
    plan_status_patches,
)
from slackwater.kubernetes.ports import DecisionStore, StatusMeter
from slackwater.kubernetes.usecases.offers_read import OffersRead
from slackwater.kubernetes.usecases.status_record import status_record
from slackwater.model.errors import SlackwaterError, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.loops import until_due
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

AT_ONCE: Final = 8
"""Writes in flight: a server on two cores takes 260 per second."""
SETTLE_SECONDS: Final = 10.0
"""After this long without the watch showing a write, the node is decided about anyway."""
KUBELET: Final = frozenset({"kubelet", "kwok"})
"""Field managers of kubelets, simulated ones too. They set extended resources to 0, or to what they have read, when
they register their node again. Their amounts are taken over, others' are not."""
RETRY_SECONDS: Final = 1.0
GATHER_SECONDS: Final = 0.05
"""What changes within this time is planned together: a plan looks at all nodes of the replica."""


class WriteStatus:
    """The nodes of the partitions of this replica. `changed` is set whenever planning may have a new result."""

    def __init__(
        self,
        server: ApiServer,
        inventory: Inventory,
        offers: OffersRead,
        decisions: DecisionStore,
        clock: Clock,
        meter: StatusMeter,
        policy: StatusPolicy,
        owned: Callable[[], Collection[int]],
        changed: asyncio.Event,
        refused_seconds: float = 30.0,
    ) -> None:
        self._server = server
        self._inventory = inventory
        self._offers = offers
        self._decisions = decisions
        self._clock = clock
        self._meter = meter
        self._policy = policy
        self._owned = owned
        self._changed = changed
        self._refused = timedelta(seconds=refused_seconds)
        self._bucket = TokenBucket()
        self._waits: dict[str, datetime] = {}
        self._failures: dict[str, int] = {}
        self._settling: dict[str, tuple[str, str, datetime]] = {}
        self.refusals: dict[str, str] = {}
        """Why the last write to a node was refused, by node."""

    async def __call__(self) -> None:
        """Work until cancelled."""
        while True:
            await self._clock.sleep(GATHER_SECONDS)
            self._changed.clear()
            try:
                again_at = await self.write()
            except (SlackwaterError, OSError) as error:  # PostgreSQL is away, or the partition was lost
                log.warning("node status not written", reason=str(error))
                again_at = self._clock.now() + timedelta(seconds=RETRY_SECONDS)
            await until_due(self._clock, self._changed, again_at)

    async def write(self) -> datetime | None:
        """Make the writes that are due now; returns when to plan again without news. Raises Unavailable and Fenced if
        they cannot be recorded: then none is made."""
        now = self._clock.now()
        snapshot = self.snapshot(now)
        plan = plan_status_patches(snapshot, now)
        self._meter.waiting(plan.deferred)
        if not plan.patches:
            return plan.again_at
        facts = {entry.node: entry for entry in snapshot.nodes}
        await self._decisions.record(
            [status_record(patch, facts[patch.node], self._policy, now) for patch in plan.patches]
        )
        self._bucket = plan.bucket
        at_once = asyncio.Semaphore(AT_ONCE)

        async def apply(patch: StatusPatch) -> None:
            async with at_once:
                await self._apply(patch)

        async with asyncio.TaskGroup() as group:
            for patch in plan.patches:
                group.create_task(apply(patch))
        return now if plan.deferred == 0 else plan.again_at

    def snapshot(self, now: datetime) -> StatusSnapshot:
        """The nodes of this replica as known now; none before nodes and pods are listed."""
        owned = self._owned()
        nodes = self._inventory.nodes.values() if self._inventory.nodes_synced else ()
        mine = (node for node in nodes if partition_of(node.key) in owned)
        return StatusSnapshot(tuple(self._facts(mine, now)), self._policy, self._bucket, self._offers.since)

    def _facts(self, nodes: Iterable[ClusterNode], now: datetime) -> Iterable[NodeStatusFacts]:
        for node in nodes:
            yield NodeStatusFacts(
                node=node.key,
                uid=node.uid,
                in_status=dict(node.lent),
                owned=node.owned,
                borrowed=dict(self._inventory.borrowed(node.key)),
                offer=self._offers.by_node.get(node.key),
                waits_until=self._waits.get(node.key),
                is_settling=self._is_settling(node, now),
            )

    def _is_settling(self, node: ClusterNode, now: datetime) -> bool:
        written = self._settling.get(node.key)
        if written is None:
            return False
        uid, version, until = written
        if uid == node.uid and is_newer(version, node.version) and now < until:
            return True
        del self._settling[node.key]
        return False

    async def _apply(self, patch: StatusPatch) -> None:
        try:
            node = await self._applied(patch)
        except SlackwaterError as error:
            self._note_refusal(patch, error)
        else:
            now = self._clock.now()
            self._settling[node.key] = node.uid, node.version, now + timedelta(seconds=SETTLE_SECONDS)
            self._inventory.note_written(node)
            self._waits.pop(node.key, None)
            self._failures.pop(node.key, None)
            self.refusals.pop(node.key, None)
            delay = None if patch.offer is None else (now - patch.offer.offered_at).total_seconds()
            self._meter.written(patch.reason.value, delay)

    async def _applied(self, patch: StatusPatch) -> ClusterNode:
        try:
            return await self._server.apply_lent(patch.node, patch.uid, patch.amounts, force=False)
        except FieldsOwned as error:
            if not error.managers <= KUBELET:
                raise
            return await self._server.apply_lent(patch.node, patch.uid, patch.amounts, force=True)

    def _note_refusal(self, patch: StatusPatch, error: SlackwaterError) -> None:
        """The pause doubles up to the longest one, except while the server is away. A server that has just started
        refuses rights that it has not read yet, so the first pause is short."""
        failures = self._failures.get(patch.node, 0)
        pause = min(self._refused, timedelta(seconds=RETRY_SECONDS * float(1 << min(failures, 20))))
        self._failures[patch.node] = 0 if isinstance(error, Unavailable) else failures + 1
        self._waits[patch.node] = self._clock.now() + pause
        self.refusals[patch.node] = error.message
        self._meter.refused(error.code)
        log.warning("write to node status refused", node=patch.node, reason=error.message)

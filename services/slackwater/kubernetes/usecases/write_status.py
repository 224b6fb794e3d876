"""Writes offers to the status of nodes: plan, record, apply; again after every change and when something is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from slackwater.apiserver.inventory import Inventory
from slackwater.apiserver.node_owners import BEFORE_FIRST_APPLY, KUBELETS
from slackwater.apiserver.port import ApiServer, FieldsOwned
from slackwater.apiserver.records import ClusterNode, is_newer
from slackwater.kubernetes.domain.status_plan import (
    ForeignAmount,
    NodeStatusFacts,
    StatusPatch,
    StatusPolicy,
    StatusSnapshot,
    TokenBucket,
    plan_status_patches,
)
from slackwater.kubernetes.metrics import KubernetesMetrics
from slackwater.kubernetes.ports import DecisionStore
from slackwater.kubernetes.usecases.offers_read import OffersRead
from slackwater.kubernetes.usecases.status_record import UNKNOWN_MANAGER, status_record
from slackwater.model.errors import Conflict, SlackwaterError, Unavailable
from slackwater.model.identifiers import partition_of
from slackwater.model.time import Clock
from slackwater.runtime.loops import until_due
from slackwater.telemetry.logs import get_logger

log = get_logger(__name__)

AT_ONCE: Final = 8
"""Writes in flight: a server on two cores takes 260 per second."""
SETTLE_SECONDS: Final = 10.0
"""After this long without the watch showing a write, the node is decided about anyway."""
CONFLICT_SECONDS: Final = 0.2
"""The node was written by another meanwhile; the watch shows it within milliseconds."""
CONFLICTS_IN_A_ROW: Final = 4
"""So many are no refusal."""
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
        meter: KubernetesMetrics,
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
        self._written: dict[str, tuple[str, Mapping[str, int]]] = {}
        """By node: the uid and the amounts of the last write."""
        self._refusals: dict[str, str] = {}
        self._foreign: tuple[ForeignAmount, ...] = ()

    @property
    def refusals(self) -> Mapping[str, str]:
        """By node: what is left to other managers, and why the last write was refused."""
        said: dict[str, list[str]] = {}
        for amount in self._foreign:
            whose = amount.manager or UNKNOWN_MANAGER
            said.setdefault(amount.node, []).append(f"{amount.name} belongs to {whose} and is left")
        for node, why in self._refusals.items():
            said.setdefault(node, []).append(why)
        return {node: "; ".join(parts) for node, parts in said.items()}

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
        self._meter.foreign(len(plan.foreign))
        self._foreign = plan.foreign
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
        for node in map(self._recognized, nodes):
            yield NodeStatusFacts(
                node=node.key,
                uid=node.uid,
                in_status=dict(node.lent),
                owned=node.owned,
                foreign=dict(node.foreign),
                residual={name: amount for _, name, amount in node.residual},
                borrowed=dict(self._inventory.borrowed(node.key)),
                offer=self._offers.by_node.get(node.key),
                waits_until=self._waits.get(node.key),
                is_settling=self._is_settling(node, now),
            )

    def _recognized(self, node: ClusterNode) -> ClusterNode:
        """The node with what this process has written as owned, also where its managed fields were removed."""
        uid, amounts = self._written.get(node.key, ("", {}))
        if uid != node.uid or not node.foreign:
            return node
        lent = dict(node.lent)
        own = {
            name
            for name, manager in node.foreign
            if manager in ("", BEFORE_FIRST_APPLY) and lent.get(name, -1) == amounts.get(name)
        }
        foreign = tuple((name, manager) for name, manager in node.foreign if name not in own)
        return replace(node, owned=node.owned | own, foreign=foreign)

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
            self._refusals.pop(node.key, None)
            self._written[node.key] = node.uid, patch.amounts
            delay = None if patch.offer is None else (now - patch.offer.offered_at).total_seconds()
            self._meter.written(patch.reason.value, delay)

    async def _applied(self, patch: StatusPatch) -> ClusterNode:
        known = self._inventory.nodes.get(patch.node)
        if known is None or known.uid != patch.uid:
            raise Conflict(f"node {patch.node} was deleted or created anew")
        node = self._recognized(known)
        try:
            return await self._server.apply_lent(node, patch.amounts, force=False)
        except FieldsOwned as error:
            removed_notes = {BEFORE_FIRST_APPLY} if node != known else set()
            if not error.managers <= KUBELETS | removed_notes:
                raise
            return await self._server.apply_lent(node, patch.amounts, force=True)

    def _note_refusal(self, patch: StatusPatch, error: SlackwaterError) -> None:
        """The pause doubles up to the longest one, except while the server is away. A server that has just started
        refuses rights that it has not read yet, so the first pause is short. A conflict is planned anew as soon as the
        watch has shown what the other wrote, and is a refusal when it does not end."""
        failures = self._failures.get(patch.node, 0)
        is_conflict = isinstance(error, Conflict)
        first = CONFLICT_SECONDS if is_conflict else RETRY_SECONDS
        pause = min(self._refused, timedelta(seconds=first * float(1 << min(failures, 20))))
        self._failures[patch.node] = 0 if isinstance(error, Unavailable) else failures + 1
        self._waits[patch.node] = self._clock.now() + pause
        self._meter.refused(error.code)
        if is_conflict and failures < CONFLICTS_IN_A_ROW:
            return
        self._refusals[patch.node] = error.message
        log.warning("write to node status refused", node=patch.node, reason=error.message)

"""Compares the claims of the owned trees with what agents report, notes what differs, and tells of it once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from slackwater.events.decision_recorded import decision_event
from slackwater.model.errors import Conflict
from slackwater.model.time import Clock
from slackwater.quota.domain.claim_runs import UnclaimedWorkload, unclaimed_decision
from slackwater.quota.domain.ledger_records import tree_key
from slackwater.quota.metrics import QuotaMetrics
from slackwater.quota.ports import LedgerStore
from slackwater.quota.usecases.claim_records import SERVICE, finding_record
from slackwater.quota.usecases.manage_claims import ManageClaims
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.telemetry.logs import get_logger

RECONCILE_SECONDS: Final = 2.0
log = get_logger(__name__)


class ReconcileClaims:
    """A tree is compared by the replica that owns it."""

    def __init__(
        self,
        claims: ManageClaims,
        trees: QuotaTrees,
        store: LedgerStore,
        clock: Clock,
        meter: QuotaMetrics,
        mine: Callable[[], Collection[str]],
    ) -> None:
        self._claims = claims
        self._trees = trees
        self._store = store
        self._clock = clock
        self._meter = meter
        self._mine = mine
        self._recorded: dict[str, dict[str, str]] = {}
        """By tree, the reason that was recorded last of each workload without a claim."""

    async def __call__(self) -> None:
        """Compare once. Raises Unavailable."""
        self._trees.running.discard_before(self._clock.now().timestamp())
        for tree in self._mine():
            try:
                await self._reconcile(tree)
            except Conflict as error:
                log.warning("a tree is compared with reports later", tree=tree_key(tree), reason=error.message)

    async def _reconcile(self, tree: str) -> None:
        observed = await self._claims.observed(tree)
        if observed.notices:
            await self._claims.of(tree).note(observed.notices)
        await self._record(tree, {workload.workload: workload for workload in observed.unclaimed})
        self._meter.unclaimed(tree_key(tree), [workload.reason.value for workload in observed.unclaimed])

    async def _record(self, tree: str, unclaimed: dict[str, UnclaimedWorkload]) -> None:
        recorded, now = self._recorded.get(tree, {}), self._clock.now()
        new = [workload for name, workload in sorted(unclaimed.items()) if recorded.get(name) != workload.reason.value]
        if new:
            async with self._store.unit_of_work() as unit:
                for workload in new:
                    decision = unclaimed_decision(workload, now.timestamp())
                    record = finding_record(decision, workload.evidence, tree, now)
                    await unit.publish(decision_event(record, None, SERVICE))
        self._recorded[tree] = {name: workload.reason.value for name, workload in unclaimed.items()}

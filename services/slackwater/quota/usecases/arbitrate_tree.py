"""Decides about the claims of one tree: read, decide, write if nothing changed meanwhile, else again.

Every path of quotas ends at the root, so one generation, the root's, keeps all writers of a tree apart. Requests that
come while a decision is written are decided about together in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from slackwater.fairshare.arbitration_plan import ArbitrationSettings, QueuePlace
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.fairshare.debts import accounts
from slackwater.fairshare.start_estimate import StartEstimate
from slackwater.fairshare.tree import ledger
from slackwater.model.errors import Conflict, Unavailable
from slackwater.model.time import Clock
from slackwater.quota.domain.claim_decisions import ClaimDecision
from slackwater.quota.domain.claim_requests import INTERRUPTED, ClaimRequest, Submission, require_place
from slackwater.quota.domain.ledger_records import KeptClaim, tree_key
from slackwater.quota.domain.reclaim_counts import with_reclaims
from slackwater.quota.domain.reclaim_grant import ReclaimGrant
from slackwater.quota.domain.tree_inputs import TreeInputs
from slackwater.quota.domain.tree_ledger import TreeLedger, Uses, uses, uses_to_write
from slackwater.quota.metrics import QuotaMetrics
from slackwater.quota.ports import LedgerStore, LedgerUnit
from slackwater.quota.usecases.decide_tree import (
    PendingRequest,
    TreeDecision,
    apply_requests,
    decide_tree,
    events_of,
    kept_claims,
    settle,
)
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.quota.usecases.release_history import ReleaseHistory
from slackwater.quota.usecases.shared_reads import SharedReads
from slackwater.quota.usecases.tree_view import ClaimStanding, TreeView, wait_note

MOST_TOGETHER: Final = 512
"""Requests of one transaction: more would hold up all others of this process, and the writers of other replicas."""
ATTEMPTS: Final = 8
"""Each fails only if another writer succeeded meanwhile."""


class ArbitrateTree:
    """The claims of one tree, as this replica knows them. A copy that lost a race is read again."""

    def __init__(
        self,
        tree: str,
        store: LedgerStore,
        trees: QuotaTrees,
        history: ReleaseHistory,
        clock: Clock,
        meter: QuotaMetrics,
        settings: ArbitrationSettings,
    ) -> None:
        self.tree = tree
        self._store = store
        self._trees = trees
        self._history = history
        self._clock = clock
        self._meter = meter
        self._settings = settings
        self._ledger: TreeLedger | None = None
        self._places: dict[str, QueuePlace] = {}
        self._pending: list[PendingRequest] = []
        self._turn = asyncio.Lock()
        self._reads = SharedReads(self._turn, store, partial(self._current, check=True))

    async def decide(self, request: ClaimRequest) -> PendingRequest:
        """Carry out a request and whatever can be decided with it; returns what came of it.

        Raises its error; Conflict where other replicas were faster ATTEMPTS times; Unavailable, then it may have been
        carried out: the same request again tells.
        """
        self._trees.require_pools()
        known = self._ledger
        if known is not None and isinstance(request, Submission) and request.id not in known.kept:
            require_place(known.index, request.quota)  # a decision would look at all that wait
        pending = PendingRequest(request)
        self._pending.append(pending)
        async with self._turn:
            await self._write_until(lambda: pending.is_done)
        if pending.error is not None:
            raise pending.error
        return pending

    async def round(self) -> None:
        """Decide again about what waits: time has passed, or the pool or a quota changed. Raises as `decide`."""
        self._trees.require_pools()
        async with self._turn:
            await self._write(self._batch(), check=True)

    async def note(self, requests: Sequence[ClaimRequest]) -> Sequence[PendingRequest]:
        """Carry out requests together; errors stay with their request. Raises as `decide` if nothing was written."""
        self._trees.require_pools()
        noted = [PendingRequest(request) for request in requests]
        self._pending += noted
        async with self._turn:
            await self._write_until(lambda: all(pending.is_done for pending in noted))
        return noted

    async def _write_until(self, done: Callable[[], bool]) -> None:
        while not done():
            batch = self._batch()
            if not batch:  # a request must never hold the turn for ever
                raise Unavailable(INTERRUPTED)
            await self._write(batch)

    def _batch(self) -> Sequence[PendingRequest]:
        batch, self._pending = self._pending[:MOST_TOGETHER], self._pending[MOST_TOGETHER:]
        return batch

    async def answer(self, change: Callable[[ReclaimGrant], ReclaimGrant]) -> None:
        """Take an answer to a request for a grant, and decide with it. Raises Conflict, Unavailable."""
        async with self._turn:
            known, self._ledger = self._ledger, None
            async with self._store.unit_of_work() as unit:
                before = stored = await unit.tree(self.tree)
                grant = change(stored.grant)
                if grant is not stored.grant:
                    stored = await unit.advance(replace(stored, grant=grant))
            if known is not None and known.stored.generation == before.generation:
                known.stored, self._ledger = stored, known
        await self.round()

    async def live(self) -> Sequence[QuotaClaim]:
        """Returns the claims that have not ended, as stored now. Raises Unavailable."""
        return await self._reads.read(lambda current, _: list(current.claims.values()))

    async def preview(self, request: ClaimRequest) -> KeptClaim:
        """Returns the claim as it would be, and changes nothing. Raises as `decide`."""
        self._trees.require_pools()
        async with self._turn, self._store.unit_of_work() as unit:
            inputs = self._inputs(await self._current(unit, check=True))
            current = inputs.current
            kept = current.kept.get(request.id) or (await unit.find([request.id])).get(request.id)
            claim = request.applied(None if kept is None else kept.claim, inputs.now_s)
            if kept is None:
                require_place(current.index, request.quota)
                assert claim is not None  # noqa: S101 - a request without a claim raises
                return inputs.tried(with_reclaims(claim, current.stored.reclaims, inputs.now_s))
            return kept if claim is None else inputs.tried(claim)

    async def view(self) -> TreeView:
        """Returns the tree as it is stored now. Raises Unavailable, BrokenTree."""
        self._trees.require_pools()
        return await self._reads.read(self._view)

    def _view(self, current: TreeLedger, _: Mapping[str, KeptClaim]) -> TreeView:
        layout, totals, index = self._trees.layout(self.tree), self._trees.totals(self.tree), current.index
        quotas = [replace(quota, own_request=index.requested.get(quota.name, {})) for quota in layout.order]
        return TreeView(
            self.tree,
            current.stored.generation,
            totals,
            {quota.name: quota for quota in layout.order},
            ledger(quotas, totals.total),
            dict(accounts(layout, index, totals.total)),
            list(current.kept.values()),
            dict(self._places_of(current)),
        )

    async def claim(self, name: str) -> ClaimStanding | None:
        """Returns a claim of this tree with its place in the queue; None if it is not kept any more. Raises
        Unavailable."""

        def standing(current: TreeLedger, ended: Mapping[str, KeptClaim]) -> ClaimStanding | None:
            kept = current.kept.get(name) or ended.get(name)
            return None if kept is None or kept.tree != self.tree else self._standing(kept, current)

        return await self._reads.read(standing, name)

    async def waiting(self, most: int) -> Sequence[ClaimStanding]:
        """Returns the first claims of the queues, those with the best places first. Raises Unavailable, Conflict."""

        def first(current: TreeLedger, _: Mapping[str, KeptClaim]) -> Sequence[ClaimStanding]:
            queued = self._inputs(current).queued(self._places_of(current))
            return [self._standing(kept, current) for kept in queued[:most]]

        return await self._reads.read(first)

    def standing(self, kept: KeptClaim) -> ClaimStanding:
        """Returns a claim that was just decided about with its place in the queue."""
        return self._standing(kept, self._ledger)

    def _standing(self, kept: KeptClaim, current: TreeLedger | None) -> ClaimStanding:
        place = None if current is None else self._places_of(current).get(kept.claim.id)
        estimate, note = None, ""
        if current is not None and place is not None:
            estimate = self._estimate(current, kept.claim, place, self._clock.now().timestamp())
            note = wait_note(kept.claim, place, current.stored.grant, self._settings)
        return ClaimStanding(kept, place, estimate, self._history.hit_rate(kept.claim.quota), note)

    def _estimate(
        self, current: TreeLedger, claim: QuotaClaim, place: QueuePlace, now_s: float
    ) -> StartEstimate | None:
        layout, total = self._trees.layout(self.tree), self._trees.totals(self.tree).total
        return self._history.estimate(claim, place, current.index, layout, total, now_s)

    def _places_of(self, current: TreeLedger) -> Mapping[str, QueuePlace]:
        """The places of the last plan; planned again where another replica made that."""
        waiting = {claim for queue in current.index.queued.values() for claim in queue}
        if not waiting <= self._places.keys():
            self._places = self._inputs(current).places()
        return self._places

    def _inputs(self, current: TreeLedger) -> TreeInputs:
        """What is in force of the tree now. A quota may move while a decision is written: that reads these alone."""
        trees, tree = self._trees, self.tree
        layout, totals, policies = trees.layout(tree), trees.totals(tree), trees.policies(tree)
        return TreeInputs(tree, current, layout, totals, policies, self._settings, self._clock.now())

    async def _write(self, batch: Sequence[PendingRequest], *, check: bool = False) -> None:
        try:
            await self._attempts(batch, check=check)
        except BaseException as error:
            self._ledger = None
            said = error if isinstance(error, Exception) else Unavailable(INTERRUPTED)
            for pending in batch:
                pending.error = pending.error or said
                pending.result = None
            if not batch or not isinstance(error, Exception):
                raise

    async def _attempts(self, batch: Sequence[PendingRequest], *, check: bool) -> None:
        for attempt in range(ATTEMPTS):
            for pending in batch:
                pending.begin_again()
            began = self._clock.now()
            try:
                async with self._store.unit_of_work() as unit:
                    decided = await self._decide(unit, batch, check=check or attempt > 0)
            except Conflict:
                known, self._ledger = self._ledger, None
                self._meter.conflict(tree_key(self.tree))
                await self._trees.follow(0 if known is None else known.stored.quotas_revision)
                continue
            seconds = (self._clock.now() - began).total_seconds()
            self._meter.decided(tree_key(self.tree), [decision.reason.value for decision in decided], seconds)
            refused = [pending for pending in batch if pending.error is not None]
            if refused and not check and attempt == 0:  # perhaps because of what another replica has changed since
                await self._attempts(refused, check=True)
            return
        said = f"tree {tree_key(self.tree)} changed {ATTEMPTS} times meanwhile; nothing was done, repeat the request"
        raise Conflict(said, code="quota_contended")

    async def _current(self, unit: LedgerUnit, *, check: bool) -> TreeLedger:
        """The claims, read again if this replica has none or, with `check`, if another has written since."""
        known = self._ledger
        if known is not None and check and (await unit.tree(self.tree)).generation != known.stored.generation:
            self._ledger = None
        if self._ledger is None:
            stored = await unit.tree(self.tree)  # first: what is written after it is noticed by its generation
            self._ledger = TreeLedger(stored, await unit.claims(self.tree))
            self._places = {}
        return self._ledger

    async def _decide(
        self, unit: LedgerUnit, batch: Sequence[PendingRequest], *, check: bool
    ) -> Sequence[ClaimDecision]:
        current = await self._current(unit, check=check)
        self._trees.require_revision(current.stored.quotas_revision)
        others = await unit.find(sorted({pending.request.id for pending in batch} - current.kept.keys()))
        inputs = self._inputs(current)
        used_before = uses(inputs.layout.quotas, current.index.used)
        requested = apply_requests(inputs, batch, others)
        decision = decide_tree(inputs, batch, requested, self._trees)
        self._places = {place.claim: place for place in decision.plan.places}
        kept = [] if decision.tree is None else await self._commit(unit, inputs, decision, used_before)
        settle(batch, {claim.claim.id: claim for claim in kept} | current.kept)
        return decision.explained

    async def _commit(
        self, unit: LedgerUnit, inputs: TreeInputs, decision: TreeDecision, used_before: Uses
    ) -> Sequence[KeptClaim]:
        """Write a decision and publish its events in one transaction; returns the claims that changed."""
        assert decision.tree is not None  # noqa: S101 - there is something to write
        current, quotas = inputs.current, inputs.layout.quotas
        stored = await unit.advance(decision.tree)
        kept = kept_claims(inputs, decision, partial(self._first_estimate, inputs))
        await unit.save(
            [claim for claim in kept if claim.claim.id not in current.kept],
            [claim for claim in kept if claim.claim.id in current.kept],
        )
        for claim in kept:
            current.index.put(claim.claim)
        touched = {claim.claim.quota for claim in kept}
        used = uses(quotas, current.index.used)
        await unit.save_uses(uses_to_write(quotas, self.tree, used_before, used, touched))
        news = [claim for claim in kept if _is_news(current.kept.get(claim.claim.id), claim)]
        for event in events_of(inputs, decision, news):
            await unit.publish(event)
        for claim in news:
            self._measure(current.kept.get(claim.claim.id), claim, inputs.now)
        current.stored = stored
        for claim in kept:
            current.put(claim)
        return kept

    def _first_estimate(self, inputs: TreeInputs, claim: QuotaClaim) -> StartEstimate | None:
        place = self._places.get(claim.id)
        return None if place is None else self._estimate(inputs.current, claim, place, inputs.now_s)

    def _measure(self, before: KeptClaim | None, after: KeptClaim, now: datetime) -> None:
        """Measure a reclaim that took effect."""
        order = after.claim.reclaim
        if before is not None and before.claim.state is ClaimState.RECLAIMING and order is not None:
            late = now.timestamp() > order.deadline_s
            self._meter.reclaimed(tree_key(self.tree), now.timestamp() - order.since_s, late=late)


def _is_news(before: KeptClaim | None, after: KeptClaim) -> bool:
    return before is None or before.claim.state is not after.claim.state

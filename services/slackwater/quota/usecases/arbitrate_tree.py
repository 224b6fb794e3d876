"""Decides about the claims of one tree: read, decide, write if nothing changed meanwhile, else again.

Every path of quotas ends at the root, so one generation, the root's, keeps all writers of a tree apart. Requests that
come while a decision is written are decided about together in the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import decision_event
from slackwater.events.envelope import event_of
from slackwater.fairshare.arbitration import PreparedSnapshot, apply_plan, arbitrate, plain_snapshot
from slackwater.fairshare.arbitration_plan import (
    ArbitrationPlan,
    ArbitrationSettings,
    QueuePlace,
    WaitReason,
)
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim
from slackwater.fairshare.debts import accounts
from slackwater.fairshare.tree import ledger
from slackwater.model.errors import Conflict, SlackwaterError, Unavailable
from slackwater.model.time import Clock
from slackwater.quota.domain.claim_decisions import ClaimDecision, decisions_of
from slackwater.quota.domain.claim_requests import INTERRUPTED, ClaimRequest
from slackwater.quota.domain.claim_runs import RunNotice, finding_decision
from slackwater.quota.domain.ledger_records import ClaimReasoning, KeptClaim, StoredTree, tree_key
from slackwater.quota.domain.reclaim_counts import count_reclaims, with_reclaims
from slackwater.quota.domain.reclaim_leave import ReclaimLeave
from slackwater.quota.domain.tree_ledger import TreeLedger, uses, uses_to_write
from slackwater.quota.ports import LedgerStore, LedgerUnit, QuotaMeter
from slackwater.quota.usecases.ask_reclaims import reclaim_requests
from slackwater.quota.usecases.claim_records import SERVICE, claim_event, claim_records, finding_record
from slackwater.quota.usecases.quota_trees import QuotaTrees
from slackwater.quota.usecases.release_history import ReleaseHistory
from slackwater.quota.usecases.shared_reads import SharedReads
from slackwater.quota.usecases.tree_view import ClaimStanding, TreeView, wait_note

MOST_TOGETHER: Final = 512
"""Requests of one transaction: more would hold up all others of this process, and the writers of other replicas."""
ATTEMPTS: Final = 8
"""Each fails only if another writer succeeded meanwhile."""


@dataclass(slots=True)
class PendingRequest:
    """One request, and what came of it."""

    request: ClaimRequest
    result: KeptClaim | None = None
    error: Exception | None = None
    is_new: bool = False
    before: QuotaClaim | None = None
    after: QuotaClaim | None = None
    """The claim that the request found, and what it made of it; None if it changed nothing."""

    @property
    def is_done(self) -> bool:
        return self.result is not None or self.error is not None


class ArbitrateTree:
    """The claims of one tree, as this replica knows them. A copy that lost a race is read again."""

    def __init__(
        self,
        tree: str,
        store: LedgerStore,
        trees: QuotaTrees,
        history: ReleaseHistory,
        clock: Clock,
        meter: QuotaMeter,
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

    async def answer(self, change: Callable[[ReclaimLeave], ReclaimLeave]) -> None:
        """Take an answer to a request for leave, and decide with it. Raises Conflict, Unavailable."""
        async with self._turn:
            known, self._ledger = self._ledger, None
            async with self._store.unit_of_work() as unit:
                before = stored = await unit.tree(self.tree)
                leave = change(stored.leave)
                if leave is not stored.leave:
                    stored = await unit.advance(replace(stored, leave=leave))
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
            current = await self._current(unit, check=True)
            stored = current.kept.get(request.id) or (await unit.find([request.id])).get(request.id)
            now_s = self._clock.now().timestamp()
            wanted = request.applied(None if stored is None else stored.claim, now_s)
            if wanted is None:
                assert stored is not None  # noqa: S101 - a request without a claim raises
                return stored
            if stored is None:
                wanted = with_reclaims(wanted, current.stored.reclaims, now_s)
            index = ClaimIndex([*current.claims.values(), wanted])
            plan = arbitrate(self._snapshot(index, current.stored, now_s), now_s)
            after = apply_plan(plan, index.by_id, now_s).get(request.id, wanted)
            reclaims = [
                decision for decision in self._decisions(plan, index, {request.id}) if decision.claim == request.id
            ]
            because = ClaimReasoning("", reclaims[0].reason.value, reclaims[0].message) if reclaims else None
            return KeptClaim(self.tree, after, because)

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
            places = self._places_of(current)
            queued = [stored for stored in current.kept.values() if stored.claim.state is ClaimState.QUEUED]
            last = len(queued) + 1  # of a claim that the owner of the tree is about to refuse
            placed = {name: place.position for name, place in places.items()}
            queued.sort(key=lambda stored: (placed.get(stored.claim.id, last), stored.claim.quota))
            return [self._standing(stored, current) for stored in queued[:most]]

        return await self._reads.read(first)

    def standing(self, kept: KeptClaim) -> ClaimStanding:
        """Returns a claim that was just decided about with its place in the queue."""
        return self._standing(kept, self._ledger)

    def _standing(self, kept: KeptClaim, current: TreeLedger | None) -> ClaimStanding:
        place = None if current is None else self._places_of(current).get(kept.claim.id)
        estimate, note = None, ""
        if current is not None and place is not None:
            layout, total = self._trees.layout(self.tree), self._trees.totals(self.tree).total
            now_s = self._clock.now().timestamp()
            estimate = self._history.estimate(kept.claim, place, current.index, layout, total, now_s)
            note = wait_note(kept.claim, place, current.stored.leave, self._settings)
        return ClaimStanding(kept, place, estimate, self._history.hit_rate(kept.claim.quota), note)

    def _places_of(self, current: TreeLedger) -> Mapping[str, QueuePlace]:
        """The places of the last plan; planned again where another replica made that."""
        waiting = {claim for queue in current.index.queued.values() for claim in queue}
        if not waiting <= self._places.keys():
            now_s = self._clock.now().timestamp()
            plan = arbitrate(self._snapshot(current.index, current.stored, now_s), now_s)
            self._places = {place.claim: place for place in plan.places}
            for admission in plan.admissions:  # the owner of the tree is about to
                self._places[admission.claim] = QueuePlace(
                    admission.claim, admission.quota, 1, 1, WaitReason.KEPT, (), reserved=True, ahead={}
                )
        return self._places

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
                pending.error = pending.result = None
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
        others = await self._others(unit, batch, current)
        index, now = current.index, self._clock.now()
        quotas = self._trees.layout(self.tree).quotas  # of the plan too: a quota may move while this is written
        before = uses(quotas, index.used)
        changed = self._requested(current, batch, others, now.timestamp())
        snapshot = self._snapshot(index, current.stored, now.timestamp())
        plan = arbitrate(snapshot, now.timestamp())
        queued = {name for name, claim in changed.items() if claim.state is ClaimState.QUEUED}
        decisions = self._decisions(plan, index, queued)
        records = self._records(decisions, snapshot, current.stored.generation + 1, now)
        self._places = {place.claim: place for place in plan.places}
        after = {**changed, **apply_plan(plan, index.by_id, now.timestamp())}
        findings = self._findings(batch, now)
        reasons = {**findings, **records}

        def decision_of(claim: str) -> str:
            stored = current.kept.get(claim)
            told = reasons.get(claim)
            return told.id if told is not None else stored.because.decision if stored and stored.because else ""

        leave, requests = reclaim_requests(self.tree, plan, after, current, self._trees, decision_of, now)
        is_older = current.stored.leave is not leave or plan.over_since_s != current.stored.over_since_s
        if after or is_older:
            counts = count_reclaims(current.stored.reclaims, after.values(), now.timestamp())
            tree = replace(current.stored, over_since_s=dict(plan.over_since_s), leave=leave, reclaims=counts)
            stored = await unit.advance(tree)
            kept = [self._kept(claim, current, reasons, now) for claim in after.values()]
            await self._save(unit, current, kept)
            touched = {each.claim.quota for each in kept}
            await unit.save_uses(uses_to_write(quotas, self.tree, before, uses(quotas, index.used), touched))
            for decided in (*findings.values(), *records.values()):
                await unit.publish(decision_event(decided, None, SERVICE))
            for payload in requests:
                await unit.publish(event_of(payload, source=SERVICE, time=now))
            for each in kept:
                if _is_news(current.kept.get(each.claim.id), each):
                    await unit.publish(event_of(claim_event(each, now), source=SERVICE, time=now))
                self._measure(current.kept.get(each.claim.id), each, now)
            current.stored = stored
            ended = {each.claim.id: each for each in kept}
            for each in kept:
                current.put(each)
            self._settle(batch, ended | current.kept)
        else:
            self._settle(batch, current.kept)
        return decisions

    def _measure(self, old: KeptClaim | None, new: KeptClaim, now: datetime) -> None:
        """Measure a reclaim that took effect."""
        order = new.claim.reclaim
        if old is not None and old.claim.state is ClaimState.RECLAIMING and order is not None and _is_news(old, new):
            late = now.timestamp() > order.deadline_s
            self._meter.reclaimed(tree_key(self.tree), now.timestamp() - order.since_s, late=late)

    def _findings(self, batch: Sequence[PendingRequest], now: datetime) -> dict[str, DecisionRecord]:
        """The records of what agents' reports say of claims, by claim."""
        records = {}
        for pending in batch:
            notice, before, after = pending.request, pending.before, pending.after
            if isinstance(notice, RunNotice) and after is not None:
                decision = finding_decision(before, after, now.timestamp(), has_ended=notice.has_ended)
                if decision is not None:
                    record = finding_record(decision, notice.evidence, self.tree, now, notice.id, before)
                    records[notice.id] = record
        return records

    def _records(
        self, decisions: Sequence[ClaimDecision], snapshot: PreparedSnapshot, generation: int, now: datetime
    ) -> Mapping[str, DecisionRecord]:
        """The records by claim, with what was read before the plan."""
        return claim_records(decisions, plain_snapshot(snapshot), self.tree, generation, now) if decisions else {}

    def _kept(
        self, claim: QuotaClaim, current: TreeLedger, records: Mapping[str, DecisionRecord], now: datetime
    ) -> KeptClaim:
        old, decided = current.kept.get(claim.id), records.get(claim.id)
        is_same_state = old is not None and claim.state in (old.claim.state, ClaimState.STARTED)
        because = old.because if old is not None and is_same_state else None
        if decided is not None:
            because = ClaimReasoning(decided.id, decided.reason.value, decided.remaining_because)
        estimate = None if old is None else old.estimate
        if old is None and claim.id in self._places:
            layout, total = self._trees.layout(self.tree), self._trees.totals(self.tree).total
            place = self._places[claim.id]
            estimate = self._history.estimate(claim, place, current.index, layout, total, now.timestamp())
        return KeptClaim(self.tree, claim, because, estimate)

    async def _save(self, unit: LedgerUnit, current: TreeLedger, kept: Sequence[KeptClaim]) -> None:
        new = [stored for stored in kept if stored.claim.id not in current.kept]
        await unit.save(new, [stored for stored in kept if stored.claim.id in current.kept])
        for stored in kept:
            current.index.put(stored.claim)

    async def _others(
        self, unit: LedgerUnit, batch: Sequence[PendingRequest], current: TreeLedger
    ) -> dict[str, KeptClaim]:
        """Ended claims, and those of other trees, that requests name."""
        ids = {pending.request.id for pending in batch} - current.kept.keys()
        return dict(await unit.find(sorted(ids)))

    def _requested(
        self, current: TreeLedger, batch: Sequence[PendingRequest], others: dict[str, KeptClaim], now_s: float
    ) -> dict[str, QuotaClaim]:
        """The claims that the requests change, which the index then has; errors stay with their request."""
        changed: dict[str, QuotaClaim] = {}
        for pending in batch:
            name = pending.request.id
            other = others.get(name)
            found = changed.get(name) or current.claims.get(name) or (None if other is None else other.claim)
            pending.before, pending.after = found, None
            try:
                pending.after = claim = pending.request.applied(found, now_s)
            except SlackwaterError as error:
                pending.error = error
                continue
            if claim is None:
                pending.result = current.kept.get(name) or other
            else:
                pending.is_new = found is None
                if found is None:
                    claim = with_reclaims(claim, current.stored.reclaims, now_s)
                changed[name] = claim
                current.index.put(claim)
        return changed

    def _settle(self, batch: Sequence[PendingRequest], kept: Mapping[str, KeptClaim]) -> None:
        for pending in batch:
            if pending.error is None:
                pending.result = kept.get(pending.request.id) or pending.result

    def _snapshot(self, index: ClaimIndex, stored: StoredTree, now_s: float) -> PreparedSnapshot:
        totals = self._trees.totals(self.tree)
        return PreparedSnapshot(
            trees={self.tree: self._trees.layout(self.tree)},
            totals={self.tree: totals.total},
            index=index,
            settings=self._settings,
            queue_policies=self._trees.policies(self.tree),
            over_since_s=stored.over_since_s,
            evictions_allowed={},
            granted=stored.leave.usable(now_s),
            refused=stored.leave.refused,
            reserved={self.tree: totals.reserved} if totals.reserved else {},
        )

    def _decisions(self, plan: ArbitrationPlan, index: ClaimIndex, told: set[str]) -> Sequence[ClaimDecision]:
        if not (plan.admissions or plan.refusals or plan.reclaims or told):
            return ()
        layout = self._trees.layout(self.tree)
        runtime = layout.runtimes(index.requested, self._trees.totals(self.tree).total)
        return list(decisions_of(plan, runtime, uses(layout.quotas, index.used), told))


def _is_news(old: KeptClaim | None, new: KeptClaim) -> bool:
    return old is None or old.claim.state is not new.claim.state

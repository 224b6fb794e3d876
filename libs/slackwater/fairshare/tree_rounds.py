"""The rounds of one tree: see slackwater.fairshare.arbitration for their order and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from slackwater.fairshare.admission import LimitExcess, QuotaLimit, shortages
from slackwater.fairshare.arbitration_plan import (
    AdmissionBasis,
    ArbitrationPlan,
    ArbitrationSettings,
    ClaimAdmission,
    ClaimReclaim,
    QueuePlace,
    WaitReason,
    may_borrow_s,
)
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claim_intake import ClaimIntake
from slackwater.fairshare.claims import QuotaClaim, ReclaimReason
from slackwater.fairshare.occupancy import Occupancy
from slackwater.fairshare.queue_order import QueuePolicy, in_order
from slackwater.fairshare.queue_places import queue_places
from slackwater.fairshare.tree import ROOT, Amounts, added
from slackwater.fairshare.tree_layout import Figures, TreeLayout
from slackwater.fairshare.tree_state import TreeState
from slackwater.fairshare.turn_order import TurnOrder
from slackwater.fairshare.victims import choose, in_reclaim_order, newest_first, reclaim_of, undo
from slackwater.fairshare.waiting_queue import QueueCursor, Shape, shape_of


class TreeRounds:
    """One arbitration of one tree; `plan` once."""

    def __init__(
        self,
        layout: TreeLayout,
        index: ClaimIndex,
        total: Amounts,
        *,
        now_s: float,
        settings: ArbitrationSettings,
        queue_policies: Mapping[str, QueuePolicy],
        over_since_s: Mapping[str, float],
        evictions_allowed: int | None,
        granted: Collection[str] | None = None,
        refused: Collection[str] | None = None,
        apart: Amounts | None = None,
    ) -> None:
        self._layout = layout
        self._index = index
        self._now_s = now_s
        self._settings = settings
        self._policies = queue_policies
        self._budget = evictions_allowed
        self._granted = granted
        self._refused = refused
        self._intake = ClaimIntake(layout, index, total, settings.aging_s)
        never = [index.by_id[refusal.claim] for refusal in self._intake.refusals]
        aside = self._intake.set_aside()
        self._state = TreeState(layout, index, total, [*never, *aside], apart)
        self._queues = self._intake.queues
        self._over_since = self._clocks(over_since_s)
        self._admissions: list[ClaimAdmission] = []
        self._admitted: set[str] = set()
        self._reclaims: list[ClaimReclaim] = []
        self._ungranted: list[ClaimReclaim] = []
        self._reserved: dict[str, QuotaClaim] = {}
        self._kept: set[str] = set()
        """Claims that what is free is kept for; they are not tried again."""
        self._reasons: dict[str, WaitReason] = {}
        self._draining: QuotaClaim | None = None
        self._victims: set[str] = set()
        self._candidates: dict[bool, list[QuotaClaim]] = {}

    def plan(self, *, with_places: bool) -> ArbitrationPlan:
        """Runs the rounds."""
        self._restore_pool()
        self._serve_reserved()
        self._serve(self._state.entitled, AdmissionBasis.WITHIN_MIN)
        self._serve_draining()
        self._serve(self._state.runtime, AdmissionBasis.WITHIN_RUNTIME)
        self._reclaim_for_entitled()
        self._serve(None, AdmissionBasis.BORROWED)
        if self._settings.preempts:
            self._preempt()
        places: Sequence[QueuePlace] = ()
        if with_places:
            places = queue_places(
                self._state,
                self._waiting(),
                blocks=self._blocks,
                reasons=self._reasons,
                reserved=self._reserved,
                beyond_pool=self._intake.excesses,
            )
        return ArbitrationPlan(
            admissions=self._admissions,
            refusals=self._intake.refusals,
            places=places,
            reclaims=self._reclaims,
            reservations=sorted(self._reserved),
            released_reservations=self._released(),
            evictions=(),
            ungranted=self._ungranted,
            over_since_s=self._over_since,
        )

    def _waiting(self) -> dict[str, list[QuotaClaim]]:
        """Returns all that wait, those beyond the pool included, in order."""
        return {
            quota: list(self._cursor({**self._queues.get(quota, {}), **self._intake.beyond_pool.get(quota, {})}))
            for quota in {**self._queues, **self._intake.beyond_pool}
        }

    def _released(self) -> list[str]:
        """Returns the claims of this tree that had a reservation, still wait and have none now."""
        decided = {*self._reserved, *self._admitted, *(refusal.claim for refusal in self._intake.refusals)}
        return sorted(
            claim.id
            for claim in self._index.reserved.values()
            if claim.quota in self._layout.quotas and claim.id not in decided
        )

    def _cursor(self, shapes: Mapping[Shape, list[QuotaClaim]]) -> QueueCursor:
        return QueueCursor(shapes, self._settings.aging_s, self._admitted)

    def _heads(self) -> dict[str, QuotaClaim]:
        """Returns the first waiting claim of each quota that has one."""
        heads = {quota: self._cursor(shapes).peek() for quota, shapes in self._queues.items()}
        return {quota: claim for quota, claim in heads.items() if claim is not None}

    def _clocks(self, before: Mapping[str, float]) -> dict[str, float]:
        """Returns since when each quota uses more than its runtime. A time ahead is of a clock that was wrong: waiting
        for it would hold reclaims back."""
        state = self._state
        return {
            quota: min(before.get(quota, self._now_s), self._now_s)
            for quota in sorted(self._index.holding.keys() & self._layout.quotas.keys())
            if state.above_runtime(quota, state.now.of(quota))
        }

    def _policy(self, quota: str) -> QueuePolicy:
        return self._policies.get(quota, self._settings.queue_policy)

    def _admit(self, claim: QuotaClaim, amounts: Amounts, basis: AdmissionBasis) -> None:
        share = self._state.share(claim.quota)
        self._state.admit(claim, amounts)
        self._admitted.add(claim.id)
        self._admissions.append(ClaimAdmission(claim.id, claim.quota, dict(amounts), basis, dict(claim.request), share))

    def _keep(self, claim: QuotaClaim, reason: WaitReason, *, reserved: bool) -> None:
        self._state.keep(claim, claim.request)
        self._kept.add(claim.id)
        self._reasons[claim.id] = reason
        if reserved:
            self._reserved[claim.id] = claim

    def _fits_afterwards(self, claim: QuotaClaim) -> bool:
        return self._state.after.fits(claim.quota, claim.request) and not self._is_bound(claim)

    def _is_bound(self, claim: QuotaClaim) -> bool:
        """Returns whether claims that are not preemptible use up its min, which no reclaim changes."""
        return claim.non_preemptible and bool(self._state.min_excesses(claim, claim.request))

    # Admission

    def _serve_reserved(self) -> None:
        """In a strict queue, the first that has to wait on blocks those behind it."""
        by_quota: dict[str, list[QuotaClaim]] = {}
        for claim in self._index.reserved.values():
            if shape_of(claim) in self._queues.get(claim.quota, {}):
                by_quota.setdefault(claim.quota, []).append(claim)
        for quota in sorted(by_quota):
            blocked = False
            for claim in in_order(by_quota[quota], self._settings.aging_s):
                if not blocked and self._state.fits(claim, claim.request):
                    self._admit(claim, claim.request, AdmissionBasis.RESERVED)
                    continue
                if self._fits_afterwards(claim):
                    self._keep(claim, WaitReason.RECLAIMING, reserved=True)
                blocked = self._policy(quota) is QueuePolicy.STRICT_FIFO

    def _serve(self, limits: Figures | None, basis: AdmissionBasis) -> None:
        """Admits claims within these limits of their quota, in turn; None: whatever fits."""
        cursors = {quota: self._cursor(shapes) for quota, shapes in self._queues.items()}
        order = TurnOrder(self._layout, cursors, self._state.share)
        while (quota := order.next()) is not None:
            if self._serve_next(quota, cursors[quota], limits, basis):
                order.served(quota)
            else:
                order.done(quota)

    def _serve_next(self, quota: str, cursor: QueueCursor, limits: Figures | None, basis: AdmissionBasis) -> bool:
        """Admits the next claim of a quota that can be; returns False if there is none. Room only shrinks meanwhile."""
        while (claim := cursor.peek()) is not None:
            kept = claim.id in self._kept
            amounts = None if kept else self._amounts(claim, limits)
            if amounts is not None:
                cursor.advance()
                self._admit_in_order(claim, amounts, basis)
                return True
            if self._blocks(claim):
                return False
            if kept:
                cursor.advance()
            else:
                cursor.drop_shape()
        return False

    def _admit_in_order(self, claim: QuotaClaim, amounts: Amounts, basis: AdmissionBasis) -> None:
        """Admits the claim; where one of its shape before it waits for a reclaim, that one, and the reclaim is for the
        claim then."""
        key = (claim.quota, shape_of(claim))
        alike = [each for each in self._reserved.values() if (each.quota, shape_of(each)) == key]
        first = next(iter(in_order(alike, self._settings.aging_s)), None)
        if first is None or (basis is AdmissionBasis.BORROWED and self._backs_off(first)):
            self._admit(claim, amounts, basis)
            return
        self._state.release_kept(first, first.request)
        self._kept.discard(first.id)
        del self._reserved[first.id], self._reasons[first.id]
        self._admit(first, amounts, basis)
        self._keep(claim, WaitReason.RECLAIMING, reserved=True)
        for place, each in enumerate(self._reclaims):
            if each.for_claim == first.id:
                self._reclaims[place] = replace(each, for_claim=claim.id)

    def _amounts(self, claim: QuotaClaim, limits: Figures | None) -> Amounts | None:
        """Returns what the claim is admitted with now, None if it waits."""
        state = self._state
        if limits is None and self._backs_off(claim):
            self._reasons.setdefault(claim.id, WaitReason.BACKOFF)
            return None
        if limits is None or state.within(limits, claim.quota, claim.request):
            return claim.request if state.fits(claim, claim.request) else state.largest(claim, limits)
        if claim.partial_minimum is None or limits is state.entitled or state.fits(claim, claim.request):
            return None  # if at all, whole in a later round
        return state.largest(claim, limits)

    def _blocks(self, claim: QuotaClaim) -> bool:
        """Returns whether those behind a waiting claim have to wait too."""
        if self._policy(claim.quota) is QueuePolicy.STRICT_FIFO:
            return True
        if self._now_s - claim.submitted_s <= self._settings.starvation_s or self._is_bound(claim):
            return False
        runtime = self._state.runtime[claim.quota]
        return all(amount <= runtime.get(resource, 0) for resource, amount in claim.request.items())

    def _backs_off(self, claim: QuotaClaim) -> bool:
        return self._now_s < may_borrow_s(claim, self._settings)

    def _serve_draining(self) -> None:
        """Keeps what becomes free for the head that has waited longest, if that can be enough one day."""
        state = self._state
        heads = [claim for claim in self._heads().values() if claim.id not in self._kept]
        late = [claim for claim in heads if self._now_s - claim.submitted_s > self._settings.drain_s]
        for claim in sorted(late, key=lambda claim: (claim.submitted_s, claim.id)):
            if state.within(state.runtime, claim.quota, claim.request) or self._is_bound(claim):
                continue
            if state.fits(claim, claim.request):
                self._admit(claim, claim.request, AdmissionBasis.BORROWED)
                break
            if self._can_drain(claim):
                self._keep(claim, WaitReason.CAPACITY, reserved=False)
                self._draining = claim
                break

    def _can_drain(self, claim: QuotaClaim) -> bool:
        """Returns whether the claim fits once the others use no more than they are entitled to."""
        state = self._state
        stays: dict[str, Amounts] = {
            quota: {key: min(amount, state.entitled[quota].get(key, 0)) for key, amount in used.items()}
            for quota, used in self._index.used.items()
            if quota != claim.quota and quota in self._layout.quotas
        }
        return Occupancy(self._layout, state.entitled, state.total, stays | state.apart).fits(
            claim.quota, claim.request
        )

    # Reclaim

    def _restore_pool(self) -> None:
        """Where the pool shrank below what is used: quotas above their runtime give back, after the delay."""
        state = self._state

        def missing() -> list[LimitExcess]:
            return [
                LimitExcess(ROOT, QuotaLimit.TOTAL, resource, amount, 0, state.total.get(resource, 0))
                for resource, amount in state.after.of(ROOT).items()
                if amount > state.total.get(resource, 0)
            ]

        lacking = missing()
        if not lacking:
            return
        victims = choose(state, self._reclaimable(due=True), missing, bounded_by_runtime=True, all_or_none=False) or []
        for victim in victims:
            if self._order([victim], ReclaimReason.POOL_SHRUNK, None, shortages(lacking)) is not None:
                undo(state, [victim])

    def _reclaim_for_entitled(self) -> None:
        """Reclaims for what is within a min or runtime and has no room, and keeps what is free for it.

        Nothing is reclaimed because of what is kept for a claim that drains the tree.
        """
        state = self._state
        if self._draining is not None:
            state.release_kept(self._draining, self._draining.request)
        failed: list[tuple[QuotaClaim, WaitReason]] = []
        for quota in sorted(self._queues, key=lambda quota: (state.share(quota), quota)):
            failed += self._reclaim_in(quota)
        for claim, waits in failed:
            self._keep(claim, waits, reserved=False)
        if self._draining is not None:
            state.keep(self._draining, self._draining.request)

    def _reclaim_in(self, quota: str) -> Iterator[tuple[QuotaClaim, WaitReason]]:
        """Yields the entitled claims of a queue for which nothing can be reclaimed now, and why."""
        pending: Amounts = {}
        cursor = self._cursor(self._queues[quota])
        while (claim := cursor.peek()) is not None:
            if claim.id in self._kept:
                cursor.advance()
                continue
            reason = self._entitlement(claim, added(claim.request, pending))
            outcome = None if reason is None else self._reclaim_for(claim, reason)
            if outcome is not WaitReason.RECLAIMING and self._blocks(claim):
                cursor = self._cursor({})
            elif outcome is None:
                cursor.drop_shape()
            else:
                cursor.advance()
            if outcome not in (None, WaitReason.RECLAIMING):
                pending = added(pending, claim.request)
            if outcome not in (None, WaitReason.RECLAIMING, WaitReason.KEPT):
                yield claim, outcome

    def _entitlement(self, claim: QuotaClaim, amounts: Amounts) -> ReclaimReason | None:
        if self._is_bound(claim):
            return None
        if self._state.within(self._state.entitled, claim.quota, amounts):
            return ReclaimReason.LENDER_MIN
        if self._state.within(self._state.runtime, claim.quota, amounts):
            return ReclaimReason.ABOVE_RUNTIME
        return None

    def _reclaim_for(self, claim: QuotaClaim, reason: ReclaimReason) -> WaitReason:
        """Orders what is needed and reserves it, if that lets the claim in; returns why the claim waits."""
        state = self._state

        def missing() -> Sequence[LimitExcess]:
            return state.after.excesses(claim.quota, claim.request)

        lacking = missing()
        if not lacking and state.now.fits(claim.quota, claim.request):
            return WaitReason.KEPT
        due_only, needed = reason is ReclaimReason.ABOVE_RUNTIME, state.after.shortfall(claim.quota, claim.request)
        victims = choose(state, self._reclaimable(due=due_only), missing, bounded_by_runtime=True)
        if victims is None:
            later = due_only and any(not self._is_due(quota) for quota in self._over_since)
            return WaitReason.DELAY if later else WaitReason.CAPACITY
        held = self._order(victims, reason, claim, needed)
        if held is not None:
            undo(state, victims)
            return held
        self._keep(claim, WaitReason.RECLAIMING, reserved=True)
        return WaitReason.RECLAIMING

    def _reclaimable(self, *, due: bool) -> Iterator[QuotaClaim]:
        """Yields what quotas above their runtime may have to give; `due`: above it for longer than the delay."""
        if due not in self._candidates:
            quotas = [quota for quota in self._over_since if not due or self._is_due(quota)]
            self._candidates[due] = in_reclaim_order(self._state, quotas)
        yield from (claim for claim in self._candidates[due] if claim.id not in self._victims)

    def _is_due(self, quota: str) -> bool:
        return self._now_s - self._over_since[quota] >= self._settings.reclaim_delay_s

    def _preempt(self) -> None:
        """For the head of a queue: ends claims of lower priority in its quota, without borrowing more by that."""
        for quota, claim in sorted(self._heads().items()):
            lower = [
                other
                for other in self._index.holding.get(quota, {}).values()
                if other.priority < claim.priority
                and not other.non_preemptible
                and other.id not in self._victims
                and other.id not in self._index.reclaiming
            ]
            if not lower or claim.id in self._kept or self._is_bound(claim):
                continue
            self._preempt_for(claim, lower)

    def _preempt_for(self, claim: QuotaClaim, lower: Sequence[QuotaClaim]) -> None:
        state = self._state
        runtime, used = state.runtime[claim.quota], dict(state.now.of(claim.quota))
        allowed = {key: max(amount, used.get(key, 0)) for key, amount in runtime.items()}

        def missing() -> Sequence[LimitExcess]:
            occupied = state.after.of(claim.quota)
            return [
                *state.after.excesses(claim.quota, claim.request),
                *(
                    LimitExcess(claim.quota, QuotaLimit.RUNTIME, key, occupied.get(key, 0), amount, allowed[key])
                    for key, amount in claim.request.items()
                    if amount > 0 and key in allowed and occupied.get(key, 0) + amount > allowed[key]
                ),
            ]

        needed = shortages(missing(), state.after.shortfall(claim.quota, claim.request))
        order = sorted(lower, key=lambda other: (other.priority, *newest_first(other)))
        victims = choose(state, order, missing, bounded_by_runtime=False)
        if not victims:
            return
        held = self._order(victims, ReclaimReason.HIGHER_PRIORITY, claim, needed)
        if held is not None:
            undo(state, victims)
            self._reasons[claim.id] = held
            return
        self._keep(claim, WaitReason.RECLAIMING, reserved=True)

    def _order(
        self, victims: Sequence[QuotaClaim], reason: ReclaimReason, claim: QuotaClaim | None, needed: Amounts
    ) -> WaitReason | None:
        """Orders the victims to end; orders none, and returns why, where fewer may be evicted now."""
        if self._budget is not None and len(victims) > self._budget:
            return WaitReason.BUDGET
        orders = [reclaim_of(self._state, victim, reason, claim, needed, self._now_s) for victim in victims]
        if self._granted is not None:
            lacking = {
                victim.id for victim in victims if victim.started_s is not None and victim.id not in self._granted
            }
            if lacking:
                self._ungranted += orders
                is_open = self._refused is not None and lacking.isdisjoint(self._refused)
                return WaitReason.GRANT if is_open else WaitReason.BUDGET
        if self._budget is not None:
            self._budget -= len(victims)
        self._victims.update(victim.id for victim in victims)
        self._reclaims += orders
        return None

"""The life of claims as a state machine: whatever happens in which order, the ledger stays true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from drawn_snapshots import LEAVES, RESOURCES, broken_maximums, claims, quota_trees, settings_drawn, used
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from slackwater.fairshare.arbitration import PreparedSnapshot, apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import AdmissionBasis, ArbitrationSettings, QuotaSnapshot, WaitReason
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import (
    ENDED,
    HOLDING,
    ClaimState,
    ClaimTransitionError,
    QuotaClaim,
    ReclaimOrder,
    ReclaimReason,
    admit,
    end,
    order_reclaim,
    start,
)
from slackwater.fairshare.queue_order import QueuePolicy, in_order
from slackwater.fairshare.tree import ROOT, Quota
from slackwater.fairshare.tree_layout import layouts
from slackwater.model.tiers import Tier


class ClaimLife(RuleBasedStateMachine):
    """A tree whose claims come, start and end, whose pool grows and shrinks, and an index that is kept beside."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[str, QuotaClaim] = {}
        self.index = ClaimIndex()
        self.now_s = 10_000.0
        self.over_since_s: dict[str, float] = {}
        self.quotas: list[Quota] = []
        self.total: dict[str, int] = {}
        self.settings = ArbitrationSettings()

    @initialize(quotas=quota_trees(), chosen=settings_drawn, size=st.integers(4, 20))
    def declare(self, quotas: list[Quota], chosen: ArbitrationSettings, size: int) -> None:
        self.quotas, self.settings = quotas, chosen
        self.total = dict.fromkeys(RESOURCES, size)

    @rule(claim=claims("-"), count=st.integers(1, 3))
    def submit(self, claim: QuotaClaim, count: int) -> None:
        for _ in range(count):
            self._put(replace(claim, id=f"claim-{len(self.claims)}", submitted_s=self.now_s))

    @rule(seconds=st.sampled_from([1.0, 31.0, 200.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule(size=st.integers(0, 20), resource=st.sampled_from(RESOURCES))
    def resize_pool(self, size: int, resource: str) -> None:
        self.total[resource] = size

    @rule(data=st.data())
    @precondition(lambda self: any(claim.state in HOLDING for claim in self.claims.values()))
    def start_or_release(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from([claim for claim in self.claims.values() if claim.state in HOLDING]))
        self._put(start(claim, self.now_s) if data.draw(st.booleans()) else end(claim, ClaimState.RELEASED, self.now_s))

    @rule(data=st.data())
    @precondition(lambda self: any(claim.state is ClaimState.QUEUED for claim in self.claims.values()))
    def withdraw(self, data: st.DataObject) -> None:
        queued = [claim for claim in self.claims.values() if claim.state is ClaimState.QUEUED]
        self._put(end(data.draw(st.sampled_from(queued)), ClaimState.WITHDRAWN, self.now_s))

    @rule()
    def arbitrate(self) -> None:
        snapshot = QuotaSnapshot(
            self.quotas, {"": self.total}, list(self.claims.values()), self.settings, {}, self.over_since_s
        )
        plan = arbitrate(snapshot, self.now_s)
        prepared = PreparedSnapshot(
            layouts(self.quotas), {"": self.total}, self.index, self.settings, {}, self.over_since_s, {}
        )
        assert plan == arbitrate(prepared, self.now_s), "the index says what the claims say"
        self._check_order(plan)
        before = used(self.quotas, self.claims.values())[ROOT]
        for claim in apply_plan(plan, self.claims, self.now_s).values():
            self._put(claim)
        after = used(self.quotas, self.claims.values())[ROOT]
        for resource in RESOURCES:
            assert after[resource] <= max(self.total[resource], before[resource])
        for claim in plan.evictions:
            self._put(end(self.claims[claim], ClaimState.RECLAIMED, self.now_s))
        self.over_since_s = dict(plan.over_since_s)

    def _check_order(self, plan: Any) -> None:
        if self.settings.queue_policy is not QueuePolicy.STRICT_FIFO:
            return
        waiting = {place.claim for place in plan.places if place.reason is not WaitReason.BEYOND_POOL}
        for admission in plan.admissions:
            mates = [each for each in self.claims.values() if each.quota == admission.quota]
            queue = [each.id for each in in_order(mates, self.settings.aging_s) if each.state is ClaimState.QUEUED]
            ahead = queue[: queue.index(admission.claim)]
            assert admission.basis is AdmissionBasis.RESERVED or not waiting & set(ahead)

    def _put(self, claim: QuotaClaim) -> None:
        self.claims[claim.id] = claim
        self.index.put(claim)

    @invariant()
    def no_max_is_exceeded(self) -> None:
        assert not broken_maximums(self.quotas, self.claims.values())

    @invariant()
    def sums_are_those_of_the_claims(self) -> None:
        own = used(self.quotas, self.claims.values()) if self.quotas else {}
        for leaf in LEAVES:
            for resource in RESOURCES:
                assert self.index.used.get(leaf, {}).get(resource, 0) == own.get(leaf, {}).get(resource, 0)
        live = {claim.id for claim in self.claims.values() if claim.state not in ENDED}
        assert self.index.by_id.keys() == live

    @invariant()
    def what_is_not_preemptible_is_never_reclaimed(self) -> None:
        for claim in self.claims.values():
            assert not (claim.non_preemptible and claim.reclaim is not None)

    def teardown(self) -> None:
        """With the pool large and everything that runs released again and again, every queue drains."""
        if not self.quotas:
            return
        self.total = dict.fromkeys(RESOURCES, 200)
        for _ in range(3 * len(self.claims) + 3):
            if all(claim.state in ENDED for claim in self.claims.values()):
                break
            self.arbitrate()
            self.now_s += 1000.0
            for claim in list(self.claims.values()):
                if claim.state in HOLDING:
                    self._put(end(claim, ClaimState.RELEASED, self.now_s))
        assert all(claim.state in ENDED for claim in self.claims.values()), "no claim is lost"
        assert not any(amount for sums in self.index.used.values() for amount in sums.values())


TestClaimLife = ClaimLife.TestCase
TestClaimLife.settings = settings(max_examples=30, stateful_step_count=20)


CLAIM = QuotaClaim("claim-1", "a", Tier.BATCH, {"cpu": 2}, 10.0)
ORDER = ReclaimOrder(ReclaimReason.LENDER_MIN, 30.0, 60.0, "b", "claim-2")


def test_a_claim_uses_its_quota_from_admission_to_its_end_only() -> None:
    assert CLAIM.holds == {}
    assert CLAIM.wants == {"cpu": 2}
    admitted = admit(CLAIM, {"cpu": 1}, 20.0)
    assert admitted.holds == admitted.wants == {"cpu": 1}
    reclaiming = order_reclaim(start(admitted, 25.0), ORDER)
    assert reclaiming.holds == {"cpu": 1}
    ended = end(reclaiming, ClaimState.RECLAIMED, 60.0)
    assert ended.holds == ended.wants == {}
    assert (ended.started_s, ended.ended_s, ended.reclaim) == (25.0, 60.0, ORDER)


def test_the_same_again_changes_nothing() -> None:
    started = start(admit(CLAIM, CLAIM.request, 20.0), 25.0)
    assert start(started, 99.0) == started
    reclaiming = order_reclaim(started, ORDER)
    assert order_reclaim(reclaiming, replace(ORDER, for_claim="claim-3")) == reclaiming, "the first order stays"
    released = end(reclaiming, ClaimState.RELEASED, 50.0)
    assert end(released, ClaimState.RECLAIMED, 99.0) == released


def test_a_claim_that_starts_while_it_is_reclaimed_has_run_and_still_has_to_end() -> None:
    reclaiming = order_reclaim(admit(CLAIM, CLAIM.request, 20.0), ORDER)
    started = start(reclaiming, 31.0)
    assert (started.state, started.started_s) == (ClaimState.RECLAIMING, 31.0)


def test_what_is_not_in_the_life_of_a_claim_is_refused() -> None:
    with pytest.raises(ClaimTransitionError, match="claim-1 is queued, not to become started"):
        start(CLAIM, 20.0)
    with pytest.raises(ClaimTransitionError, match="queued"):
        end(CLAIM, ClaimState.RELEASED, 20.0)
    released = end(admit(CLAIM, CLAIM.request, 20.0), ClaimState.RELEASED, 21.0)
    with pytest.raises(ClaimTransitionError, match="it has ended"):
        admit(released, CLAIM.request, 22.0)

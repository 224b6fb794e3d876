"""What every plan keeps to, over drawn snapshots."""

from __future__ import annotations

import random
from dataclasses import replace

from drawn_snapshots import (
    LEAVES,
    NOW_S,
    RESOURCES,
    broken_maximums,
    fits,
    queued,
    quota_trees,
    snapshots,
    used,
)
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare.arbitration import apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import (
    AdmissionBasis,
    ArbitrationPlan,
    ArbitrationSettings,
    QuotaSnapshot,
    WaitReason,
)
from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ClaimState, QuotaClaim, ReclaimReason, end
from slackwater.fairshare.debts import accounts
from slackwater.fairshare.queue_order import QueuePolicy, in_order
from slackwater.fairshare.tree import ROOT, Quota, children_of
from slackwater.fairshare.tree_layout import TreeLayout
from slackwater.model.tiers import Tier

MORE = st.integers(0, 6)


def applied(snapshot: QuotaSnapshot, plan: ArbitrationPlan, now_s: float = NOW_S) -> list[QuotaClaim]:
    changed = apply_plan(plan, {claim.id: claim for claim in snapshot.claims}, now_s)
    return [changed.get(claim.id, claim) for claim in snapshot.claims]


def strict(snapshot: QuotaSnapshot, quota: str) -> bool:
    policy = snapshot.queue_policies.get(quota, snapshot.settings.queue_policy)
    return policy is QueuePolicy.STRICT_FIFO


def without_reclaiming(found: list[QuotaClaim]) -> list[QuotaClaim]:
    """As it will be once all victims have ended."""
    return [claim for claim in found if claim.state is not ClaimState.RECLAIMING]


@given(snapshots())
def test_no_max_and_no_total_is_exceeded_by_an_admission(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    after = applied(snapshot, plan)
    assert not broken_maximums(snapshot.quotas, after)
    sums = used(snapshot.quotas, after)[ROOT]
    for admission in plan.admissions:
        for resource, amount in admission.amounts.items():
            assert amount == 0 or sums[resource] <= snapshot.totals[""][resource]
    for name in LEAVES:
        quota = next(quota for quota in snapshot.quotas if quota.name == name)
        admitted = [claim for claim in after if claim.quota == name and claim.non_preemptible and claim.holds]
        for resource in RESOURCES:
            if any(each.quota == name and each.amounts.get(resource) for each in plan.admissions) and any(
                claim.id == each.claim for each in plan.admissions for claim in admitted if each.amounts.get(resource)
            ):
                assert sum(claim.holds.get(resource, 0) for claim in admitted) <= quota.minimum.get(resource, 0)


@given(snapshots())
def test_no_claim_is_lost_or_doubled(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    decided = [
        *(each.claim for each in plan.admissions),
        *(each.claim for each in plan.refusals),
        *(each.claim for each in plan.places),
    ]
    assert sorted(decided) == sorted(claim.id for claim in queued(snapshot.claims))
    victims = [each.victim for each in plan.reclaims]
    holding = {claim.id for claim in snapshot.claims if claim.holds or claim.state is ClaimState.ADMITTED}
    assert len(set(victims)) == len(victims)
    assert set(victims) <= holding
    assert set(plan.reservations) <= {each.claim for each in plan.places}


@given(snapshots(), st.randoms(use_true_random=False))
def test_the_order_of_what_arrives_within_one_instant_does_not_matter(
    snapshot: QuotaSnapshot, order: random.Random
) -> None:
    quotas, found = list(snapshot.quotas), list(snapshot.claims)
    order.shuffle(quotas)
    order.shuffle(found)
    assert arbitrate(replace(snapshot, quotas=quotas, claims=found), NOW_S) == arbitrate(snapshot, NOW_S)


@given(snapshots())
def test_nothing_that_fits_waits_unless_what_is_free_is_kept_for_others(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    after = applied(snapshot, plan)
    by_id = {claim.id: claim for claim in snapshot.claims}
    first: set[str] = set()
    for place in plan.places:
        is_behind = place.quota in first
        assert is_behind or place.reason is not WaitReason.BEHIND
        late = NOW_S - by_id[place.claim].submitted_s > snapshot.settings.starvation_s
        if place.reason is not WaitReason.BEYOND_POOL and (strict(snapshot, place.quota) or late):
            first.add(place.quota)
        if is_behind or not fits(snapshot.quotas, snapshot.totals[""], after, by_id[place.claim]):
            continue
        kept_for = [
            other.claim
            for other in plan.places
            if other.claim in plan.reservations
            or other.reason in {WaitReason.CAPACITY, WaitReason.DELAY, WaitReason.BUDGET}
        ]
        assert kept_for, f"{place} fits"


@given(snapshots())
def test_what_waits_for_a_larger_pool_is_what_an_idle_one_is_too_small_for(snapshot: QuotaSnapshot) -> None:
    """So no other claim waits for ever: it gets in once those that hold have ended."""
    plan = arbitrate(snapshot, NOW_S)
    never = {
        *(each.claim for each in plan.refusals),
        *(each.claim for each in plan.places if each.reason is WaitReason.BEYOND_POOL),
    }
    for claim in queued(snapshot.claims):
        alone = replace(snapshot, claims=[replace(claim, reclaims=0, reserved=False)], evictions_allowed={})
        found = arbitrate(alone, NOW_S)
        assert [each.claim for each in found.admissions] == ([] if claim.id in never else [claim.id])


@given(snapshots())
def test_a_strict_queue_keeps_its_order_and_equals_never_pass(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    by_id = {claim.id: claim for claim in snapshot.claims}
    waiting = {each.claim for each in plan.places if each.reason is not WaitReason.BEYOND_POOL}
    for admission in plan.admissions:
        if admission.basis is AdmissionBasis.RESERVED:
            continue
        claim = by_id[admission.claim]
        queue = in_order(queued(snapshot.claims), snapshot.settings.aging_s)
        before = [each for each in queue[: queue.index(claim)] if each.quota == claim.quota and each.id in waiting]
        if strict(snapshot, claim.quota):
            assert not before
        for each in before:
            equal = (dict(each.request), each.non_preemptible) == (dict(claim.request), claim.non_preemptible)
            assert not equal or claim.partial_minimum != each.partial_minimum


@given(snapshots())
def test_victims_may_be_taken_and_are_in_a_quota_that_has_to_give(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    by_id = {claim.id: claim for claim in snapshot.claims}
    allowed = snapshot.evictions_allowed.get("")
    assert allowed is None or len(plan.reclaims) <= allowed
    for reclaim in plan.reclaims:
        victim = by_id[reclaim.victim]
        assert not victim.non_preemptible
        assert reclaim.deadline_s == NOW_S + (victim.grace_s if victim.started_s is not None else 0.0)
        if reclaim.reason is ReclaimReason.HIGHER_PRIORITY:
            assert by_id[reclaim.for_claim].quota == victim.quota
            assert by_id[reclaim.for_claim].priority > victim.priority
            continue
        assert any(amount > reclaim.runtime[key] for key, amount in reclaim.used.items() if key in reclaim.runtime)
        if reclaim.reason is not ReclaimReason.POOL_SHRUNK:
            assert by_id[reclaim.for_claim].quota != victim.quota
        if reclaim.reason is not ReclaimReason.LENDER_MIN:
            assert NOW_S - plan.over_since_s[victim.quota] >= snapshot.settings.reclaim_delay_s


@given(snapshots())
def test_every_reclaim_is_for_a_claim_that_then_fits_and_gets_in(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    ended = [
        end(claim, ClaimState.RECLAIMED, NOW_S) if claim.state is ClaimState.RECLAIMING else claim
        for claim in applied(snapshot, plan)
    ]
    later = arbitrate(replace(snapshot, claims=ended, over_since_s=plan.over_since_s), NOW_S)
    admitted = {each.claim for each in later.admissions}
    for reclaim in plan.reclaims:
        assert not reclaim.for_claim or reclaim.for_claim in admitted
        assert not reclaim.for_claim or any(reclaim.amounts.get(key) for key in reclaim.needed), "of no use"


@given(snapshots(most=7))
def test_no_victim_could_have_been_spared(snapshot: QuotaSnapshot) -> None:
    plan = arbitrate(snapshot, NOW_S)
    after = applied(snapshot, plan)
    wanted = {each.for_claim for each in plan.reclaims}
    if len(wanted) != 1 or "" in wanted or len(plan.reservations) != 1:
        return
    claim = next(claim for claim in after if claim.id in wanted)
    remaining = without_reclaiming(after)
    assert fits(snapshot.quotas, snapshot.totals[""], remaining, claim, unlent=False)
    for reclaim in plan.reclaims:
        victim = next(each for each in snapshot.claims if each.id == reclaim.victim)
        enough = fits(snapshot.quotas, snapshot.totals[""], [*remaining, victim], claim)
        borrowed_more = reclaim.reason is ReclaimReason.HIGHER_PRIORITY
        assert not enough or borrowed_more


def settled(snapshot: QuotaSnapshot, *, step_s: float) -> tuple[QuotaSnapshot, ArbitrationPlan]:
    """Returns the snapshot and its plan once nothing changes any more; victims end at once, no other claim does."""
    now_s = NOW_S
    for _ in range(3 * len(snapshot.claims)):
        plan = arbitrate(snapshot, now_s)
        left = [
            end(claim, ClaimState.RECLAIMED, now_s) if claim.state is ClaimState.RECLAIMING else claim
            for claim in applied(snapshot, plan, now_s)
        ]
        if left == list(snapshot.claims) and plan.over_since_s == snapshot.over_since_s:
            return snapshot, plan
        snapshot, now_s = replace(snapshot, claims=left, over_since_s=plan.over_since_s), now_s + step_s
    raise AssertionError("reclaims come to an end")


def first_waiting(snapshot: QuotaSnapshot, plan: ArbitrationPlan) -> list[QuotaClaim]:
    """Returns the first claim of each queue that the pool is large enough for and that requests anything."""
    heads = {place.quota: place.claim for place in reversed(plan.places) if place.reason is not WaitReason.BEYOND_POOL}
    return [claim for claim in snapshot.claims if claim.id in heads.values() and any(claim.request.values())]


def reclaimable(snapshot: QuotaSnapshot, **settings: float) -> QuotaSnapshot:
    """Without a budget, and with nothing that cannot be reclaimed."""
    return replace(
        snapshot,
        claims=[replace(claim, non_preemptible=False, partial_minimum=None) for claim in snapshot.claims],
        evictions_allowed={},
        settings=replace(snapshot.settings, drain_s=1e9, **settings),
    )


@given(snapshots())
def test_a_lender_has_its_min_once_reclaims_are_done_whatever_the_delay(snapshot: QuotaSnapshot) -> None:
    """The min as declared where the mins fit into the pool."""
    least = {
        key: sum(quota.minimum.get(key, 0) for quota in snapshot.quotas if quota.parent == ROOT) for key in RESOURCES
    }
    total = {key: max(amount, snapshot.totals[""][key]) for key, amount in least.items()}
    snapshot = replace(reclaimable(snapshot, reclaim_delay_s=1e9), totals={"": total})
    snapshot, plan = settled(snapshot, step_s=0.0)
    sums = used(snapshot.quotas, snapshot.claims)
    minimum = {quota.name: quota.minimum for quota in snapshot.quotas}
    for claim in first_waiting(snapshot, plan):
        assert any(
            sums[claim.quota][key] + amount > minimum[claim.quota].get(key, 0)
            for key, amount in claim.request.items()
            if amount
        ), f"{claim} is within the min"


@given(snapshots())
def test_a_quota_has_its_runtime_once_reclaims_are_done(snapshot: QuotaSnapshot) -> None:
    snapshot, plan = settled(reclaimable(snapshot), step_s=200.0)
    beyond = {place.claim for place in plan.places if place.reason is WaitReason.BEYOND_POOL}
    counted = ClaimIndex(claim for claim in snapshot.claims if claim.id not in beyond)
    figures = accounts(TreeLayout(snapshot.quotas), counted, snapshot.totals[""])
    for claim in first_waiting(snapshot, plan):
        own = figures[claim.quota]
        assert any(
            own.used.get(key, 0) + amount > own.runtime.get(key, 0) for key, amount in claim.request.items() if amount
        ), f"{claim} is within the runtime"


@given(snapshots())
def test_what_is_lent_is_borrowed_on_every_level(snapshot: QuotaSnapshot) -> None:
    layout = TreeLayout(snapshot.quotas)
    figures = accounts(layout, ClaimIndex(snapshot.claims), snapshot.totals[""])
    for children in children_of(snapshot.quotas).values():
        for resource in RESOURCES:
            own = [figures[child.name] for child in children]
            assert sum(each.lent.get(resource, 0) for each in own) == sum(
                each.borrowed.get(resource, 0) for each in own
            )
            for each in own:
                above = each.used.get(resource, 0) - each.entitled.get(resource, 0)
                assert 0 <= each.borrowed.get(resource, 0) <= max(above, 0)
                assert 0 <= each.lent.get(resource, 0) <= max(-above, 0)
                assert 0 <= each.owed.get(resource, 0) <= each.lent.get(resource, 0)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3)), min_size=1, max_size=8), st.integers(0, 30), MORE)
def test_more_capacity_admits_a_longer_prefix_of_one_strict_queue(
    requests: list[tuple[int, int]], total: int, more: int
) -> None:
    """Stated for one strict queue whose claims all fit into the pool alone; one that exceeds it blocks nothing."""
    total = max(total, *(amount for amount, _ in requests))
    found = [
        QuotaClaim(f"claim-{place}", "a", Tier.BATCH, {"cpu": amount}, float(place), priority)
        for place, (amount, priority) in enumerate(requests)
    ]
    settings = ArbitrationSettings(queue_policy=QueuePolicy.STRICT_FIFO)

    def admitted(cpu: int) -> set[str]:
        snapshot = QuotaSnapshot([Quota("a", maximum={"cpu": 100})], {"": {"cpu": cpu}}, found, settings)
        return {each.claim for each in arbitrate(snapshot, 100.0).admissions}

    assert admitted(total) <= admitted(total + more)


@given(quota_trees(), st.lists(st.sampled_from(LEAVES), max_size=14), st.integers(0, 20), MORE)
def test_more_capacity_admits_no_fewer_equal_claims(
    quotas: list[Quota], requested: list[str], total: int, more: int
) -> None:
    """Stated for claims of one size in one resource and quotas that lend: then any order fills the same room."""
    found = [
        QuotaClaim(f"claim-{place}", quota, Tier.BATCH, {"cpu": 1}, float(place))
        for place, quota in enumerate(requested)
    ]
    lending = [replace(quota, lends=True) for quota in quotas]

    def admitted(cpu: int) -> int:
        snapshot = QuotaSnapshot(lending, {"": {"cpu": cpu, "memory": 0}}, found)
        return len(arbitrate(snapshot, 100.0).admissions)

    assert admitted(total) <= admitted(total + more)

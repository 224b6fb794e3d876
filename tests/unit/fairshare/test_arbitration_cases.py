"""Single situations of the arbitration, with their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.fairshare.admission import LimitExcess, QuotaLimit
from slackwater.fairshare.arbitration import apply_plan, arbitrate
from slackwater.fairshare.arbitration_plan import (
    AdmissionBasis,
    ArbitrationPlan,
    ArbitrationSettings,
    QuotaSnapshot,
    RefusalReason,
    WaitReason,
)
from slackwater.fairshare.claims import ClaimState, QuotaClaim, ReclaimOrder, ReclaimReason, admit, end, start
from slackwater.fairshare.queue_order import QueuePolicy
from slackwater.fairshare.tree import Amounts, Quota
from slackwater.model.tiers import Tier

TOTAL = {"": {"cpu": 10}}
EQUALS = [Quota("a", maximum={"cpu": 10}), Quota("b", maximum={"cpu": 10})]
LENDERS = [Quota("a", minimum={"cpu": 5}, maximum={"cpu": 10}), Quota("b", minimum={"cpu": 5}, maximum={"cpu": 10})]
STRICT = ArbitrationSettings(queue_policy=QueuePolicy.STRICT_FIFO)


def claim(identity: str, cpu: int, at_s: float = 0.0, **fields: object) -> QuotaClaim:
    quota = identity[0]
    return replace(QuotaClaim(identity, quota, Tier.BATCH, {"cpu": cpu}, at_s), **fields)  # type: ignore[arg-type]


def running(identity: str, cpu: int, at_s: float = 0.0, **fields: object) -> QuotaClaim:
    return start(admit(claim(identity, cpu, at_s, **fields), {"cpu": cpu}, at_s), at_s)


def plan(
    quotas: Sequence[Quota],
    claims: Sequence[QuotaClaim],
    now_s: float = 100.0,
    settings: ArbitrationSettings | None = None,
    totals: Mapping[str, Amounts] | None = None,
    **fields: object,
) -> ArbitrationPlan:
    snapshot = QuotaSnapshot(quotas, totals or TOTAL, claims, settings or ArbitrationSettings())
    return arbitrate(replace(snapshot, **fields), now_s)  # type: ignore[arg-type]


def admitted(found: ArbitrationPlan) -> list[str]:
    return [each.claim for each in found.admissions]


def test_the_quota_that_uses_least_of_its_fair_share_goes_first() -> None:
    heavy = [replace(EQUALS[0], weight={"cpu": 3}), replace(EQUALS[1], weight={"cpu": 1})]
    queue = [claim(f"{quota}{place}", 1) for quota in "ab" for place in range(8)]
    found = plan(heavy, queue, totals={"": {"cpu": 12}})
    assert " ".join(admitted(found)) == "a0 b0 a1 a2 a3 b1 a4 a5 a6 b2 a7 b3", (
        "fair shares are 9 and 3, ties go by name"
    )
    assert [round(each.share, 2) for each in found.admissions[:4]] == [0, 0, 0.11, 0.22]


def test_a_lender_gets_its_min_back_at_once_from_the_least_important_and_newest() -> None:
    uses = [running(f"a{place}", 2, float(place), priority=1 if place == 4 else 0) for place in range(5)]
    found = plan(LENDERS, [*uses, claim("b0", 3, 50.0)])
    assert [(each.victim, each.reason, each.deadline_s, each.for_claim) for each in found.reclaims] == [
        ("a3", ReclaimReason.LENDER_MIN, 130.0, "b0"),
        ("a2", ReclaimReason.LENDER_MIN, 130.0, "b0"),
    ]
    assert (found.reclaims[0].used, found.reclaims[0].runtime, found.reclaims[0].needed) == (
        {"cpu": 10},
        {"cpu": 7},
        {"cpu": 3},
    )
    assert (found.places[0].reason, found.reservations) == (WaitReason.RECLAIMING, ["b0"])


OF_MEMORY = Quota("a", maximum={"memory": 100})
BOTH = {"": {"cpu": 10, "memory": 100}}


def test_what_a_max_does_not_name_is_borrowed_and_given_back_for_a_min() -> None:
    holds_all = [running(f"a{place}", 2, float(place)) for place in range(5)]
    promised = Quota("b", minimum={"cpu": 10}, maximum={"cpu": 10})
    found = plan([OF_MEMORY, promised], [*holds_all, claim("b0", 10, 50.0)], totals=BOTH)
    assert {each.victim for each in found.reclaims} == {each.id for each in holds_all}
    assert {each.reason for each in found.reclaims} == {ReclaimReason.LENDER_MIN}


def test_what_a_max_does_not_name_is_shared_in_turn() -> None:
    queue = [claim(f"{quota}{place}", 1) for quota in "ab" for place in range(10)]
    found = plan([OF_MEMORY, Quota("b", maximum={"cpu": 10})], queue, totals=BOTH)
    assert " ".join(admitted(found)) == "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4"


def test_what_is_not_preemptible_holds_nothing_of_a_resource_without_a_min() -> None:
    quota = Quota("a", minimum={"memory": 50}, maximum={"memory": 100})
    found = plan([quota, EQUALS[1]], [claim("a0", 1, non_preemptible=True)], totals=BOTH)
    assert [(each.claim, each.reason) for each in found.refusals] == [("a0", RefusalReason.ABOVE_MIN)]


def test_a_min_of_memory_is_had_by_claims_that_need_some_cpu_too() -> None:
    quotas = [
        Quota("a", maximum={"cpu": 10, "memory": 100}),
        Quota("b", minimum={"memory": 60}, maximum={"memory": 60}),
    ]
    uses = start(admit(replace(claim("a0", 2), request={"cpu": 2, "memory": 100}), {"cpu": 2, "memory": 100}, 0.0), 0.0)
    waits = replace(claim("b0", 1, 50.0), request={"cpu": 1, "memory": 60})
    found = plan(quotas, [uses, waits], totals=BOTH)
    assert [(each.victim, each.reason) for each in found.reclaims] == [("a0", ReclaimReason.LENDER_MIN)]


def test_what_is_reclaimed_is_kept_for_the_claim_it_was_reclaimed_for() -> None:
    uses = [running(f"a{place}", 2, float(place)) for place in range(5)]
    claims = {each.id: each for each in [*uses, claim("b0", 3, 50.0)]}
    first = plan(LENDERS, list(claims.values()))
    claims |= apply_plan(first, claims, 100.0)
    claims["a4"] = end(claims["a4"], ClaimState.RECLAIMED, 110.0)
    claims["a9"] = claim("a9", 2, 0.0)
    between = plan(LENDERS, list(claims.values()), 110.0, over_since_s=first.over_since_s)
    assert admitted(between) == [], "two are free, and none for a9"
    assert {each.claim: each.reason for each in between.places} == {
        "a9": WaitReason.KEPT,
        "b0": WaitReason.RECLAIMING,
    }
    claims["a3"] = end(claims["a3"], ClaimState.RECLAIMED, 130.0)
    last = plan(LENDERS, list(claims.values()), 130.0, over_since_s=first.over_since_s)
    assert [(each.claim, each.basis) for each in last.admissions] == [("b0", AdmissionBasis.RESERVED)]


def test_a_runtime_below_the_use_is_taken_back_after_the_delay_only() -> None:
    claims = [*(running(f"a{place}", 2) for place in range(5)), claim("b0", 2, 50.0)]
    early = plan(EQUALS, claims, 100.0)
    assert (early.reclaims, early.places[0].reason) == ([], WaitReason.DELAY)
    late = plan(EQUALS, claims, 220.0, over_since_s=early.over_since_s)
    assert [(each.victim, each.reason) for each in late.reclaims] == [("a0", ReclaimReason.ABOVE_RUNTIME)]


def test_no_claim_is_reclaimed_in_vain() -> None:
    """a0 is not preemptible; what remains of a's would not let b0 in."""
    claims = [running("a0", 5, non_preemptible=True), running("a1", 4), claim("b0", 6, 50.0)]
    mins = [replace(LENDERS[0], minimum={"cpu": 5}), replace(LENDERS[1], minimum={"cpu": 4})]
    found = plan(mins, claims)
    assert found.reclaims == []
    assert found.places[0].reason is WaitReason.CAPACITY


def test_a_victim_that_turns_out_not_to_be_needed_is_spared() -> None:
    """The newest goes first, but is not enough; the next one is enough alone."""
    claims = [running("a0", 6, 0.0), running("a1", 3, 1.0), running("a2", 1, 2.0), claim("b0", 3, 50.0)]
    assert [each.victim for each in plan(LENDERS, claims).reclaims] == ["a1"]


def test_no_more_is_reclaimed_than_the_budget_allows() -> None:
    claims = [*(running(f"a{place}", 2) for place in range(5)), claim("b0", 3, 50.0)]
    found = plan(LENDERS, claims, evictions_allowed={"": 1})
    assert (found.reclaims, found.places[0].reason) == ([], WaitReason.BUDGET)
    assert len(plan(LENDERS, claims, evictions_allowed={"": 2}).reclaims) == 2


def test_a_strict_queue_waits_behind_its_head_and_a_best_effort_queue_does_not() -> None:
    claims = [running("b0", 5), claim("a0", 8), claim("a1", 1)]
    strict, best_effort = plan(EQUALS, claims, settings=STRICT), plan(EQUALS, claims)
    assert admitted(strict) == []
    assert [(each.claim, each.reason) for each in strict.places] == [
        ("a0", WaitReason.CAPACITY),
        ("a1", WaitReason.BEHIND),
    ]
    assert admitted(best_effort) == ["a1"]


def seconds_until_admitted(large: QuotaClaim, small: str, quotas: list[Quota], settings: ArbitrationSettings) -> int:
    """Ten small claims run; each second the oldest ends and another comes."""
    claims = {each.id: each for each in [large, *(running(f"{small}{place}", 1) for place in range(1, 11))]}
    for second in range(1, 160):
        now_s = float(second)
        oldest = min((each for each in claims.values() if each.holds), key=lambda each: (each.submitted_s, each.id))
        claims[oldest.id] = end(oldest, ClaimState.RELEASED, now_s)
        claims[f"{small}{second + 10}"] = claim(f"{small}{second + 10}", 1, now_s)
        found = plan(quotas, list(claims.values()), now_s, settings)
        claims |= apply_plan(found, claims, now_s)
        if large.id in admitted(found):
            return second
    return 0


def test_a_large_claim_is_not_passed_for_ever_in_its_queue() -> None:
    soon = ArbitrationSettings(starvation_s=60.0)
    assert 60 < seconds_until_admitted(claim("a0", 8), "a", EQUALS, soon) <= 70, "then none passes, and eight end"
    never = ArbitrationSettings(starvation_s=1000.0)
    assert seconds_until_admitted(claim("a0", 8), "a", EQUALS, never) == 0, "small ones pass"


def test_a_claim_larger_than_its_share_drains_the_tree_in_the_end() -> None:
    """b is entitled to all that it requests, so nothing is left of a's share."""
    quotas = [EQUALS[0], replace(EQUALS[1], weight={"cpu": 10**6})]
    soon = ArbitrationSettings(starvation_s=0.0, drain_s=60.0)
    assert 60 < seconds_until_admitted(claim("a0", 8), "b", quotas, soon) <= 72
    late = ArbitrationSettings(starvation_s=0.0)
    assert seconds_until_admitted(claim("a0", 8), "b", quotas, late) == 0


def test_the_tree_is_not_drained_for_a_claim_that_a_max_never_lets_in_whole() -> None:
    quotas = [Quota("a", maximum={"cpu": 3}), EQUALS[1]]
    late = claim("a0", 4, partial_minimum={"cpu": 2})
    found = plan(quotas, [late, claim("b0", 7, 1.0)], settings=ArbitrationSettings(drain_s=0.0))
    assert {each.claim: dict(each.amounts) for each in found.admissions} == {"a0": {"cpu": 3}, "b0": {"cpu": 7}}


def test_a_workload_that_was_reclaimed_borrows_again_later_each_time() -> None:
    claims = [running("b0", 5, 0.0), claim("a0", 5, 40.0, reclaims=1), claim("b1", 5, 99.0)]
    early, late = plan(EQUALS, [claims[1]], 99.0), plan(EQUALS, [claims[1]], 101.0)
    assert admitted(early) == admitted(late) == ["a0"], "what its runtime covers is not borrowed"
    again = [replace(claims[1], request={"cpu": 6}, reclaims=3), running("b0", 3, 0.0), claim("b1", 8, 99.0)]
    assert (admitted(plan(EQUALS, again, 279.0)), admitted(plan(EQUALS, again, 280.0))) == ([], ["a0"])
    assert plan(EQUALS, again, 279.0).places[0].reason is WaitReason.BACKOFF


def test_priority_counts_and_waiting_counts_too() -> None:
    """One point of priority is worth a minute of waiting."""
    claims = [claim("a0", 10, 0.0), claim("a1", 10, 59.0, priority=1)]
    assert admitted(plan(EQUALS, claims)) == ["a1"]
    claims = [claim("a0", 10, 0.0), claim("a1", 10, 61.0, priority=1)]
    assert admitted(plan(EQUALS, claims)) == ["a0"]


def test_a_higher_priority_ends_lower_ones_of_its_own_quota() -> None:
    claims = [running("a0", 6, priority=1), running("a1", 4, priority=5), claim("a2", 3, 50.0, priority=3)]
    found = plan(EQUALS, claims)
    assert [(each.victim, each.reason) for each in found.reclaims] == [("a0", ReclaimReason.HIGHER_PRIORITY)]
    assert plan(EQUALS, claims, settings=ArbitrationSettings(preempts=False)).reclaims == []


def test_preemption_does_not_borrow_more_than_before() -> None:
    """a's runtime is 5; ending a0 (2) must not let it go from 6 to 9."""
    quotas = [replace(EQUALS[0], weight={"cpu": 1}), replace(EQUALS[1], weight={"cpu": 1})]
    claims = [running("a0", 2, priority=1), running("a1", 4, priority=9), running("b0", 2), claim("b1", 5, 99.0)]
    found = plan(quotas, [*claims, claim("a2", 4, 50.0, priority=5)], over_since_s={"a": 99.0})
    assert [each for each in found.reclaims if each.reason is ReclaimReason.HIGHER_PRIORITY] == []


def test_a_claim_that_can_never_fit_is_refused_with_the_numbers() -> None:
    found = plan(LENDERS, [claim("a0", 11), claim("b0", 6, non_preemptible=True), claim("c0", 1)])
    assert [(each.claim, each.reason, each.excesses) for each in found.refusals] == [
        ("a0", RefusalReason.ABOVE_MAX, (LimitExcess("a", QuotaLimit.MAX, "cpu", 0, 11, 10),)),
        ("b0", RefusalReason.ABOVE_MIN, (LimitExcess("b", QuotaLimit.MIN, "cpu", 0, 6, 5),)),
        ("c0", RefusalReason.UNKNOWN_QUOTA, ()),
    ]


def test_a_claim_of_which_no_part_can_ever_fit_is_refused() -> None:
    quotas = [Quota("a", minimum={"cpu": 0}, maximum={"cpu": 10}), replace(EQUALS[1], minimum={"cpu": 1})]
    parts = [claim(f"{quota}0", 6, non_preemptible=True, partial_minimum={"cpu": 0}) for quota in "ab"]
    found = plan(quotas, [*parts, claim("a1", 2, 1.0)], settings=STRICT)
    assert [(each.claim, each.reason, each.excesses) for each in found.refusals] == [
        ("a0", RefusalReason.ABOVE_MIN, (LimitExcess("a", QuotaLimit.MIN, "cpu", 0, 1, 0),))
    ]
    assert {each.claim: dict(each.amounts) for each in found.admissions} == {"a1": {"cpu": 2}, "b0": {"cpu": 1}}


def test_a_claim_that_others_leave_no_room_for_under_a_max_is_refused() -> None:
    parent = Quota("p", minimum={"cpu": 4}, maximum={"cpu": 8}, is_parent=True)
    below = [replace(quota, parent="p") for quota in EQUALS]
    keeps = [parent, below[0], replace(below[1], minimum={"cpu": 4}, lends=False)]
    found = plan(keeps, [claim("a0", 5), claim("a1", 4, 1.0)], settings=STRICT)
    assert [(each.claim, each.reason, each.excesses) for each in found.refusals] == [
        ("a0", RefusalReason.ABOVE_MAX, (LimitExcess("p", QuotaLimit.MAX, "cpu", 4, 5, 8),))
    ]
    assert admitted(found) == ["a1"], "it does not wait behind what never starts"
    lent = [parent, below[0], replace(keeps[2], lends=True)]
    assert admitted(plan(lent, [claim("a0", 5)])) == ["a0"]


def test_a_parent_takes_no_claims() -> None:
    quotas = [Quota("a", maximum={"cpu": 10}, is_parent=True)]
    assert plan(quotas, [claim("a0", 1)]).refusals[0].reason is RefusalReason.PARENT_QUOTA


def test_what_exceeds_the_pool_waits_without_blocking_a_strict_queue() -> None:
    quotas = [Quota("a", maximum={"cpu": 50})]
    found = plan(quotas, [claim("a0", 20), claim("a1", 3)], settings=STRICT)
    assert admitted(found) == ["a1"]
    assert [(each.claim, each.reason) for each in found.places] == [("a0", WaitReason.BEYOND_POOL)]


def test_what_exceeds_the_pool_beside_what_others_keep_waits_without_blocking_a_strict_queue() -> None:
    keeps = [Quota("a", minimum={"cpu": 6}, maximum={"cpu": 10}, lends=False), Quota("b", maximum={"cpu": 10})]
    found = plan(keeps, [claim("b0", 5), claim("b1", 4, 1.0)], settings=STRICT)
    assert admitted(found) == ["b1"]
    (place,) = found.places
    assert (place.claim, place.reason) == ("b0", WaitReason.BEYOND_POOL)
    assert place.excesses == [LimitExcess("root", QuotaLimit.TOTAL, "cpu", 6, 5, 10)]
    assert admitted(plan([replace(keeps[0], lends=True), keeps[1]], [claim("b0", 5)])) == ["b0"]
    assert admitted(plan(keeps, [claim("b0", 5)], totals={"": {"cpu": 11}})) == ["b0"], "once the pool has grown"
    assert admitted(plan(keeps, [claim("a0", 10)])) == ["a0"], "it does not stand in its own way"


NESTED = [
    Quota("a", maximum={"cpu": 10}),
    Quota("p", minimum={"cpu": 6}, maximum={"cpu": 10}, is_parent=True),
    Quota("keeps", "p", minimum={"cpu": 4}, maximum={"cpu": 10}, lends=False),
    Quota("lends", "p", minimum={"cpu": 2}, maximum={"cpu": 10}),
]
"""A min that is not lent, below a parent that lends; its sibling requests nothing."""


def test_what_is_not_lent_below_a_parent_that_lends_is_kept_and_told() -> None:
    found = plan(NESTED, [claim("a0", 7), claim("a1", 6, 1.0)], settings=STRICT)
    assert admitted(found) == ["a1"], "it does not wait behind what never starts"
    (place,) = found.places
    assert (place.claim, place.reason) == ("a0", WaitReason.BEYOND_POOL)
    assert place.excesses == [LimitExcess("root", QuotaLimit.TOTAL, "cpu", 4, 7, 10)]
    claims = [running("a1", 6), replace(claim("k0", 4), quota="keeps")]
    assert admitted(plan(NESTED, claims)) == ["k0"], "it was free all the time"


def test_a_min_below_a_parent_that_has_lent_its_own_comes_back_without_a_delay() -> None:
    lending = [replace(quota, lends=True) for quota in NESTED]
    found = plan(lending, [running("a0", 4), running("a1", 4, 1.0), replace(claim("k0", 4), quota="keeps")])
    assert [(each.victim, each.reason) for each in found.reclaims] == [("a1", ReclaimReason.LENDER_MIN)]


def test_part_of_a_claim_may_use_what_its_quota_keeps() -> None:
    keeps = [Quota("a", minimum={"cpu": 6}, maximum={"cpu": 10}, lends=False), Quota("b", maximum={"cpu": 10})]
    found = plan(keeps, [running("b0", 4), claim("a0", 8, partial_minimum={"cpu": 1})])
    assert [(each.claim, dict(each.amounts)) for each in found.admissions] == [("a0", {"cpu": 6})]


def test_part_of_a_claim_is_admitted_only_where_it_asks_for_that() -> None:
    claims = [running("b0", 7), claim("a0", 6), claim("a1", 6, 1.0, partial_minimum={"cpu": 2})]
    found = plan(EQUALS, claims, settings=ArbitrationSettings(queue_policy=QueuePolicy.BEST_EFFORT_FIFO))
    assert [(each.claim, dict(each.amounts), each.partial) for each in found.admissions] == [("a1", {"cpu": 3}, True)]
    too_much = replace(claims[2], partial_minimum={"cpu": 4})
    assert admitted(plan(EQUALS, [*claims[:2], too_much])) == []


def test_what_is_not_lent_stays_free_for_its_quota() -> None:
    keeps = [replace(LENDERS[0], lends=False), LENDERS[1]]
    found = plan(keeps, [claim(f"b{place}", 2) for place in range(5)])
    assert admitted(found) == ["b0", "b1"]
    assert admitted(plan(keeps, [running("b0", 2), running("b1", 2), claim("a0", 5)])) == ["a0"]


def test_a_pool_that_shrank_is_brought_back_by_those_above_their_runtime() -> None:
    claims = [running("a0", 6), running("b0", 2, 1.0), running("b1", 2, 2.0)]
    found = plan(EQUALS, claims, totals={"": {"cpu": 7}}, over_since_s={"a": 0.0, "b": 0.0}, now_s=500.0)
    assert [(each.victim, each.reason, each.needed) for each in found.reclaims] == [
        ("a0", ReclaimReason.POOL_SHRUNK, {"cpu": 3})
    ]


def test_what_is_needed_counts_what_is_used_of_a_pool_that_shrank_below_its_unlent_mins() -> None:
    keeps = [Quota("a", minimum={"cpu": 4}, maximum={"cpu": 10}, lends=False), Quota("b", maximum={"cpu": 10})]
    claims = [running("a0", 2), running("b0", 4, 1.0), claim("a1", 2)]
    found = plan(keeps, claims, totals={"": {"cpu": 4}})
    assert [(each.victim, each.for_claim, each.needed) for each in found.reclaims] == [("b0", "a1", {"cpu": 4})]


def test_a_delay_that_a_wrong_clock_began_ahead_begins_now() -> None:
    claims = [running("a0", 6), running("b0", 2, 1.0), running("b1", 2, 2.0)]
    found = plan(EQUALS, claims, totals={"": {"cpu": 7}}, over_since_s={"a": 900.0}, now_s=500.0)
    assert (found.reclaims, found.over_since_s["a"]) == ([], 500.0)


def test_of_two_claims_alike_the_first_gets_the_free_room_and_the_second_what_is_reclaimed() -> None:
    quotas = [*EQUALS, Quota("c", maximum={"cpu": 10})]
    order = ReclaimOrder(ReclaimReason.ABOVE_RUNTIME, 90.0, 120.0, "c", "c0")
    ends = replace(running("b1", 4, 1.0), state=ClaimState.RECLAIMING, reclaim=order)
    claims = [running("b0", 4), ends, claim("c0", 6, reserved=True), claim("a0", 2, 2.0), claim("a1", 2, 3.0)]
    found = plan(quotas, claims, 100.0, ArbitrationSettings(reclaim_delay_s=0.0), over_since_s={"b": 0.0})
    assert admitted(found) == ["a0"]
    assert [(each.victim, each.for_claim) for each in found.reclaims] == [("b0", "a1")]
    assert found.reservations == ["a1", "c0"]


def test_grace_that_is_over_is_an_eviction() -> None:
    uses = [running(f"a{place}", 2, float(place)) for place in range(5)]
    claims = {each.id: each for each in [*uses, claim("b0", 2, 50.0)]}
    claims |= apply_plan(plan(LENDERS, list(claims.values())), claims, 100.0)
    assert plan(LENDERS, list(claims.values()), 129.0).evictions == []
    assert plan(LENDERS, list(claims.values()), 130.0).evictions == ["a4"]


def test_trees_do_not_touch_each_other() -> None:
    quotas = [Quota("a", maximum={"cpu": 10}), Quota("b", maximum={"cpu": 10}, tree="gpu")]
    claims = [running("a0", 10), claim("a1", 1), claim("b0", 1)]
    found = plan(quotas, claims, totals={"": {"cpu": 10}, "gpu": {"cpu": 4}})
    assert admitted(found) == ["b0"]


def test_what_runs_in_a_quota_that_is_gone_holds_its_part_of_the_pool() -> None:
    found = plan(EQUALS, [running("gone", 4), claim("a1", 6), claim("b1", 1)])
    assert admitted(found) == ["a1"]
    (waits,) = found.places
    assert waits.excesses == [LimitExcess("root", QuotaLimit.TOTAL, "cpu", 10, 1, 10)]

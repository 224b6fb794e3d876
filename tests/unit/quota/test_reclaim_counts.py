"""Reclaims are counted by workload, forgotten after a while and bounded."""

from __future__ import annotations

from dataclasses import replace

from slackwater.fairshare.claims import ClaimState, QuotaClaim, ReclaimOrder, ReclaimReason, admit, end, order_reclaim
from slackwater.model.tiers import Tier
from slackwater.quota.domain.reclaim_counts import COUNTED_S, MOST_COUNTED, count_reclaims, with_reclaims

NEW = QuotaClaim("c", "q", Tier.BATCH, {"cpu": 1}, 0.0, workload="job")


def reclaimed(claim: QuotaClaim) -> QuotaClaim:
    order = ReclaimOrder(ReclaimReason.LENDER_MIN, 2.0, 3.0, "a", "a0")
    return end(order_reclaim(admit(claim, claim.request, 1.0), order), ClaimState.RECLAIMED, 3.0)


def test_each_round_of_reclaims_counts_once_and_is_forgotten_after_a_while() -> None:
    both = [reclaimed(NEW), reclaimed(replace(NEW, id="c2"))]
    counts = count_reclaims({}, both, 100.0)
    again = with_reclaims(NEW, counts, 101.0)
    assert again.reclaims == 1
    counts = count_reclaims(counts, [reclaimed(again)], 200.0)
    assert with_reclaims(NEW, counts, 200.0 + COUNTED_S - 1).reclaims == 2
    assert with_reclaims(NEW, counts, 200.0 + COUNTED_S).reclaims == 0
    assert with_reclaims(replace(NEW, workload="another"), counts, 201.0).reclaims == 0


def test_a_claim_without_a_workload_or_with_another_end_counts_nothing() -> None:
    released = end(admit(NEW, NEW.request, 1.0), ClaimState.RELEASED, 3.0)
    nameless = replace(NEW, workload="")
    counts = count_reclaims({}, [released, reclaimed(nameless)], 3.0)
    assert counts == {}
    assert with_reclaims(nameless, count_reclaims({}, [reclaimed(NEW)], 3.0), 4.0).reclaims == 0


def test_the_latest_workloads_are_kept() -> None:
    counts = count_reclaims({}, [reclaimed(replace(NEW, workload="oldest"))], 1.0)
    many = [reclaimed(replace(NEW, workload=f"job-{number}")) for number in range(MOST_COUNTED)]
    counts = count_reclaims(counts, many, 2.0)
    assert len(counts) == MOST_COUNTED
    assert "oldest" not in counts

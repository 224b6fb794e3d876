"""Claims beside what runs, and estimates of the start."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare.claims import ClaimState, QuotaClaim, admit, end, start
from slackwater.fairshare.reconciliation import ReconciliationFinding, RunningWorkload, reconcile
from slackwater.fairshare.start_estimate import (
    EstimateOutcome,
    QuotaRelease,
    StartEstimate,
    estimate_start,
    hit_rate,
)
from slackwater.model.tiers import Tier

QUEUED = QuotaClaim("claim-1", "a", Tier.BATCH, {"cpu": 2}, 0.0, workload="job-1")
ADMITTED = admit(QUEUED, {"cpu": 2}, 100.0)
STARTED = start(ADMITTED, 110.0)


def findings(
    claims: list[QuotaClaim], running: list[RunningWorkload], now_s: float, seen_s: dict[str, float] | None = None
) -> list[tuple[str, str]]:
    found = reconcile(claims, {each.workload: each for each in running}, seen_s or {}, now_s)
    return [(each.finding.value, each.claim) for each in found]


def runs(cpu: int = 2, since_s: float = 105.0) -> RunningWorkload:
    return RunningWorkload("job-1", {"cpu": cpu}, since_s)


def test_what_runs_and_is_claimed_has_started_and_is_no_finding_afterwards() -> None:
    assert findings([ADMITTED], [runs()], 106.0) == [("started", "claim-1")]
    assert findings([STARTED], [runs()], 1000.0) == []


def test_what_never_starts_is_found_after_a_while() -> None:
    assert findings([ADMITTED], [], 400.0) == []
    assert findings([ADMITTED], [], 401.0) == [("never_started", "claim-1")]


def test_what_runs_no_more_has_ended() -> None:
    assert findings([STARTED], [], 560.0, {"job-1": 500.0}) == []
    assert findings([STARTED], [], 561.0, {"job-1": 500.0}) == [("ended", "claim-1")]


def test_what_runs_without_a_claim_is_found_after_a_while() -> None:
    assert findings([], [runs()], 165.0) == []
    assert findings([], [runs()], 166.0) == [("never_claimed", "")]


def test_what_runs_before_its_admission_or_after_its_end_is_found() -> None:
    assert findings([QUEUED], [runs()], 106.0) == [("not_admitted", "claim-1")]
    ended = end(STARTED, ClaimState.RELEASED, 200.0)
    assert findings([ended], [runs()], 260.0) == []
    assert findings([ended], [runs()], 261.0) == [("after_end", "claim-1")]
    assert findings([ended, replace(STARTED, id="claim-2")], [runs()], 261.0) == [], "it was claimed anew"


def test_what_runs_with_more_than_it_claimed_is_found_with_both_amounts() -> None:
    (found,) = reconcile([STARTED], {"job-1": runs(cpu=3)}, {}, 200.0)
    assert found.finding is ReconciliationFinding.BEYOND_CLAIM
    assert (found.claimed, found.running) == ({"cpu": 2}, {"cpu": 3})
    both = [STARTED, replace(STARTED, id="claim-2")]
    assert findings(both, [runs(cpu=4)], 200.0) == [], "two claims of one workload count together"


def test_an_estimate_is_the_time_past_releases_took() -> None:
    """One CPU each 10 s: three more take 30 s whenever one asks."""
    releases = [QuotaRelease(10.0 * place, {"cpu": 1}) for place in range(40)]
    assert estimate_start(releases, {"cpu": 3}, 400.0) == StartEstimate(30.0, 30.0, 37)
    assert estimate_start(releases, {"cpu": 0, "memory": -5}, 400.0) == StartEstimate(0.0, 0.0, 0)


def test_a_past_that_says_nothing_gives_no_number() -> None:
    few = [QuotaRelease(float(place), {"cpu": 1}) for place in range(7)]
    assert estimate_start(few, {"cpu": 1}, 10.0) is None
    releases = [QuotaRelease(10.0 * place, {"cpu": 1}) for place in range(40)]
    assert estimate_start(releases, {"gpu": 1}, 400.0) == StartEstimate(None, None, 21), "the older half of the moments"


def test_a_quota_that_stopped_releasing_is_not_judged_by_its_fast_past_alone() -> None:
    releases = [QuotaRelease(float(place), {"cpu": 1}) for place in range(20)]
    soon, late = (estimate_start(releases, {"cpu": 10}, now_s) for now_s in (20.0, 400.0))
    assert soon is not None
    assert late is not None
    assert soon.p90_s == 10.0
    assert late.p90_s is None


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 5)), min_size=8, max_size=60),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_estimates_equal_a_plain_search(gaps: list[tuple[int, int]], needed: int, order: object) -> None:
    at_s, releases = 0.0, []
    for gap, amount in gaps:
        at_s += gap
        releases.append(QuotaRelease(at_s, {"cpu": amount}))
    found = estimate_start(releases, {"cpu": needed}, at_s)
    delays = []
    for place, first in enumerate(releases):
        total, reached = 0, None
        for later in releases[place + 1 :]:
            total += later.amounts["cpu"]
            if total >= needed:
                reached = later.at_s - first.at_s
                break
        if reached is not None:
            delays.append(reached)
        elif at_s - first.at_s >= (at_s - releases[0].at_s) / 2:
            delays.append(float("inf"))
    assert found is not None
    assert found.samples == len(delays)
    if delays:
        median = sorted(delays)[-(-len(delays) // 2) - 1]
        assert found.p50_s == (None if median == float("inf") else median)


def test_the_hit_rate_counts_starts_within_each_quantile() -> None:
    estimate = StartEstimate(10.0, 30.0, 20)
    outcomes = [EstimateOutcome(estimate, waited_s) for waited_s in (5.0, 10.0, 20.0, 31.0)]
    found = hit_rate([*outcomes, EstimateOutcome(StartEstimate(None, None, 20), 1.0)])
    assert (found.p50, found.p90, found.outcomes) == (0.5, 0.75, 5)
    assert hit_rate([]).p50 is None

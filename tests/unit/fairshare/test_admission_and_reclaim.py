"""Which claims are admitted, and which are given back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare.admission import LimitExcess, QuotaAccount, QuotaLimit, excesses
from slackwater.fairshare.overuse import Overuse
from slackwater.fairshare.reclaim import AdmittedClaim, over_used, to_reclaim
from slackwater.fairshare.tree import added

TEAM = QuotaAccount(
    quota="team", used={"cpu": 6_000}, runtime={"cpu": 7_000}, maximum={"cpu": 10_000}, minimum={"cpu": 5_000},
    non_preemptible_used={"cpu": 4_500},
)  # fmt: skip
ORG = QuotaAccount("org", {"cpu": 19_500}, {"cpu": 20_000}, {"cpu": 20_000}, {"cpu": 20_000}, {})

claims = st.lists(
    st.builds(
        AdmittedClaim,
        id=st.integers(0, 10**6).map(str),
        request=st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 9), "memory": st.integers(0, 9)}),
        priority=st.integers(0, 2),
        started=st.integers(0, 3).map(float),
        non_preemptible=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda claim: claim.id,
)
runtimes = st.fixed_dictionaries({"cpu": st.integers(0, 30), "memory": st.integers(0, 30)})


def test_a_claim_is_refused_with_the_quota_the_limit_and_the_numbers() -> None:
    assert excesses({"cpu": 500}, [TEAM, ORG]) == []
    beyond = [LimitExcess("org", limit, "cpu", 19_500, 800, 20_000) for limit in (QuotaLimit.MAX, QuotaLimit.RUNTIME)]
    assert excesses({"cpu": 800}, [TEAM, ORG]) == beyond
    assert [(one.quota, one.limit) for one in excesses({"cpu": 2_000}, [TEAM])] == [("team", QuotaLimit.RUNTIME)]
    assert excesses({"cpu": 2_000}, [TEAM], elastic=False) == []


def test_a_claim_that_cannot_be_taken_back_never_stands_on_what_is_borrowed() -> None:
    assert [one.limit for one in excesses({"cpu": 600}, [TEAM], non_preemptible=True)] == [QuotaLimit.MIN]
    assert excesses({"cpu": 500}, [TEAM], non_preemptible=True) == []


def test_a_resource_that_is_not_asked_for_refuses_nothing() -> None:
    over = QuotaAccount("team", {"cpu": 0, "memory": 9}, {"cpu": 5, "memory": 1}, {"cpu": 5, "memory": 5}, {}, {})
    assert excesses({"cpu": 1}, [over]) == []
    assert excesses({"gpu": 3}, [over]) == [], "not limited by this quota"


@given(claims, runtimes)
def test_reclaim_takes_what_is_needed_and_nothing_more(admitted: list[AdmittedClaim], runtime: dict[str, int]) -> None:
    taken = to_reclaim(admitted, runtime)
    assert not any(claim.non_preemptible for claim in taken)
    ids = {claim.id for claim in taken}
    kept = added(*(claim.request for claim in admitted if claim.id not in ids))
    fixed = added(*(claim.request for claim in admitted if claim.non_preemptible))
    if over_used(kept, runtime):
        assert over_used(fixed, runtime), "only what cannot be taken stands above the runtime"
        return
    for claim in taken:
        assert over_used(added(kept, claim.request), runtime), "each one is needed"


@given(st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=30), st.integers(1, 100))
def test_a_reclaim_is_due_only_after_the_delay_without_a_break(looks: list[tuple[int, bool]], delay: int) -> None:
    clock, now, since = Overuse(0.0), 0.0, 0.0
    for elapsed, over in looks:
        now += elapsed
        clock, due = clock.seen(now, over=over, delay_seconds=delay)
        assert due == (over and now - since > delay)
        if due or not over:
            since = now


@pytest.mark.parametrize(("priority", "gone"), [(5, "young"), (1, "old")])
def test_the_lowest_priority_goes_first_then_the_newest(priority: int, gone: str) -> None:
    old, young = AdmittedClaim("old", {"cpu": 5}, priority, 10.0), AdmittedClaim("young", {"cpu": 5}, 5, 20.0)
    assert [claim.id for claim in to_reclaim([old, young], {"cpu": 5})] == [gone]

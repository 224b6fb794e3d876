"""Resources that a quota's max does not name: shared by weight, lent and given back as those that it names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from test_arbitration_cases import admitted, claim, plan, running

from slackwater.fairshare.claims import QuotaClaim, ReclaimReason, admit, start
from slackwater.fairshare.documents import ElasticQuota, quota_of
from slackwater.fairshare.tree import Quota

POOL = {"": {"cpu": 12_000, "memory": 120, "gpu": 8}}


def team(name: str, **spec: object) -> Quota:
    return quota_of(ElasticQuota.parse({"metadata": {"name": name}, "spec": spec})).quota


def asking(identity: str, resource: str, amount: int, at_s: float = 0.0) -> QuotaClaim:
    return replace(claim(identity, 0, at_s), request={resource: amount})


def holding(identity: str, resource: str, amount: int, at_s: float = 0.0) -> QuotaClaim:
    asked = asking(identity, resource, amount, at_s)
    return start(admit(asked, asked.request, at_s), at_s)


SHARED: dict[str, tuple[list[Quota], str, int, dict[str, int]]] = {
    "neither names any": ([team("a"), team("b")], "cpu", 1000, {"a": 6, "b": 6}),
    "one names another": ([team("a", max={"memory": 100}), team("b")], "cpu", 1000, {"a": 6, "b": 6}),
    "one names it, above what there is": (
        [team("a", max={"memory": 100}), team("b", max={"cpu": 12})],
        "cpu",
        1000,
        {"a": 6, "b": 6},
    ),
    "weights of what no max names": (
        [team("a", sharedWeight={"cpu": 3}, max={"memory": 100}), team("b", sharedWeight={"cpu": 1})],
        "cpu",
        1000,
        {"a": 9, "b": 3},
    ),
    "weights of a device": (
        [team("a", sharedWeight={"gpu": 3}, max={"cpu": 10}), team("b", sharedWeight={"gpu": 1}, max={"cpu": 10})],
        "gpu",
        1,
        {"a": 6, "b": 2},
    ),
    "below a parent that names memory alone": (
        [
            team("p", isParent=True, max={"memory": 100}),
            team("q", isParent=True, max={"memory": 100}),
            team("a", parent="p"),
            team("b", parent="q"),
        ],
        "cpu",
        1000,
        {"a": 6, "b": 6},
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_no_max_names_is_shared_by_weight(name: str) -> None:
    quotas, resource, amount, shares = SHARED[name]
    queue = [asking(f"{quota}{place:02}", resource, amount) for quota in "ab" for place in range(12)]
    assert Counter(identity[0] for identity in admitted(plan(quotas, queue, totals=POOL))) == shares


OWED: dict[str, list[Quota]] = {
    "the borrower names nothing": [team("a"), team("b", min={"cpu": 10}, max={"cpu": 10})],
    "the borrower names a device": [team("a", max={"gpu": 8}), team("b", min={"cpu": 10}, max={"cpu": 10})],
    "the borrower has a min of another": [
        team("a", min={"memory": 10}, max={"memory": 100}),
        team("b", min={"cpu": 10}, max={"cpu": 10}),
    ],
    "the borrower's parent names memory alone": [
        team("p", isParent=True, max={"memory": 100}),
        team("a", parent="p"),
        team("b", min={"cpu": 10}, max={"cpu": 12}),
    ],
}


@pytest.mark.parametrize("name", OWED)
def test_what_no_max_names_is_given_back_for_a_min(name: str) -> None:
    holds_all = [running(f"a{place}", 2000, float(place)) for place in range(6)]
    found = plan(OWED[name], [*holds_all, claim("b0", 10_000, 50.0)], totals=POOL)
    assert {each.reason for each in found.reclaims} == {ReclaimReason.LENDER_MIN}
    assert len(found.reclaims) == 5


def test_a_device_is_given_back_as_a_processor_is() -> None:
    quotas = [team("a", max={"cpu": 10}), team("b", min={"gpu": 4}, max={"gpu": 8})]
    holds_all = [holding(f"a{place}", "gpu", 2, float(place)) for place in range(4)]
    found = plan(quotas, [*holds_all, asking("b0", "gpu", 4, 50.0)], totals=POOL)
    assert [each.victim for each in found.reclaims] == ["a3", "a2"]

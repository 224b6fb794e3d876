"""What is refused of a quota, and that what is accepted keeps the tree whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn_trees import trees
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare.tree import ROOT, Quota, added, children_of, top_down
from slackwater.fairshare.validation import QuotaRule, deletion_refusals, refusals

ORG = Quota("org", minimum={"cpu": 10}, maximum={"cpu": 20}, is_parent=True)
TEAM = Quota("team", "org", minimum={"cpu": 6}, maximum={"cpu": 30})
FORCE = {quota.name: quota for quota in (ORG, TEAM)}


@pytest.mark.parametrize(
    ("new", "rule", "field", "words"),
    [
        (replace(TEAM, minimum={"cpu": -1}), QuotaRule.AMOUNT, "spec.min.cpu", "-0.001 is below 0"),
        (replace(TEAM, minimum={"cpu": 31}), QuotaRule.MIN_WITHIN_MAX, "spec.min.cpu", "0.031 is more than max 0.03"),
        (replace(TEAM, minimum={"gpu": 1}), QuotaRule.MIN_WITHIN_MAX, "spec.max.gpu", "add it to spec.max"),
        (Quota("b", "nobody"), QuotaRule.PARENT, "spec.parent", "create it first"),
        (Quota("b", "team"), QuotaRule.PARENT, "spec.parent", "isParent"),
        (replace(ORG, parent="team"), QuotaRule.CYCLE, "spec.parent", "its own ancestor"),
        (replace(ORG, parent="org"), QuotaRule.CYCLE, "spec.parent", "its own ancestor"),
        (Quota("b", "org", tree="gpu"), QuotaRule.TREE, "spec.tree", "'gpu'"),
        (Quota("b", "org", maximum={"gpu": 5}), QuotaRule.KEYS, "spec.max.gpu", "its parent org"),
        (
            Quota("b", "org", {"cpu": 5}, {"cpu": 5}),
            QuotaRule.MIN_SUM,
            "spec.min.cpu",
            "promised 0.011 cpu, its own min",
        ),
        (
            replace(ORG, minimum={"cpu": 5}),
            QuotaRule.MIN_SUM,
            "spec.min.cpu",
            "promised 0.006 cpu, its own min is 0.005",
        ),
        (
            Quota("b", "org", {"cpu": 1}, {"cpu": 5}, guaranteed={"cpu": 5}),
            QuotaRule.GUARANTEED_WITHIN_MIN,
            "spec.guaranteed.cpu",
            "0.005 is more than min 0.001",
        ),
        (
            Quota("b", "org", maximum={"cpu": 4}, guaranteed={"cpu": 120}),
            QuotaRule.GUARANTEED_WITHIN_MIN,
            "spec.guaranteed.cpu",
            "0.12 is more than min 0",
        ),
        (replace(ORG, is_parent=False), QuotaRule.IS_PARENT, "spec.isParent", "1 children"),
        (Quota(ROOT), QuotaRule.NAME, "metadata.name", "generated"),
    ],
)
def test_a_broken_rule_names_the_field_and_the_numbers(new: Quota, rule: QuotaRule, field: str, words: str) -> None:
    found = [refusal for refusal in refusals(FORCE, new, {}) if refusal.rule is rule]
    assert [refusal.field for refusal in found] == [field]
    assert words in found[0].message


def test_a_quota_with_claims_becomes_no_parent_and_is_not_deleted() -> None:
    assert [one.rule for one in refusals(FORCE, replace(TEAM, is_parent=True), {"team": 2})] == [QuotaRule.IS_PARENT]
    assert [one.rule for one in deletion_refusals(FORCE, "team", {"team": 2})] == [QuotaRule.IN_USE]
    assert [one.rule for one in deletion_refusals(FORCE, "org", {})] == [QuotaRule.IN_USE]
    assert deletion_refusals(FORCE, "team", {}) == []
    assert [one.rule for one in deletion_refusals(FORCE, "default", {})] == [QuotaRule.NAME]


def test_the_max_of_a_child_may_exceed_its_parents() -> None:
    assert refusals(FORCE, TEAM, {"team": 3}) == []


@given(st.lists(trees(5), min_size=1, max_size=4), st.data())
def test_what_is_accepted_in_any_order_is_a_tree_whose_mins_fit(drawn: list[list[Quota]], data: st.DataObject) -> None:
    force: dict[str, Quota] = {}
    for quotas in drawn:
        for quota in quotas:
            new = replace(quota, is_parent=data.draw(st.booleans()))
            if not refusals(force, new, {}):
                force[new.name] = new
    top_down(list(force.values()))
    for parent, children in children_of(list(force.values())).items():
        if parent != ROOT:
            promised = added(*(child.minimum for child in children))
            assert all(amount <= force[parent].minimum.get(key, 0) for key, amount in promised.items())


HUGE = Quota(
    "org", minimum={"cpu": 10_000, "memory": 4 << 30}, maximum={"cpu": 20_000, "memory": 8 << 30}, is_parent=True
)


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (
            Quota("b", "org", {"cpu": 1000}, {"cpu": 4000}, guaranteed={"memory": 1 << 30}),
            "guaranteed 1Gi is more than min 0",
        ),
        (
            Quota("b", "org", {"cpu": 1500}, {"cpu": 1000}, guaranteed={"cpu": 1500}),
            "min 1.5 is more than max 1",
        ),
        (
            Quota("b", "org", {"cpu": 1000, "memory": 1 << 30}, {"cpu": 4000}),
            "min names memory (1Gi), max does not",
        ),
        (
            Quota("b", "org", {"memory": 5 << 30}, {"memory": 5 << 30}),
            "the children of org are promised 5Gi memory, its own min is 4Gi",
        ),
        (
            replace(HUGE, maximum={"cpu": 9500, "memory": 8 << 30}),
            "min 10 is more than max 9.5",
        ),
        (
            replace(HUGE, guaranteed={"nvidia.com/gpu": 8}),
            "guaranteed 8 is more than min 0",
        ),
        (
            replace(HUGE, minimum={"cpu": 10_000}, guaranteed={"cpu": 10_000, "memory": 4 << 30}),
            "guaranteed 4Gi is more than min 0",
        ),
    ],
)
def test_guaranteed_is_within_min_and_min_within_max_whatever_is_named(new: Quota, words: str) -> None:
    """Amounts are those that people write, as columns show them."""
    assert words in "; ".join(refusal.message for refusal in refusals({"org": HUGE}, new, {}))

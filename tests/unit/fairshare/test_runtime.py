"""Runtime of a level and of a tree: the worked example, and what always holds."""

from __future__ import annotations

import random

import numpy as np
from drawn_trees import AMOUNT, totals, trees
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare.batched import arrays_of, matrix, runtimes
from slackwater.fairshare.batched import entitlements as batched_entitlements
from slackwater.fairshare.level_share import Sharer, share, split
from slackwater.fairshare.tree import ROOT, Quota, children_of, entitlements, ledger

sharers = st.lists(
    st.builds(
        Sharer,
        name=st.integers(0, 99).map(lambda number: f"q{number:02}"),
        minimum=AMOUNT,
        request=AMOUNT,
        weight=AMOUNT,
        lends=st.booleans(),
        guaranteed=st.sampled_from([0, 0, 5]),
    ),
    max_size=7,
    unique_by=lambda sharer: sharer.name,
)


def test_the_worked_example_gives_5_20_35_40_and_tells_its_rounds() -> None:
    four = [
        Sharer("node1", minimum=10, request=5, weight=40),
        Sharer("node2", minimum=15, request=20, weight=60),
        Sharer("node3", minimum=20, request=40, weight=50),
        Sharer("node4", minimum=15, request=70, weight=80),
    ]
    sharing = share(100, four)
    assert sharing.runtime == {"node1": 5, "node2": 20, "node3": 35, "node4": 40}
    assert sharing.first == {"node1": 5, "node2": 15, "node3": 20, "node4": 15}
    first, second = sharing.rounds
    assert (first.pool, first.weights, first.given) == (45, 190, {"node2": 14, "node3": 12, "node4": 19})
    assert first.returned == {"node2": 9}
    assert (second.pool, second.weights, second.given) == (9, 130, {"node3": 3, "node4": 6})


@given(st.integers(0, 2**50), st.dictionaries(st.text(max_size=3), AMOUNT, max_size=6))
def test_a_split_gives_everything_and_each_within_a_unit_of_its_share(pool: int, weights: dict[str, int]) -> None:
    total = sum(weights.values())
    if total == 0:
        return
    given_out = split(pool, weights)
    assert sum(given_out.values()) == pool
    for name, weight in weights.items():
        assert abs(given_out[name] * total - pool * weight) < total


@given(AMOUNT, sharers)
def test_a_share_is_bounded_conserves_and_explains_itself(total: int, children: list[Sharer]) -> None:
    sharing = share(total, children)
    for child in children:
        runtime = sharing.runtime[child.name]
        assert min(child.entitled, child.request) <= runtime <= max(child.request, child.entitled)
        moved = sum(each.given.get(child.name, 0) - each.returned.get(child.name, 0) for each in sharing.rounds)
        assert runtime == sharing.first[child.name] + moved
    assert sum(sharing.runtime.values()) + sharing.unallocated == total
    short = [child for child in children if sharing.runtime[child.name] < child.request and child.weight > 0]
    assert not short or sharing.unallocated <= 0, "nothing is left while a child with a weight is short"


@given(trees(), totals(), st.randoms(use_true_random=False))
def test_the_order_of_quotas_does_not_matter(quotas: list[Quota], total: dict[str, int], order: random.Random) -> None:
    shuffled = list(quotas)
    order.shuffle(shuffled)
    assert ledger(shuffled, total) == ledger(quotas, total)


@given(trees(), totals())
def test_a_runtime_lies_between_min_and_max_and_levels_fit(quotas: list[Quota], total: dict[str, int]) -> None:
    found = ledger(quotas, total)
    for parent, children in children_of(quotas).items():
        level = found.levels[parent]
        for resource, sharing in level.sharing.items():
            fixed = any(not child.scales or not child.lends for child in children)
            assert fixed or sharing.unallocated >= 0, "scaled mins fit"
            for child in children:
                if resource not in child.maximum:
                    continue
                runtime = found.runtime[child.name][resource]
                limited = found.demand[child.name].limited.get(resource, 0)
                minimum = level.minimum[child.name].get(resource, 0)
                assert min(minimum, limited) <= runtime <= max(minimum, limited) <= child.maximum[resource]


@given(trees(), totals())
def test_the_batched_form_equals_the_readable_one(quotas: list[Quota], total: dict[str, int]) -> None:
    found, tree = ledger(quotas, total), arrays_of(quotas)
    by_name = {quota.name: quota for quota in quotas}
    own = matrix([by_name[name].own_request for name in tree.names], tree.resources)
    of_total = np.array([total.get(key, 0) for key in tree.resources], np.int64)
    figures, entitled = runtimes(tree, own, of_total), batched_entitlements(tree, of_total)
    kept = entitlements(quotas, total)
    for row, name in enumerate(tree.names):
        parent = by_name[name].parent
        for column, resource in enumerate(tree.resources):
            assert figures.request[row, column] == found.demand[name].request.get(resource, 0)
            assert figures.limited[row, column] == found.demand[name].limited.get(resource, 0)
            assert entitled[row, column] == kept[name].get(resource, 0)
            assert figures.runtime[row, column] == found.runtime[name].get(resource, 0)
            assert figures.minimum[row, column] == found.levels[parent].minimum[name].get(resource, 0)


def test_a_tree_without_quotas_has_no_figures() -> None:
    assert ledger([], {"cpu": 5}).runtime == {}
    assert ROOT not in ledger([Quota("a")], {"cpu": 5}).runtime

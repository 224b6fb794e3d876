"""The merge of hints against the plain product, which is its readable form."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.topology.hints import ANYWHERE, NOWHERE, Hint, mask_of, nodes_of, widest_of_narrowest
from slackwater.kernels.topology.merge import (
    Distances,
    MergePolicy,
    best_hint,
    distances_between,
    merge,
    prefers_candidate,
)

EVERYWHERE = mask_of(range(5))
HINTS = st.builds(Hint, st.none() | st.integers(0, EVERYWHERE), st.booleans())
LISTS = st.lists(st.lists(HINTS, min_size=1, max_size=4), max_size=4)
ROWS = st.lists(st.lists(st.integers(10, 13), min_size=5, max_size=5), min_size=5, max_size=5)


def merge_product(lists: Sequence[Sequence[Hint]], distances: Distances | None = None) -> Hint:
    """Compare every combination with the best so far."""
    best, most = None, widest_of_narrowest(lists)
    for chosen in product(*lists):
        masks = {hint.mask for hint in chosen if hint.mask is not None}
        merged = EVERYWHERE
        for mask in masks:
            merged &= mask
        candidate = Hint(merged, all(hint.preferred for hint in chosen) and len(masks) < 2)
        if prefers_candidate(best, candidate, most, distances):
            best = candidate
    return best or Hint(EVERYWHERE, preferred=False)


@given(LISTS)
def test_the_merge_is_that_of_the_product(lists: list[list[Hint]]) -> None:
    assert best_hint(EVERYWHERE, lists, None) == merge_product(lists)


@given(LISTS, ROWS)
def test_the_merge_by_distance_is_that_of_the_product(lists: list[list[Hint]], rows: list[list[int]]) -> None:
    distances = distances_between(lambda nodes: sum(rows[one][other] for one in nodes for other in nodes))
    assert best_hint(EVERYWHERE, lists, distances) == merge_product(lists, distances)


@given(st.lists(st.lists(HINTS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_order_of_resources_and_of_hints_changes_nothing(lists: list[list[Hint]]) -> None:
    found = {best_hint(EVERYWHERE, order, None) for order in permutations(lists)}
    found |= {best_hint(EVERYWHERE, [one[::-1] for one in lists], None)}
    assert len(found) == 1


@given(LISTS)
def test_what_is_restricted_is_admitted_only_where_every_resource_prefers_it(lists: list[list[Hint]]) -> None:
    providers = [{f"r{number}": hints} for number, hints in enumerate(lists)]
    merged = merge(MergePolicy.RESTRICTED, range(5), providers)
    assert merged.hint is not None
    if merged.admitted:
        masks = {None, merged.hint.mask}
        # a hint may name nodes that the machine has not
        assert all(any(hint.preferred and _within(hint) in masks for hint in hints) for hints in lists)
    assert merge(MergePolicy.BEST_EFFORT, range(5), providers).admitted


@given(LISTS)
def test_single_numa_node_admits_on_one_node_or_on_any(lists: list[list[Hint]]) -> None:
    merged = merge(
        MergePolicy.SINGLE_NUMA_NODE, range(5), [{f"r{number}": hints} for number, hints in enumerate(lists)]
    )
    assert merged.hint is not None
    if merged.admitted:
        assert merged.hint.width <= 1


def test_a_resource_that_cannot_be_had_is_refused() -> None:
    for policy in (MergePolicy.RESTRICTED, MergePolicy.SINGLE_NUMA_NODE):
        assert not merge(policy, range(2), [{"nic": []}, {"cpu": [Hint(1, preferred=True)]}]).admitted
    assert merge(MergePolicy.NONE, range(2), [{"nic": []}]).hint is None


def test_thirty_four_nodes_and_five_resources_have_few_different_masks() -> None:
    """GB200 has 34 NUMA nodes; the product of these lists has 52 million combinations."""
    nodes = range(34)
    every = mask_of(nodes)
    hints = [*(Hint(1 << node, preferred=False) for node in nodes), Hint(every, preferred=False)]
    merged = merge(MergePolicy.BEST_EFFORT, nodes, [{f"r{number}": hints} for number in range(5)])
    assert merged.hint == Hint(1, preferred=False)


def test_masks_are_lists_of_nodes() -> None:
    assert nodes_of(mask_of((5, 0, 33))) == (0, 5, 33)
    assert (ANYWHERE.width, NOWHERE.width, Hint(7, preferred=True).width) == (0, 0, 3)


def _within(hint: Hint) -> int | None:
    return None if hint.mask is None else hint.mask & EVERYWHERE

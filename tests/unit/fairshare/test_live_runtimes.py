"""Runtimes of a layout that has computed others before equal those of a new one, and stay as they were given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from drawn_trees import AMOUNT, RESOURCES, totals, trees
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare import tree_layout
from slackwater.fairshare.tree import Quota
from slackwater.fairshare.tree_layout import TreeLayout


@pytest.fixture(scope="module", autouse=True)
def small_trees_are_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tree_layout, "LARGE", 0)
        yield


changes = st.lists(st.tuples(st.integers(0, 8), AMOUNT, st.sampled_from(["request", "total", "none"])), max_size=8)


@given(quotas=trees(), total=totals(), steps=changes, held=st.booleans())
def test_they_equal_those_of_the_whole_tree(
    quotas: list[Quota], total: dict[str, int], steps: list[tuple[int, int, str]], held: bool
) -> None:
    layout, requested, given_before = TreeLayout(quotas), dict[str, dict[str, int]](), []
    for number, amount, what in steps:
        if what == "total":
            total = {**total, RESOURCES[0]: amount}
        elif what == "request":
            own = requested.setdefault(quotas[number % len(quotas)].name, {})
            own[RESOURCES[number % 2]] = amount  # in place, as the index of claims does
        found = layout.runtimes(requested, total)
        whole = TreeLayout(quotas).runtimes(requested, total)
        if held:
            given_before.append((found, whole))
            continue
        assert [(name, list(found[name].items())) for name in found] == [
            (name, list(whole[name].items())) for name in whole
        ]
    for found, whole in given_before:
        assert dict(found) == dict(whole), "what follows changes nothing in it"


@given(quotas=trees(), total=totals(), amounts=st.lists(AMOUNT, min_size=3, max_size=3))
def test_many_changes_are_computed_at_once(quotas: list[Quota], total: dict[str, int], amounts: list[int]) -> None:
    layout = TreeLayout(quotas)
    for amount in amounts:
        requested = {quota.name: {RESOURCES[0]: amount} for quota in quotas}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tree_layout, "FEW", 0)
            found = dict(layout.runtimes(requested, total))
        assert found == dict(TreeLayout(quotas).runtimes(requested, total))

"""The ledger that is kept up to date equals the whole one, and touches no more than it has to."""

from __future__ import annotations

from dataclasses import replace

from drawn_trees import AMOUNT, RESOURCES, totals, trees
from hypothesis import given
from hypothesis import strategies as st

from slackwater.fairshare.live_ledger import LiveLedger
from slackwater.fairshare.tree import Quota, ledger, path_to_root


@given(trees(), totals(), st.lists(st.tuples(st.integers(0, 8), AMOUNT, st.booleans()), max_size=6))
def test_it_equals_the_whole_ledger_after_every_change(
    quotas: list[Quota], total: dict[str, int], changes: list[tuple[int, int, bool]]
) -> None:
    live = LiveLedger(quotas, total)
    for number, amount, is_total in changes:
        if is_total:
            total = {**total, RESOURCES[0]: amount}
            live.set_total(total)
        else:
            place = number % len(quotas)
            request = {RESOURCES[0]: amount}
            quotas = [
                replace(quota, own_request=request) if index == place else quota for index, quota in enumerate(quotas)
            ]
            live.set_request(quotas[place].name, request)
        whole = ledger(quotas, total)
        for quota in reversed(quotas):
            assert live.runtime(quota.name) == whole.runtime[quota.name]
            assert live.demand(quota.name) == whole.demand[quota.name]


@given(trees(), totals(), st.integers(0, 8), AMOUNT)
def test_a_changed_request_touches_its_path_only(
    quotas: list[Quota], total: dict[str, int], number: int, amount: int
) -> None:
    live = LiveLedger(quotas, total)
    for quota in quotas:
        live.runtime(quota.name)
    name = quotas[number % len(quotas)].name
    levels, demands = live.levels_shared, live.demands_summed
    live.set_request(name, {RESOURCES[0]: amount})
    live.runtime(name)
    path = list(path_to_root({quota.name: quota.parent for quota in quotas}, name))[:-1]
    assert live.levels_shared - levels <= len(path)
    assert live.demands_summed - demands <= len(path)

"""Properties of pool sizes: never more than there is where one CPU each fits, never nothing, and proportional."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.topology.pool_sizes import (
    cpus_needed,
    fit_pools,
    nodes_for_cpus,
    nodes_for_memory,
    overlap_by_pool,
    overlap_ratio,
)
from slackwater.model.errors import Conflict, InvalidInput

POOLS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 100), min_size=1)


@given(POOLS, st.integers(1, 300), st.booleans())
def test_pools_fit_and_none_is_empty(pools: dict[str, int], available: int, expand: bool) -> None:
    sizes = fit_pools(pools, available, expand=expand)
    assert sizes.keys() == pools.keys()
    assert min(sizes.values()) >= 1
    if len(pools) > available:
        assert set(sizes.values()) == {available}, "all share what is there"
        return
    total = sum(pools.values())
    assert sum(sizes.values()) == (total if total <= available and not expand else available)
    if total > available:
        assert all(size <= pools[name] for name, size in sizes.items())


@given(POOLS, st.integers(1, 300))
def test_a_larger_pool_gets_no_less(pools: dict[str, int], available: int) -> None:
    sizes = fit_pools(pools, available, expand=True)
    for one in pools:
        assert all(sizes[one] >= sizes[other] - 1 for other in pools if pools[one] >= pools[other])


@given(POOLS, st.integers(0, 600))
def test_the_overlap_is_what_is_required(pools: dict[str, int], required: int) -> None:
    if required > sum(pools.values()):
        with pytest.raises(Conflict):
            overlap_by_pool(pools, required)
        return
    shared = overlap_by_pool(pools, required)
    assert sum(shared.values()) == required
    assert all(0 < part <= pools[name] for name, part in shared.items())


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(1, 16))
def test_nodes_hold_what_is_asked_for_and_one_fewer_would_not(request: int, size: int, nodes: int) -> None:
    if request > size * nodes:
        with pytest.raises(Conflict):
            nodes_for_memory(request, size, nodes)
        return
    found = nodes_for_memory(request, size, nodes)
    assert request <= found.nodes * found.per_node
    assert found.per_node <= size
    assert (found.nodes - 1) * size < request


def test_a_machine_without_nodes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one NUMA node"):
        nodes_for_cpus(1.0, 0, 0)
    with pytest.raises(InvalidInput, match="empty pool"):
        overlap_ratio(set(), {1})


def test_rounding_asks_for_no_further_cpu() -> None:
    assert cpus_needed([0.1, 0.2]) == 1
    assert cpus_needed([0.1] * 10) == 1
    assert cpus_needed([188.0000000001]) == 188

"""What is kept back, and what a node's status says in the end."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.offers.reservation import annotated_reservation, cpuset_size, kubelet_reservation
from slackwater.offers.reserved_amounts import Prepared, ThirdParty, normalised, parse_ratio, prepared

YARN = ThirdParty("yarn", "batch", Resources(1000, 5000))


def test_the_kubelet_keeps_what_is_not_allocatable_and_amplification_does_not_hide_it() -> None:
    capacity, raw, amplified = Resources(10_000, 100), Resources(9000, 90), Resources(18_000, 90)
    assert kubelet_reservation(capacity, raw, None) == Resources(1000, 10)
    assert kubelet_reservation(capacity, amplified, raw) == Resources(1000, 10)
    assert kubelet_reservation(capacity, amplified, None) == Resources(0, 10)


def test_cpus_that_are_named_win_over_an_amount() -> None:
    assert annotated_reservation(Resources(5000, 7), "0-1,4,4") == Resources(3000, 7)
    assert annotated_reservation(Resources(5000, 7), "8") == Resources(1000, 7)
    assert annotated_reservation(Resources(5000, 7), "0-65535,7-9").cpu_milli == 65_536_000
    assert annotated_reservation(Resources(5000, 7), "") == Resources(5000, 7)


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-1", "1,,2", "1.5", "0-65536", "9" * 5000])
def test_a_list_of_cpus_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="like 0-3,8"):
        cpuset_size(text)


def test_cpus_of_a_fast_node_are_worth_more_and_memory_is_not() -> None:
    assert prepared(25_000, "cpu", ratio=Decimal("1.2")) == Prepared(30_000, 30_000)
    assert prepared(25_000, "memory", ratio=Decimal("1.2")) == Prepared(25_000, 25_000)
    assert normalised(10, Decimal("1.19")) == 11
    assert normalised(10, Decimal("0.5")) == 10


def test_what_others_handed_out_is_subtracted_and_the_value_before_is_kept() -> None:
    other = ThirdParty("x", "mid", Resources(9, 9))
    assert prepared(3000, "cpu", [YARN, other]) == Prepared(2000, 3000)
    assert prepared(3000, "memory", [YARN]) == Prepared(0, 3000)
    assert prepared(None, "cpu", [YARN]) == Prepared(None, 0)


@pytest.mark.parametrize("text", ["0.9", "5.1", "x", "NaN", "-1", "Infinity"])
def test_a_ratio_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="from 1 to 5"):
        parse_ratio(text)


@given(st.integers(0, 10**6), st.decimals(1, 5, places=2))
def test_a_ratio_never_takes_away(cpu: int, ratio: Decimal) -> None:
    assert cpu <= normalised(cpu, parse_ratio(str(ratio))) <= 5 * cpu

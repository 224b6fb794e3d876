"""Quantities: what the API server means by a text, and the text that it answers."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import canonical_bytes, canonical_quantity, parse_quantity, whole_amount


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("12k", 12_000), ("1500", 1_500), ("1Gi", 2**30), ("0.5Gi", 2**29), ("2E", 2 * 10**18), ("1Ei", 2**60)),
        *(("100m", Decimal("0.1")), ("1e3", 1_000), ("1E3", 1_000), ("12e-1", Decimal("1.2")), (".5", Decimal("0.5"))),
        *(("-1k", -1_000), ("+3", 3), ("5.", 5), (7, 7), ("250n", Decimal("2.5e-7")), (" 1 ", 1)),
    ],
)
def test_a_quantity_is_parsed_exactly(text: object, number: int | Decimal) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize(
    "text", ["", "k", "1kk", "1 k", "0x10", "1K", "NaN", "Infinity", None, True, [], "1" * 99, "1e9999"]
)
def test_what_is_no_quantity_counts_as_nothing(text: object) -> None:
    assert parse_quantity(text) is None
    assert whole_amount(text) == 0


@pytest.mark.parametrize(
    ("text", "factor", "amount"), [("1m", 1, 1), ("1500m", 1000, 1500), ("-5", 1, 0), ("9E", 1, 9 * 10**18)]
)
def test_amounts_are_whole_and_round_up(text: str, factor: int, amount: int) -> None:
    assert whole_amount(text, factor) == amount
    assert whole_amount("10E") == whole_amount("1e30") == 2**63 - 1, "as the API server has it"


@given(st.integers(0, 2**62))
def test_canonical_text_means_the_same_amount(amount: int) -> None:
    for text in (canonical_quantity(amount), canonical_bytes(amount)):
        assert whole_amount(text) == amount


@given(st.integers(1, 2**29), st.sampled_from([10**3, 10**6, 2**10, 2**30]))
def test_canonical_text_uses_the_largest_suffix_that_keeps_it_whole(count: int, factor: int) -> None:
    decimal, binary = canonical_quantity(count * factor), canonical_bytes(count * factor)
    assert not decimal.endswith("000")
    if factor in (2**10, 2**30):
        assert binary[-1] == "i"
        assert int(binary[:-2]) % 1024

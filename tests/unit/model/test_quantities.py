from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.bounds import MOST_CPU_MILLI, MOST_MEMORY_BYTES
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources, format_cpu, format_memory, parse_cpu_milli, parse_memory_bytes


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        *(("2", 2000), ("0.5", 500), ("1500m", 1500), ("0.0001", 1), ("0", 0), (" 1 ", 1000), ("1e1", 10_000)),
        *(("250000u", 250), ("1n", 1), ("0.5k", 500_000)),
    ],
)
def test_cpu_notation_becomes_milli_cores_rounded_up(text: str, milli: int) -> None:
    assert parse_cpu_milli(text) == milli


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *(("1Gi", 2**30), ("1.5G", 1_500_000_000), ("512Mi", 512 * 2**20), ("1000", 1000), ("1k", 1000), ("0.1", 1)),
        *(("1073741824000m", 2**30), ("0.0001Ei", 115_292_150_460_685)),
    ],
)
def test_memory_notation_becomes_bytes_rounded_up(text: str, count: int) -> None:
    assert parse_memory_bytes(text) == count


@pytest.mark.parametrize("text", ["", "two", "-1", "NaN", "Infinity", "1Gi2", "1 core", "m", "1e9n", "1e3Ki", "1K"])
def test_what_is_no_quantity_is_refused_by_name_of_the_field(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_cpu_milli(text, field="--cpu")

    assert caught.value.field == "--cpu"
    assert "allowed" in caught.value.message


@pytest.mark.parametrize("text", ["1e99999999", "1e20", "9" * 5000, "9223372036854775808"])
def test_what_no_machine_has_is_refused(text: str) -> None:
    """And quickly: the number itself is never written out."""
    for read in (parse_cpu_milli, parse_memory_bytes):
        with pytest.raises(
            InvalidInput, match=r"'.{1,40}'…? is more than any machine has \(\d+\); allowed: "
        ) as caught:
            read(text)
        assert len(caught.value.message) < 200


def test_the_most_that_a_quantity_can_be() -> None:
    assert parse_memory_bytes("1Pi") == parse_memory_bytes(str(2**50)) == MOST_MEMORY_BYTES
    assert parse_cpu_milli("10000") == parse_cpu_milli("10000000m") == MOST_CPU_MILLI
    for beyond in ("1.1Pi", str(2**50 + 1)):
        with pytest.raises(InvalidInput, match="more than any machine"):
            parse_memory_bytes(beyond)
    for beyond in ("10001", "10000001m"):
        with pytest.raises(InvalidInput, match="more than any machine"):
            parse_cpu_milli(beyond)


@given(st.integers(min_value=0, max_value=MOST_CPU_MILLI))
def test_formatting_cpu_loses_nothing(milli: int) -> None:
    assert parse_cpu_milli(format_cpu(milli)) == milli


@given(st.integers(min_value=0, max_value=MOST_MEMORY_BYTES * 20 // 21))
def test_formatting_memory_stays_within_half_of_the_last_digit(count: int) -> None:
    shown = parse_memory_bytes(format_memory(count))

    assert abs(shown - count) <= max(count * 0.05, 1)


@given(st.integers(), st.integers(), st.integers(), st.integers())
def test_resources_add_and_subtract_per_resource(a: int, b: int, c: int, d: int) -> None:
    assert Resources(a, b) + Resources(c, d) - Resources(c, d) == Resources(a, b)
    assert Resources(a, b).larger_of(Resources(c, d)) == Resources(max(a, c), max(b, d))
    assert Resources(a, b).at_least_zero() == Resources(max(a, 0), max(b, 0))


def test_the_limit_of_a_machine_is_said_in_the_unit_of_the_field() -> None:
    with pytest.raises(InvalidInput, match=r"'16000' is more than any machine has \(10000\)"):
        parse_cpu_milli("16000")

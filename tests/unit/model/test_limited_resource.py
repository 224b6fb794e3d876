"""How full something is: one definition for whatever shows it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.limited_resource import (
    FULL_DISK_BYTES,
    TIGHT_DISK_BYTES,
    FillLevel,
    Limited,
    LimitedResource,
    fullest_first,
)

LEVELS = list(FillLevel)
GIB = 2**30
limits = st.integers(1, 2**50)
resources = st.builds(LimitedResource, st.sampled_from(Limited), st.sampled_from("ab"), limits, limits)


@given(st.sampled_from(Limited), limits, st.integers(0, 2**51), st.integers(0, 2**51))
def test_more_used_is_never_a_lower_level(kind: Limited, limit: int, one: int, other: int) -> None:
    less, more = (LimitedResource(kind, "x", used, limit) for used in sorted((one, other)))
    assert LEVELS.index(less.level) <= LEVELS.index(more.level)


@given(st.sampled_from(Limited), limits)
def test_what_is_unused_is_fine_and_what_is_beyond_its_limit_is_full(kind: Limited, limit: int) -> None:
    assert LimitedResource(kind, "x", 0, limit).level is FillLevel.FINE
    assert LimitedResource(kind, "x", limit + 1, limit).level is FillLevel.FULL


@given(resources)
def test_full_stops_the_process_only_where_another_may_have_room(resource: LimitedResource) -> None:
    own = resource.kind not in (Limited.STREAM, Limited.STORE)
    assert resource.stops_process is (own and resource.level is FillLevel.FULL)


@given(resources)
def test_only_what_is_not_fine_says_what_to_do(resource: LimitedResource) -> None:
    assert resource.figures in resource.message
    assert (resource.message == resource.figures) is (resource.level is FillLevel.FINE)
    assert resource.message.startswith(resource.level) is (resource.level is not FillLevel.FINE)


@given(st.lists(resources))
def test_the_fullest_come_first(found: list[LimitedResource]) -> None:
    levels = [LEVELS.index(one.level) for one in fullest_first(found)]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.parametrize(
    ("kind", "used", "limit", "level"),
    [
        (Limited.STREAM, 3 * GIB, 4 * GIB, FillLevel.FINE),
        (Limited.STREAM, 33 * GIB // 10, 4 * GIB, FillLevel.NEARLY_FULL),
        (Limited.STREAM, 4 * GIB - 2**20, 4 * GIB, FillLevel.FULL),
        (Limited.DISK, 900 * GIB, 1000 * GIB, FillLevel.FINE),
        (Limited.DISK, 1000 * GIB - TIGHT_DISK_BYTES + 1, 1000 * GIB, FillLevel.NEARLY_FULL),
        (Limited.DISK, 1000 * GIB - FULL_DISK_BYTES + 1, 1000 * GIB, FillLevel.FULL),
        (Limited.DISK, 70, 100, FillLevel.FINE),
        (Limited.POOL, 5, 6, FillLevel.NEARLY_FULL),
        (Limited.POOL, 6, 6, FillLevel.NEARLY_FULL),
        (Limited.POOL, 7, 6, FillLevel.FULL),
        (Limited.DESCRIPTORS, 800, 1024, FillLevel.FINE),
        (Limited.DESCRIPTORS, 900, 1024, FillLevel.NEARLY_FULL),
        (Limited.DESCRIPTORS, 1010, 1024, FillLevel.FULL),
    ],
)
def test_levels(kind: Limited, used: int, limit: int, level: FillLevel) -> None:
    assert LimitedResource(kind, "x", used, limit).level is level


def test_a_message_names_figures_and_remedy() -> None:
    full = LimitedResource(Limited.STREAM, "DECISIONS", 4 * GIB, 4 * GIB)
    assert full.label == "stream-DECISIONS"
    assert full.message.startswith("full: 4.0 of 4.0 GiB (100 %); raise max_bytes")
    pool = LimitedResource(Limited.POOL, "ensurance", 9, 6)
    assert pool.message.startswith("full: 9 of 6 sessions in use or waited for (150 %); ")

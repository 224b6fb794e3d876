"""Lanes hold every file once, and the same files give the same lanes."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from tests.suite.partition import APART, TOGETHER, partition
from tests.suite.tiers import ROOT, SLOW, Tier, files_of, tier_of

FILES = st.dictionaries(
    st.sampled_from(
        [f"{folder}test_{n}.py" for folder in ("tests/unit/", "tests/contract/", *TOGETHER) for n in range(9)]
    )
    | st.just(APART),
    st.floats(0, 100),
    min_size=1,
)


@given(FILES, st.integers(1, 5))
def test_every_file_is_in_one_lane_and_lanes_do_not_depend_on_the_order(
    seconds: Mapping[str, float], lanes: int
) -> None:
    parts = partition(seconds, seconds, lanes)
    assert sorted(file for part in parts for file in part) == sorted(seconds)
    assert parts == partition(reversed(list(seconds)), seconds, lanes)
    assert all(part == sorted(part) and part for part in parts)


@given(FILES, st.integers(1, 5))
def test_what_shares_its_fixtures_shares_a_lane(seconds: Mapping[str, float], lanes: int) -> None:
    parts = partition(seconds, seconds, lanes)
    for folder in TOGETHER:
        assert sum(any(file.startswith(folder) and file != APART for file in part) for part in parts) <= 1


@given(FILES, st.integers(2, 5))
def test_no_lane_has_more_than_its_share_and_one_group(seconds: Mapping[str, float], lanes: int) -> None:
    parts = partition(seconds, seconds, lanes)
    loads = [sum(seconds[file] for file in part) for part in parts]
    groups: dict[str, float] = {}
    for file, value in seconds.items():
        folder = next((folder for folder in TOGETHER if file.startswith(folder) and file != APART), file)
        groups[folder] = groups.get(folder, 0.0) + value
    assert max(loads) <= sum(loads) / lanes + max(groups.values()) + 1e-6


def test_the_tiers_hold_every_test_file_once() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")]
    assert sorted([*files_of(Tier.QUICK), *files_of(Tier.SLOW)]) == sorted(files)


def test_what_is_slow_exists_and_says_why() -> None:
    assert [name for name in SLOW if not (ROOT / name).exists()] == []
    assert all(SLOW.values())
    assert tier_of("tests/browser/test_anything.py") is Tier.SLOW
    assert tier_of("tests/unit/suite/test_partition.py") is Tier.QUICK

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.traces.placement import churned, each_its_own, presences, seating, still, wrong_keys

ALWAYS = np.ones((2000, 45), bool)


def test_no_task_moves_and_machines_are_of_equal_size() -> None:
    stays = still(ALWAYS, 20, np.random.default_rng(1))
    assert stays.machines == 2
    assert sorted(np.bincount(stays.machine)) == [22, 23]
    assert sorted(stays.series) == list(range(45))
    assert (stays.begin == 0).all()
    assert (stays.end == 2000).all()


def test_the_same_seed_places_alike_and_another_one_otherwise() -> None:
    one, same, other = (churned(ALWAYS, 20, 50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.machine, same.machine)
    assert np.array_equal(one.begin, same.begin)
    assert len(one.begin) != len(other.begin) or not np.array_equal(one.begin, other.begin)


def test_under_churn_every_task_moves_to_another_machine_after_the_mean_stay() -> None:
    stays = churned(np.ones((20_000, 60), bool), 20, 100, np.random.default_rng(3))
    for series in range(60):
        mine = np.flatnonzero(stays.series == series)
        order = mine[np.argsort(stays.begin[mine])]
        assert stays.begin[order[0]] == 0
        assert stays.end[order[-1]] == 20_000
        assert (stays.begin[order[1:]] == stays.end[order[:-1]]).all()
        assert (stays.machine[order[1:]] != stays.machine[order[:-1]]).all()
    whole = stays.end < 20_000
    assert np.mean((stays.end - stays.begin)[whole]) == pytest.approx(100, rel=0.05)
    assert (stays.end > stays.begin).all()


def test_churn_with_one_machine_is_refused() -> None:
    with pytest.raises(InvalidInput, match="two machines"):
        churned(ALWAYS[:, :20], 20, 100, np.random.default_rng(1))


def test_an_absent_task_is_not_placed_and_returns_as_a_new_pod() -> None:
    present = np.ones((10, 3), bool)
    present[3:6, 1] = False
    present[:2, 2] = False
    stays = still(present, 3, np.random.default_rng(1))
    counts = [len(seats.stay) for seats in seating(stays, 3, 10)]
    assert counts == [2, 2, 3, 2, 2, 2, 3, 3, 3, 3]
    assert len(stays.series) == 4
    assert len(set(stays.machine[stays.series == 1])) == 1


def test_every_series_can_be_a_machine_of_its_own() -> None:
    present = np.ones((5, 3), bool)
    present[2, 1] = False
    stays = each_its_own(present)
    assert stays.machines == 3
    assert stays.machine.tolist() == stays.series.tolist() == [0, 1, 1, 2]


@given(st.integers(0, 1000), st.integers(2, 20), st.floats(1, 100))
def test_seats_are_ordered_by_machine_and_each_series_has_at_most_one(seed: int, series: int, mean: float) -> None:
    chance = np.random.default_rng(seed)
    present = chance.random((60, series)) < 0.9
    stays = churned(present, 1, mean, chance)
    for cell, seats in enumerate(seating(stays, series, 60)):
        assert (np.diff(seats.machine) >= 0).all()
        assert sorted(seats.series) == np.flatnonzero(present[cell]).tolist()
        assert (stays.begin[seats.stay] <= cell).all()
        assert (stays.end[seats.stay] > cell).all()


def test_seats_are_the_same_object_while_nothing_changes() -> None:
    present = np.ones((6, 2), bool)
    present[4:, 1] = False
    seats = list(seating(still(present, 2, np.random.default_rng(1)), 2, 6))
    assert all(one is seats[0] for one in seats[:4])
    assert seats[4] is not seats[0]


@given(st.integers(0, 1000))
def test_presences_are_unbroken_and_complete(seed: int) -> None:
    present = np.random.default_rng(seed).random((12, 4)) < 0.6
    again = np.zeros_like(present)
    for series, begin, end in zip(*presences(present), strict=True):
        assert present[begin:end, series].all()
        assert begin == 0 or not present[begin - 1, series]
        again[begin:end, series] = True
    assert np.array_equal(again, present)


def test_wrong_keys_are_anothers_for_the_stated_share_and_each_is_used_once() -> None:
    keys = wrong_keys(200, 0.1, np.random.default_rng(1))
    assert np.count_nonzero(keys != np.arange(200)) == 20
    assert sorted(keys) == list(range(200))
    assert (wrong_keys(200, 0, np.random.default_rng(1)) == np.arange(200)).all()

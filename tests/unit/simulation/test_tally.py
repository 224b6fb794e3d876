"""Sums over a history: worked by hand, and what holds of any."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.simulation.domain.tally import Came, Tally

Row = tuple[int, int, int]
"""Prod, mid, batch of one node in one period, of a capacity of 1,000."""


def came(rows: list[Row], before: list[Row] | None = None, seconds: float = 60.0) -> Came:
    def column(place: int, of: list[Row]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.array([[row[place], 0] for row in of], np.int64)

    capacity = np.array([[1000, 0]] * len(rows), np.int64)
    mid, batch = column(1, rows), column(2, rows)
    told = [column(place, before or rows) != each for place, each in ((1, mid), (2, batch))]
    return Came(seconds, column(0, rows), capacity, mid, batch, told[0], told[1])


def test_hours_minutes_and_shares_are_of_all_nodes() -> None:
    tally = Tally(2)
    tally.add(came([(400, 100, 300), (500, 0, 600)], seconds=1800.0))
    tally.add(came([(400, 100, 300), (200, 0, 600)], seconds=1800.0))
    cpu = tally.figures(0)
    assert (cpu.node_hours, cpu.capacity_hours) == (2.0, 2.0)
    assert cpu.prod_hours == pytest.approx(0.75)
    assert (cpu.mid_hours, cpu.batch_hours) == (pytest.approx(0.1), pytest.approx(0.9))
    assert cpu.reclaimed_share == pytest.approx(0.5)
    assert (cpu.exceeded_minutes, cpu.any_node_minutes, cpu.episodes) == (30.0, 30.0, 1)
    assert cpu.exceeded_share == 0.25
    assert cpu.excess_hours == pytest.approx(0.05)
    memory = tally.figures(1)
    assert (memory.capacity_hours, memory.reclaimed_share, memory.exceeded_share) == (0.0, 0.0, 0.0)


def test_an_episode_lasts_until_a_period_without() -> None:
    tally = Tally(1)
    for prod in (900, 900, 100, 900):
        tally.add(came([(prod, 0, 200)]))
    cpu = tally.figures(0)
    assert (cpu.episodes, cpu.longest_episode_minutes, cpu.exceeded_minutes) == (2, 2.0, 3.0)


def test_excess_of_prod_alone_does_not_count() -> None:
    tally = Tally(1)
    tally.add(came([(1500, 0, 0)]))
    assert tally.figures(0).exceeded_minutes == 0
    tally.add(came([(1500, 0, 20)]))
    cpu = tally.figures(0)
    assert cpu.exceeded_minutes == 1
    assert cpu.excess_hours == pytest.approx(0.02 / 60), "no more than was offered"


def test_changes_are_for_each_node_and_hour() -> None:
    tally = Tally(2)
    tally.add(came([(0, 5, 5), (0, 5, 5)], before=[(0, 5, 4), (0, 3, 3)], seconds=1800.0))
    cpu = tally.figures(0)
    assert (cpu.batch_changes_per_hour, cpu.mid_changes_per_hour, cpu.changes_per_hour) == (2.0, 1.0, 3.0)


def test_the_worst_nodes_come_first_and_sound_ones_not_at_all() -> None:
    tally = Tally(3)
    tally.add(came([(900, 0, 200), (0, 0, 100), (900, 0, 200)]))
    tally.add(came([(0, 0, 200), (0, 0, 100), (900, 0, 200)]))
    worst = tally.worst(5)
    assert [(bad.node, bad.exceeded_minutes[0]) for bad in worst] == [(2, 2.0), (0, 1.0)]
    assert [bad.node for bad in tally.worst(1)] == [2]


amounts = st.integers(0, 1500)
periods = st.lists(st.lists(st.tuples(amounts, amounts, amounts), min_size=3, max_size=3), min_size=1, max_size=6)


@given(periods)
def test_the_whole_is_the_sum_of_its_nodes_and_shares_are_shares(history: list[list[Row]]) -> None:
    whole, parts = Tally(3), [Tally(1) for _ in range(3)]
    for rows in history:
        whole.add(came(rows))
        for row, part in zip(rows, parts, strict=True):
            part.add(came([row]))
    figures, each = whole.figures(0), [part.figures(0) for part in parts]
    for name in ("batch_hours", "mid_hours", "prod_hours", "capacity_hours", "exceeded_minutes", "excess_hours"):
        assert getattr(figures, name) == pytest.approx(sum(getattr(one, name) for one in each)), name
    assert figures.episodes == sum(one.episodes for one in each)
    assert 0 <= figures.exceeded_share <= 1
    assert figures.any_node_minutes <= figures.exceeded_minutes
    assert figures.excess_hours <= figures.reclaimed_hours + 1e-9

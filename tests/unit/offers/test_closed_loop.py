"""The loop of offers and a tenant that takes all of them: worked by hand, and on a real trace."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from slackwater.model.quantities import Resources
from slackwater.offers.closed_loop import Loop, Period, closed_loop, closed_loops
from slackwater.offers.fleet import fleet_of
from slackwater.offers.snapshot import NodeSnapshot, PodInput
from slackwater.offers.strategy import Strategy

ALL = Strategy(cpu_reclaim_threshold_percent=100, memory_reclaim_threshold_percent=100, rise_windows=1)


def loop(*usages: Sequence[int], strategy: Strategy = ALL) -> Loop:
    """Nodes of 1,000 milli-cores whose prod has no peak beyond what it uses now; a row a period, a column a node."""
    return closed_loop((_period(number, usage) for number, usage in enumerate(usages)), strategy)


def _period(number: int, usages: Sequence[int]) -> Period:
    nodes = []
    for usage in usages:
        used = Resources(usage, 0)
        pod = PodInput("u", "prod", "LS", Resources(1000, 0), used, used)
        nodes.append(NodeSnapshot(Resources(1000, 0), Resources(), (pod,), Resources()))
    return Period(np.array([[usage, 0] for usage in usages]), fleet_of(nodes), 60 * (number + 1))


def test_what_prod_takes_back_counts_until_the_next_offer() -> None:
    figures = loop([100], [100], [600], [600], [600]).cpu
    assert (figures.periods, figures.exceeded, figures.episodes, figures.longest_episode) == (5, 1, 1, 1)
    assert figures.exceeded_share == 0.2


def test_a_rise_that_goes_on_is_one_episode() -> None:
    figures = loop([100], [300], [500], [700], [700], [900], [900]).cpu
    assert (figures.exceeded, figures.episodes, figures.longest_episode) == (4, 2, 3)


def test_episodes_are_counted_for_each_node() -> None:
    found = loop([100, 100], [500, 100], [500, 500], [500, 500])
    assert (found.cpu.periods, found.cpu.exceeded, found.cpu.episodes, found.cpu.longest_episode) == (8, 2, 2, 1)
    assert found.by_period == (0.0, 0.5, 0.5, 0.0)


def test_a_margin_absorbs_what_is_smaller_than_it() -> None:
    assert loop([100], [400], strategy=Strategy(rise_windows=1)).cpu.exceeded == 0
    assert loop([100], [800], strategy=Strategy(rise_windows=1)).cpu.exceeded == 1


def test_shares_are_of_capacity_and_changes_are_counted() -> None:
    figures = loop([100], [100], [200]).cpu
    assert figures.offered_share == pytest.approx((0 + 900 + 900) / 3000)
    assert figures.prod_share == pytest.approx(400 / 3000)
    assert figures.changes_per_period == pytest.approx(2 / 3)


def test_two_strategies_on_one_history_are_each_as_alone() -> None:
    periods = [_period(number, [usage]) for number, usage in enumerate((100, 400, 100, 900))]
    careful = Strategy(rise_windows=1)
    together = closed_loops(iter(periods), [ALL, careful])
    assert together == [closed_loop(periods, ALL), closed_loop(periods, careful)]
    assert together[0].cpu.exceeded > together[1].cpu.exceeded


def test_nothing_is_nothing() -> None:
    assert loop().cpu.exceeded_share == 0.0


def test_on_a_real_trace_batch_fills_every_offer_and_capacity_holds(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.bench.closed_loop import FIXTURE, TARGET, TRACES, run  # the whole trace is `make bench`

    if not FIXTURE.is_file():
        pytest.skip(f"no real traces at {TRACES}: set SLACKWATER_TRACES")
    found = run(FIXTURE, churn_days=2.0, days=4.0)["default"]
    for name, figures in (("cpu", found.cpu), ("memory", found.memory)):
        told = f"{figures.exceeded_share:.3%} of {figures.periods} node periods beyond capacity"
        with capsys.disabled():  # the figure is what this test is for
            print(f"\nclosed loop, {name}: {told}, offered {figures.offered_share:.1%} of capacity")  # noqa: T201 # see above
        assert figures.exceeded_share <= TARGET
        assert figures.longest_episode <= 2
        assert figures.offered_share > 0.02

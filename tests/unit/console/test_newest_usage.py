"""A node's latest usage is written with every report in a small fleet, and within a budget in a large one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.console.domain.views import UsagePoint
from slackwater.console.usecases.newest_usage import NewestUsage
from slackwater.model.quantities import Resources
from slackwater.testing.clock import EPOCH

POINT = UsagePoint(
    event_id="e", node="n", sampled_at=EPOCH, window_seconds=5.0, trigger="interval", usage=Resources(),
    system=None, tiers={}, node_pressure=None, prod_pressure=None, batch_limit_milli=None, throttled_pods=0, pods=3,
)  # fmt: skip


def at(seconds: float, node: int = 0) -> UsagePoint:
    return replace(POINT, node=f"node-{node}", sampled_at=EPOCH + timedelta(seconds=seconds))


def fleet(nodes: int) -> NewestUsage:
    """All nodes have reported once."""
    newest = NewestUsage(writes_per_second=10)
    assert all(newest.is_due(at(0, node)) for node in range(nodes))
    return newest


def test_a_small_fleet_is_written_with_every_report() -> None:
    newest = fleet(50)
    assert all(newest.is_due(at(seconds)) for seconds in range(5, 100, 5))


@given(st.integers(51, 400), st.floats(-1, 1))
def test_a_large_one_keeps_to_the_budget(nodes: int, drift: float) -> None:
    newest, seconds = fleet(nodes), 600
    written = sum(newest.is_due(at(n * 5 + drift * (n % 2))) for n in range(1, seconds // 5))
    assert seconds / (nodes / 10 + 7.5) - 1 <= written <= seconds / (nodes / 10 - 3.5)


@pytest.mark.parametrize(
    "news",
    [{"trigger": "waterline"}, {"trigger": "shutdown"}, {"pods": 4}, {"pods": 2}, {"throttled_pods": 1}],
    ids=str,
)
def test_what_would_be_missed_is_never_put_off(news: dict[str, object]) -> None:
    newest = fleet(1000)
    assert not newest.is_due(at(5))
    assert newest.is_due(replace(at(5), **news))  # type: ignore[arg-type]  # one field or another


def test_a_report_that_comes_again_is_written_again() -> None:
    newest = fleet(1000)
    assert newest.is_due(at(0))


def test_nobody_waits_longer_than_two_minutes() -> None:
    newest = fleet(3000)
    assert [newest.is_due(at(seconds)) for seconds in (60, 115, 118, 120)] == [False, False, True, False]

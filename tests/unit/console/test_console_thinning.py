"""A budget of reports: all of a small fleet, in turn for a large one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import FakeClock

from slackwater.console.domain.fleet import FRESH
from slackwater.console.usecases.report_sampling import TURN_SECONDS, ReportSampling


async def rounds(
    clock: FakeClock, thinning: ReportSampling, nodes: int, interval_seconds: float, count: int
) -> Counter[int]:
    """So many rounds of a fleet whose nodes report one after the other, evenly; how often each was read."""
    read: Counter[int] = Counter()
    for _ in range(count):
        for node in range(nodes):
            await clock.advance(interval_seconds / nodes)
            read[node] += thinning(f"node-{node}")
    return read


async def test_every_report_of_a_small_fleet_is_read() -> None:
    clock = FakeClock()
    assert set((await rounds(clock, ReportSampling(clock, 20), 50, 5.0, 20)).values()) == {20}


async def test_nodes_of_a_large_fleet_take_turns_and_none_is_left_out() -> None:
    clock = FakeClock()
    read = await rounds(clock, ReportSampling(clock, 4), 200, 10.0, 60)  # 600 s: 2,400 may be read, 12,000 come
    assert 2000 <= sum(read.values()) <= 2404
    assert min(read[node] for node in range(200)) >= 0.7 * sum(read.values()) / 200


async def test_nodes_of_a_large_fleet_have_a_report_before_they_count_as_silent() -> None:
    clock = FakeClock()
    thinning = ReportSampling(clock, 200)
    await rounds(clock, thinning, 2000, 5.0, 6)
    read = await rounds(clock, thinning, 2000, 5.0, 12)  # 60 s
    assert min(read[node] for node in range(2000)) >= 60 / FRESH.total_seconds()
    assert sum(read.values()) <= 60 * 2000 / TURN_SECONDS + 200


async def test_every_report_of_an_open_node_is_read() -> None:
    clock = FakeClock()
    thinning = ReportSampling(clock, 200, {"node-7", "node-1999"}.__contains__)
    await rounds(clock, thinning, 2000, 5.0, 6)
    read = await rounds(clock, thinning, 2000, 5.0, 12)
    assert (read[7], read[1999]) == (12, 12)
    assert read[8] < 12


async def test_open_nodes_are_read_within_the_budget() -> None:
    clock = FakeClock()
    read = await rounds(clock, ReportSampling(clock, 20, lambda node: True), 1000, 5.0, 2)
    assert sum(read.values()) <= 20 * (10 + 1)


async def test_a_node_that_left_does_not_lengthen_the_turns_of_the_others() -> None:
    clock = FakeClock()
    thinning = ReportSampling(clock, 4)
    await rounds(clock, thinning, 200, 10.0, 20)
    read = await rounds(clock, thinning, 20, 5.0, 100)
    assert sum(list(read.values())) / (100 * 20) > 0.8


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 2)), max_size=100), st.floats(1, 50))
async def test_never_more_than_the_budget(reports: list[tuple[int, float]], per_second: float) -> None:
    clock = FakeClock()
    thinning, passed, read = ReportSampling(clock, per_second), 0.0, 0
    for node, seconds in reports:
        await clock.advance(seconds)
        passed += seconds
        read += thinning(str(node))
        assert read <= per_second * (passed + 1) + 1e-6

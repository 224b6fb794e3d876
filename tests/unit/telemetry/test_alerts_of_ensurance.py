"""Alerts on throttles, evictions and writes: when they fire, with which labels, and when they must keep quiet."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from promql_machine import Labels, Series
from test_alerts_fire import fired, named

UNRELIEVED, STORM, LOOP = "SlackwaterProdPressureUnrelieved", "SlackwaterEvictionStorm", "SlackwaterEvictionLoop"
REJECTED, FOREIGN = "SlackwaterCgroupWriteRejected", "SlackwaterForeignCgroupWriter"
HOUR = 3600
START = 600


def growing(per_hour: float, until: int = 100 * HOUR) -> Series:
    return lambda now: max(0, min(now, until) - START) * per_hour / HOUR


def at_once(number: float, at: int = 2 * START) -> Series:
    return lambda now: number if now >= at else 0.0


def effects(gap: Series = lambda now: 0.0, **per_hour: float) -> Mapping[tuple[str, Labels], Series]:
    """Of two replicas of ensurance; `throttle_unrelieved=40` is what each of them counts in an hour."""
    found: dict[tuple[str, Labels], Series] = {}
    for replica in ("one", "two"):
        found["slackwater_ensurance_remaining_gap_cores", named(instance=replica)] = gap
        for kind in ("throttle", "restore", "evict"):
            for result in ("relieved", "unrelieved"):
                labels = named(instance=replica, kind=kind, result=result)
                found["slackwater_ensurance_effects_total", labels] = growing(per_hour.get(f"{kind}_{result}", 0))
    return found


@pytest.mark.parametrize(
    ("per_hour", "fires"),
    [
        ({"throttle_unrelieved": 40}, True),
        ({"throttle_unrelieved": 40, "restore_relieved": 400}, True),
        ({"evict_unrelieved": 20, "throttle_unrelieved": 20, "evict_relieved": 30}, True),
        ({"throttle_unrelieved": 40, "throttle_relieved": 50}, False),
        ({"throttle_unrelieved": 10}, False),
        ({"restore_unrelieved": 400}, False),
        ({}, False),
    ],
)
def test_most_of_what_is_done_does_not_help(per_hour: Mapping[str, float], fires: bool) -> None:
    assert bool(fired(UNRELIEVED, effects(**per_hour), START + HOUR)) is fires


def test_an_open_gap_fires_after_five_minutes_and_resolves_with_it() -> None:
    assert fired(UNRELIEVED, effects(at_once(0.2)), 2 * START + 270) == {}
    assert fired(UNRELIEVED, effects(at_once(0.2)), 2 * START + 300) == {named(): pytest.approx(0.4)}
    closed: Series = lambda now: 0.2 if now < 2 * START + 280 else 0.0  # noqa: E731 - a drawing
    assert fired(UNRELIEVED, effects(closed), 2 * START + 600) == {}


def test_milli_cores_that_remain_are_no_trouble() -> None:
    assert fired(UNRELIEVED, effects(at_once(0.03)), 2 * START + 900) == {}


def of_pools(metric: str, **pools: Series) -> Mapping[tuple[str, Labels], Series]:
    """Each of two replicas counts the half of it."""
    return {
        (metric, named(pool=pool, instance=replica)): lambda now, series=series: (series(now) or 0.0) / 2  # type: ignore[misc] # a default binds it
        for pool, series in pools.items()
        for replica in ("one", "two")
    }


def test_a_storm_is_one_of_its_pool_alone() -> None:
    series = of_pools("slackwater_ensurance_evictions_total", edge=growing(300), web=growing(60))
    assert fired(STORM, series, START + HOUR) == {named(pool="edge"): pytest.approx(50)}


def test_a_storm_is_over_ten_minutes_after_its_last_eviction() -> None:
    series = of_pools("slackwater_ensurance_evictions_total", edge=growing(300, until=START + 1200))
    assert fired(STORM, series, START + 1200) != {}
    assert fired(STORM, series, START + 1200 + 660) == {}


@pytest.mark.parametrize(("number", "fires"), [(2, False), (4, True)])
def test_repeated_evictions_of_a_workload_within_an_hour_are_a_loop(number: int, fires: bool) -> None:
    series = of_pools("slackwater_ensurance_evictions_repeated_total", edge=at_once(number), web=growing(0))
    found = fired(LOOP, series, 3 * START)
    assert set(found) == ({named(pool="edge")} if fires else set())
    assert fired(LOOP, series, 3 * START + 2 * HOUR) == {}


def writes(**results: Series) -> Mapping[tuple[str, Labels], Series]:
    return {
        ("slackwater_agent_writes_total", named(result=result, instance="n1")): series
        for result, series in results.items()
    }


def test_one_refused_write_fires_with_its_reason() -> None:
    series = writes(done=growing(5000), not_found=growing(50), write_refused=at_once(1))
    found = fired(REJECTED, series, 2 * START + 60)
    assert list(found) == [named(result="write_refused")]
    assert fired(REJECTED, series, 2 * START + 1000) == {}


def test_writes_that_are_done_or_whose_pod_is_gone_fire_no_alert() -> None:
    assert fired(REJECTED, writes(done=growing(5000), not_found=growing(50), write_refused=growing(0)), HOUR) == {}


def test_a_foreign_writer_fires_at_once() -> None:
    series = {("slackwater_agent_foreign_writes_total", named(instance="n1")): at_once(1)}
    assert fired(FOREIGN, series, 2 * START - 30) == {}
    assert fired(FOREIGN, series, 2 * START + 60) != {}


@pytest.mark.parametrize(
    ("result", "per_hour", "fires"), [("longest", 25, True), ("longest", 8, False), ("surge", 60, False)]
)
def test_limits_flap_where_damping_waits_as_long_as_it_may(result: str, per_hour: float, fires: bool) -> None:
    series = {
        ("slackwater_ensurance_reversals_total", named(pool="edge", instance=one, result=result)): growing(per_hour / 2)
        for one in ("one", "two")
    }
    assert (fired("SlackwaterLimitsFlap", series, START + HOUR) == {}) is not fires


@pytest.mark.parametrize(("full", "listed", "fires"), [(100, 400, True), (400, 100, False), (1, 10, False)])
def test_decisions_without_a_record_of_their_own_fire_where_they_are_the_most(
    full: float, listed: float, fires: bool
) -> None:
    name = "slackwater_ensurance_decision_records_total"
    series = {(name, named(result=result)): growing(rate) for result, rate in (("full", full), ("listed", listed))}
    assert (fired("SlackwaterDecisionsListed", series, START + 2 * HOUR) == {}) is not fires


@pytest.mark.parametrize(("bytes_per_hour", "fires"), [(7_000_000, True), (5_000_000, False)])
def test_a_growth_that_would_not_fit_into_30_days_fires(bytes_per_hour: float, fires: bool) -> None:
    series = {
        ("slackwater_stream_stored_bytes", named(stream="DECISIONS")): growing(bytes_per_hour),
        ("slackwater_stream_limit_bytes", named(stream="DECISIONS")): lambda at: float(2**32),
    }
    assert (fired("SlackwaterDecisionsOutgrowRetention", series, START + 8 * HOUR) == {}) is not fires

"""Alerts over drawn series: when they fire, with which labels, and when they must keep quiet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql_machine import Labels, Machine, Series, Vector, increase

RULES = Path(__file__).resolve().parents[3] / "deploy" / "helm" / "slackwater" / "files" / "rules.yaml"
HOUR = 3600
DAY = 86400
COLLAPSE, COVERAGE, STALE = "SlackwaterReclaimableCollapse", "SlackwaterForecastCoverageLow", "SlackwaterAgentStale"


def rules(alert: str) -> list[dict[str, Any]]:
    """The alert and what is recorded for it."""
    every = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    (wanted,) = [rule for rule in every if rule.get("alert") == alert]
    return [rule for rule in every if "record" in rule and rule["record"] in wanted["expr"]] + [wanted]


def named(**labels: str) -> Labels:
    return frozenset(labels.items())


def fired(alert: str, series: Mapping[tuple[str, Labels], Series], seconds: int) -> Vector:
    return Machine(rules(alert)).run(series, seconds).get(alert, {})


def pool(name: str, batch: Series, mid: Series = lambda now: 0.0) -> dict[tuple[str, Labels], Series]:
    """A pool of 100 cores and 400 GiB, as two replicas of colocation tell it; memory is offered evenly."""
    found: dict[tuple[str, Labels], Series] = {}
    for replica in ("one", "two"):
        for tier, offered in (("batch", batch), ("mid", mid)):
            found["slackwater_offered_cpu_cores", named(pool=name, tier=tier, instance=replica)] = offered
            found["slackwater_offered_memory_bytes", named(pool=name, tier=tier, instance=replica)] = lambda now: 1e11
        found["slackwater_capacity_cpu_cores", named(pool=name, instance=replica)] = lambda now: 100.0
        found["slackwater_capacity_memory_bytes", named(pool=name, instance=replica)] = lambda now: 4e11
    return found


def drop_to(after: float, at: int = 2 * HOUR) -> Series:
    return lambda now: 40.0 if now < at else after


def test_what_is_offered_collapses_in_one_pool_and_not_in_the_other() -> None:
    series = {**pool("edge", drop_to(10.0)), **pool("web", drop_to(30.0))}
    found = fired(COLLAPSE, series, 2 * HOUR + 600)
    assert found == {named(pool="edge", resource="cpu"): pytest.approx(0.1)}


def test_a_collapse_fires_after_five_minutes_and_resolves_once_half_is_back() -> None:
    assert fired(COLLAPSE, pool("edge", drop_to(0.0)), 2 * HOUR + 240) == {}
    assert fired(COLLAPSE, pool("edge", drop_to(0.0)), 2 * HOUR + 300) != {}
    back: Series = lambda now: 40.0 if now < 2 * HOUR or now > 2 * HOUR + 500 else 0.0  # noqa: E731 - a drawing
    assert fired(COLLAPSE, pool("edge", back), 2 * HOUR + 600) == {}


def test_what_goes_down_over_the_morning_is_no_collapse() -> None:
    slowly: Series = lambda now: 40.0 - 30.0 * now / (6 * HOUR)  # noqa: E731 - a drawing
    assert fired(COLLAPSE, pool("edge", slowly), 5 * HOUR) == {}


def test_what_moves_from_batch_to_mid_is_no_collapse() -> None:
    moved: Series = lambda now: 0.0 if now < 2 * HOUR else 35.0  # noqa: E731 - a drawing
    assert fired(COLLAPSE, pool("edge", drop_to(5.0), moved), 2 * HOUR + 600) == {}


def test_a_pool_that_lends_next_to_nothing_cannot_collapse() -> None:
    tiny: Series = lambda now: 4.0 if now < 2 * HOUR else 0.0  # noqa: E731 - a drawing
    assert fired(COLLAPSE, pool("edge", tiny), 2 * HOUR + 600) == {}


def test_memory_collapses_by_itself() -> None:
    series = pool("edge", drop_to(40.0))
    for replica in ("one", "two"):
        key = ("slackwater_offered_memory_bytes", named(pool="edge", tier="batch", instance=replica))
        series[key] = lambda now: 1e11 if now < 2 * HOUR else 0.0
        series["slackwater_offered_memory_bytes", named(pool="edge", tier="mid", instance=replica)] = lambda now: 0.0
    assert fired(COLLAPSE, series, 2 * HOUR + 600) == {named(pool="edge", resource="memory"): 0.0}


def coverage(violated: float, judged: float, stated: float | None) -> dict[tuple[str, Labels], Series]:
    """One pool's judged machine-time of CPU, exported by two replicas, each for half of it."""
    found: dict[tuple[str, Labels], Series] = {}
    for replica in ("one", "two"):
        labels = named(pool="edge", resource="cpu", instance=replica)
        found["slackwater_prediction_violated_seconds", labels] = lambda now: violated / 2
        found["slackwater_prediction_judged_seconds", labels] = lambda now: judged / 2
        if stated is not None:
            found["slackwater_prediction_stated_violation_ratio", labels] = lambda now: stated
    return found


@pytest.mark.parametrize(
    ("rate", "machine_days", "stated", "fires"),
    [
        (0.020, 400, 0.01, True),
        (0.014, 400, 0.01, False),
        (0.020, 200, 0.01, False),
        (0.060, 70, None, True),
        (0.040, 70, None, False),
        (0.060, 50, None, False),
    ],
)
def test_peaks_that_were_broken_more_often_than_accepted(
    rate: float, machine_days: float, stated: float | None, fires: bool
) -> None:
    found = fired(COVERAGE, coverage(rate * machine_days * DAY, machine_days * DAY, stated), HOUR + 60)
    assert found == ({named(pool="edge", resource="cpu"): pytest.approx(rate)} if fires else {})


def nodes(**counts: Series) -> dict[tuple[str, Labels], Series]:
    """Every replica of ingestion counts the whole inventory."""
    return {
        ("slackwater_ingestion_known_nodes", named(liveness=liveness, instance=replica)): count
        for liveness, count in counts.items()
        for replica in ("one", "two")
    }


def test_agents_that_went_quiet_are_counted_once_by_their_liveness() -> None:
    gone: Series = lambda now: 3.0 if now >= 600 else 0.0  # noqa: E731 - a drawing
    steady: Series = lambda now: 97.0  # noqa: E731 - a drawing
    series = nodes(fresh=steady, stale=gone, lost=lambda now: 0.0)
    assert fired(STALE, series, 600 + 90) == {}
    assert fired(STALE, series, 600 + 120) == {named(liveness="stale"): 3.0}


def test_a_restarted_agent_fires_no_alert() -> None:
    blink: Series = lambda now: 1.0 if 600 <= now < 690 else 0.0  # noqa: E731 - a drawing
    for until in range(600, 900, 30):
        assert fired(STALE, nodes(stale=blink), until) == {}


def test_a_second_agent_of_a_node_fires_and_other_refusals_do_not() -> None:
    def refused(reason: str) -> dict[tuple[str, Labels], Series]:
        labels = named(reason=reason, instance="one")
        return {("slackwater_ingestion_reports_refused_total", labels): lambda now: now / 5}

    assert fired("SlackwaterDuplicateAgent", refused("duplicate_agent"), 300) != {}
    assert fired("SlackwaterDuplicateAgent", refused("replayed_sequence"), 300) == {}


def from_the_tenth_minute(now: int) -> float:
    return 1.0 if now >= 600 else 0.0


def fill(state: str, kind: str, resource: str) -> dict[tuple[str, Labels], Series]:
    """What two processes say from the tenth minute on: of a stream both the same, else only the first."""
    found: dict[tuple[str, Labels], Series] = {}
    for instance in ("one", "two"):
        full = kind == "stream" or instance == "one"
        for name in ("nearly_full", "full"):
            labels = named(kind=kind, resource=resource, state=name, instance=instance)
            is_so = full and name == state
            found["slackwater_limited_resources", labels] = from_the_tenth_minute if is_so else lambda now: 0.0
    return found


@pytest.mark.parametrize(
    ("alert", "state", "minutes"), [("SlackwaterNearlyFull", "nearly_full", 5), ("SlackwaterFull", "full", 1)]
)
def test_what_fills_up_is_alerted_by_name_once_for_streams_and_for_each_process_else(
    alert: str, state: str, minutes: int
) -> None:
    series = {**fill(state, "stream", "DECISIONS"), **fill(state, "pool", "ensurance")}
    assert fired(alert, series, 600 + 60 * minutes - 30) == {}
    assert fired(alert, series, 600 + 60 * minutes) == {
        named(kind="stream", resource="DECISIONS"): 1.0,
        named(kind="pool", resource="ensurance", instance="one"): 1.0,
    }
    other = "full" if state == "nearly_full" else "nearly_full"
    assert fired(alert, fill(other, "stream", "DECISIONS"), 3600) == {}


def test_a_last_value_that_stays_unread_fires_once_and_one_that_is_replaced_does_not() -> None:
    def unread(until: float) -> dict[tuple[str, Labels], Series]:
        of = [named(instance=name) for name in ("quota", "migration")]
        return {("slackwater_bus_unread_messages", labels): lambda now: float(now < until) for labels in of}

    assert fired("SlackwaterUnreadLastValues", unread(3600), 300) == {named(): 1.0}
    assert fired("SlackwaterUnreadLastValues", unread(40), 300) == {}


def test_the_machine_refuses_what_it_does_not_know() -> None:
    with pytest.raises(NotImplementedError, match="deriv"):
        Machine([{"alert": "a", "expr": "deriv(x_nodes[5m]) > 0", "for": "0m"}]).run({}, 0)


def test_the_machine_counts_as_prometheus_does() -> None:
    assert increase([(0, 5.0), (30, 5.0), (60, 8.0), (90, 8.0)], 0, 90) == 3.0
    assert increase([(0, 5.0), (30, 7.0), (60, 1.0)], 0, 60) == 3.0, "a restart begins at 0"
    assert increase([(60, 0.0), (90, 2.0)], 0, 90) == 2.0, "not drawn out below 0"
    assert increase([(30, 10.0), (60, 16.0)], 0, 60) == 12.0

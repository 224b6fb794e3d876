"""Validation of a whole batch never accepts a report that the validation of one report would refuse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.reports import GIB, pod_usage, report

from slackwater.ingestion.domain.columns import HistoryColumns, columns_of
from slackwater.ingestion.domain.fast_validation import Descriptions, valid_reports
from slackwater.ingestion.domain.reports import (
    Arrival,
    HistoryRow,
    KnownNode,
    MeasuredApp,
    MeasuredPod,
    Pressures,
    Report,
    UsageSeries,
)
from slackwater.ingestion.domain.validation import Accepted, ReportLimits, bounds_of, judge
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.placement_rules import (
    AntiAffinityRule,
    LabelRequirement,
    PlacementRules,
    PodToleration,
    SpreadRule,
)
from slackwater.model.pods import PodStatus
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

LIMITS = ReportLimits(ahead_seconds=30, behind_seconds=900)
GOOD = report_from(report("n", 6, EPOCH, pods=[pod_usage("a"), pod_usage("b")]))
POD = GOOD.pods[0]

amounts = st.sampled_from([-1, 0, 1, 99, 100, 101, 8000, 8001, 10_000_001, 16 * GIB, 16 * GIB + 1, 2**50 + 1, 2**63])
series = st.builds(lambda values: UsageSeries(*values), st.lists(amounts, min_size=8, max_size=8)) | st.sampled_from(
    [
        GOOD.cpu,
        UsageSeries(*[100] * 7, 0),
        UsageSeries(100, 90, 80, 70, 60, 50, 40, 0),
        UsageSeries(*[0] * 7, 1_000_001),
    ]
)
shares = st.sampled_from([None, 0.0, 0.5, 1.5, 1.6, -0.1, math.nan, math.inf])
names = st.sampled_from(["n", "", "x" * 512, "x" * 513, "a\x00b", "ä", "line\nbreak"])
moments = st.sampled_from([EPOCH, EPOCH.replace(tzinfo=None)])


counts = st.sampled_from([-1, 0, 3, 2**53, 2**53 + 1])


def pod(**changes: Any) -> MeasuredPod:
    return POD._replace(pod=replace(POD.pod, **changes))


def rules_of(key: str, value: str) -> PlacementRules:
    """One of each kind of rule has these texts."""
    condition = (LabelRequirement(key, values=(value,)),)
    return PlacementRules(
        node_selector={key: value},
        affinity=(condition,),
        tolerations=(PodToleration(key, value),),
        spread=(SpreadRule("zone", labels={key: value}),),
        anti_affinity=(AntiAffinityRule("zone", expressions=condition),),
    )


pods = st.one_of(
    st.just(POD),
    st.builds(lambda cpu, memory: POD._replace(cpu=cpu, memory=memory), series, series),
    st.builds(lambda one, two: POD._replace(throttled_ratio=one, cpu_pressure=two), shares, shares),
    st.builds(lambda limit: POD._replace(cpu_limit_milli=limit), st.none() | amounts),
    st.builds(lambda cpu, memory: pod(request=Resources(cpu, memory)), amounts, amounts),
    st.builds(lambda name: pod(uid=name), names),
    st.builds(lambda name: pod(workload=name), names),
    st.builds(lambda name, value: pod(labels={name: value}), names, names),
    st.builds(lambda priority: pod(priority=priority), st.sampled_from([-(2**31), 2**31 - 1, 2**31, 1 - 2**31])),
    st.builds(lambda moment: pod(started_at=moment), moments),
    st.builds(lambda count, why: pod(status=PodStatus(restarts=count, reason=why)), counts, names),
    st.builds(lambda key, value: pod(rules=rules_of(key, value)), names, names),
)
apps = st.builds(MeasuredApp, names, st.just(Tier.PROD), series, series)
changes = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"host_apps": st.lists(apps, max_size=2).map(tuple)}),
    st.fixed_dictionaries({"pods": st.lists(pods, max_size=3).map(tuple)}),
    st.fixed_dictionaries({"failed": st.lists(pods.map(lambda measured: measured.pod), max_size=2).map(tuple)}),
    st.fixed_dictionaries({"cpu": series, "memory": series}),
    st.fixed_dictionaries({"system_cpu": st.none() | series, "system_memory": st.none() | series}),
    st.fixed_dictionaries({"pressures": st.builds(Pressures, *[shares] * 8)}),
    st.fixed_dictionaries({"window_seconds": st.sampled_from([0.0, -1.0, 5.0, 3600.0, 3601.0, math.nan, math.inf])}),
    st.fixed_dictionaries({"boot_epoch": names}),
    st.fixed_dictionaries({"sequence": st.sampled_from([0, 1, 2**53, 2**53 + 1])}),
    st.fixed_dictionaries({"sampled_at": moments}),
)
capacities = st.sampled_from([None, Resources(4000, 8 * GIB), Resources(0, 0)])


def columns(reports: list[Report]) -> HistoryColumns:
    return columns_of([HistoryRow(one, EPOCH) for one in reports])


def numbers(one: Report) -> Iterator[int]:
    for each in (one.cpu, one.memory, one.system_cpu or (), one.system_memory or ()):
        yield from each
    for measured in one.pods:
        yield from (*measured.cpu, *measured.memory, measured.cpu_limit_milli or 0)


@given(st.lists(st.tuples(changes, capacities), min_size=1, max_size=5))
@example([({"pods": (POD._replace(cpu_limit_milli=2**63),)}, None)])
def test_what_is_called_sound_is_accepted_and_the_rest_is_judged_one_by_one(
    drawn: list[tuple[dict[str, Any], Resources | None]],
) -> None:
    batch = [(replace(GOOD, **change), capacity) for change, capacity in drawn]
    try:
        bounds = [bounds_of(capacity, LIMITS) for _, capacity in batch]
        found = valid_reports(columns([one for one, _ in batch]), bounds, Descriptions())
    except OverflowError:
        assert any(number >= 2**63 for one, _ in batch for number in numbers(one))
        found = [False] * len(batch)
    for (one, capacity), is_sound in zip(batch, found, strict=True):
        if is_sound:
            assert isinstance(_judged(one, capacity, sound=False), Accepted)
        assert _judged(one, capacity, sound=is_sound) == _judged(one, capacity, sound=False)


def _judged(one: Report, capacity: Resources | None, *, sound: bool) -> object:
    received_at: datetime = EPOCH + timedelta(seconds=1)
    if one.sampled_at.tzinfo is None and sound:
        raise AssertionError("a report without a time zone was called sound")
    return judge(Arrival(one, one.node, received_at), KnownNode("n", capacity), LIMITS, sound=sound)


def test_a_good_batch_is_sound_whatever_stands_beside_it() -> None:
    bounds = bounds_of(None, LIMITS)
    bad = replace(GOOD, cpu=UsageSeries(-1, *GOOD.cpu[1:]))
    empty = replace(GOOD, pods=(), system_cpu=None, system_memory=None)
    assert valid_reports(columns([GOOD, bad, empty, GOOD]), [bounds] * 4, Descriptions()) == [True, False, True, True]
    assert valid_reports(columns([]), [], Descriptions()) == []


@given(st.lists(st.lists(pods, max_size=3).map(tuple), min_size=1, max_size=5))
def test_what_was_seen_before_changes_no_answer(drawn: list[tuple[MeasuredPod, ...]]) -> None:
    descriptions = Descriptions()
    for own in [*drawn, *drawn]:
        described = [one.pod for one in own]
        assert descriptions.in_order("n", described) == Descriptions().in_order("n", described)


def test_a_number_beyond_every_column_is_an_error() -> None:
    huge = replace(GOOD, cpu=UsageSeries(*[2**70] * 7, 5))
    limited = replace(GOOD, pods=(POD._replace(cpu_limit_milli=2**63),))
    for one in (huge, limited):
        with pytest.raises(OverflowError):
            valid_reports(columns([GOOD, one]), [bounds_of(None, LIMITS)] * 2, Descriptions())

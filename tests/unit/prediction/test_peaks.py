"""Peaks of prod: margin, cold start, both views, what may never be lent, and terms that add up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.prediction.domain.peaks import (
    Learned,
    NodeSeries,
    PeakSettings,
    PodSeries,
    decide,
    explain,
    node_peaks,
    series_to_json,
    with_margin,
)

SETTINGS = PeakSettings()
WARM = SETTINGS.min_windows


def pod(uid: str = "p", *, cpu: int = 500, windows: int = WARM, request: int = 2000, **others: str) -> PodSeries:
    tier, qos = others.get("tier", "prod"), others.get("qos", "LS")
    return PodSeries(uid, "w", tier, qos, Resources(request, 2**30), Learned(cpu, 2**28, windows))


def node(*pods: PodSeries, prod_cpu: int = 500, system: Learned | None = None, allocatable: int = 8000) -> NodeSeries:
    return NodeSeries(
        node="n",
        allocatable=Resources(allocatable, 2**34),
        pods=pods,
        tiers={"prod": Learned(prod_cpu, 2**28, WARM)} if any(p.tier == "prod" for p in pods) else {},
        system=system or Learned(300, 2**27, WARM),
        whole=Learned(3000, 2**30, WARM),
    )


def test_a_warm_pod_is_its_percentile_and_a_tenth() -> None:
    peaks = node_peaks(node(pod(cpu=500), prod_cpu=400), SETTINGS)
    assert peaks.prod_peak.cpu_milli == 550
    assert peaks.cold_start_share == 0.0


def test_a_cold_pod_is_its_request_and_lends_nothing() -> None:
    peaks = node_peaks(node(pod(cpu=500, windows=WARM - 1), prod_cpu=400), SETTINGS)
    assert peaks.prod_peak.cpu_milli == 2000
    assert peaks.prod_reclaimable == Resources()
    assert peaks.cold_start_share == 1.0


def test_a_cold_pod_that_already_used_more_than_its_request_counts_as_seen() -> None:
    assert node_peaks(node(pod(cpu=3000, windows=1)), SETTINGS).prod_peak.cpu_milli == 3300


def test_the_tier_view_wins_when_it_peaks_higher() -> None:
    explained = explain(node(pod(cpu=500), prod_cpu=900), "cpu", SETTINGS)
    assert explained.result == 990
    assert next(term.value for term in explained.terms if term.name == "tier_above_pods") == 990 - 550


def test_the_smaller_reclaimable_of_both_views_is_told() -> None:
    # pods: 2000 - 550 = 1450; tier: 2000 - 1.1 x (500 + 300) = 1120
    assert node_peaks(node(pod(cpu=500)), SETTINGS).prod_reclaimable.cpu_milli == 1120


def test_cpu_of_lse_is_never_reclaimable_but_its_memory_is() -> None:
    peaks = node_peaks(node(pod(cpu=100, qos="LSE"), prod_cpu=100), SETTINGS)
    assert peaks.prod_reclaimable.cpu_milli == 0
    assert peaks.prod_reclaimable.memory_bytes > 0


@pytest.mark.parametrize(("protect", "lent"), [(True, False), (False, True)])
def test_lsr_is_protected_by_setting(protect: bool, lent: bool) -> None:
    settings = replace(SETTINGS, protect_lsr=protect)
    got = node_peaks(node(pod(cpu=100, qos="LSR"), prod_cpu=100), settings).prod_reclaimable.cpu_milli
    assert (got > 0) is lent


def test_an_unmeasured_system_or_an_undescribed_node_makes_nothing_reclaimable() -> None:
    known = node(pod())
    assert node_peaks(replace(known, system=None), SETTINGS).prod_reclaimable == Resources()
    assert node_peaks(replace(known, allocatable=None), SETTINGS).prod_reclaimable == Resources()
    assert node_peaks(known, SETTINGS).prod_reclaimable != Resources()


def test_pods_of_other_tiers_have_peaks_but_are_not_prod() -> None:
    peaks = node_peaks(node(pod("a", tier="batch", cpu=700)), SETTINGS)
    assert peaks.prod_peak == Resources()
    assert peaks.pods["a"].amount.cpu_milli == 770


amounts = st.integers(0, 100_000)
learned = st.none() | st.builds(Learned, amounts, amounts, st.integers(0, 2 * WARM))
pods = st.builds(
    PodSeries,
    st.uuids().map(str),
    st.just("w"),
    st.sampled_from(["prod", "mid", "batch", "free"]),
    st.sampled_from(["LSE", "LSR", "LS", "BE"]),
    st.builds(Resources, amounts, amounts),
    learned,
)
known = st.builds(Learned, amounts, amounts, st.integers(1, 2 * WARM))
nodes = st.builds(
    NodeSeries,
    node=st.just("n"),
    allocatable=st.none() | st.builds(Resources, amounts, amounts),
    pods=st.lists(pods, max_size=6).map(tuple),
    tiers=st.dictionaries(st.sampled_from(["prod", "batch"]), known),
    system=learned,
    whole=learned,
)
settings = st.builds(PeakSettings, st.integers(0, 100), st.integers(0, WARM), st.booleans())


@given(nodes, settings, st.sampled_from(["cpu", "memory"]))
def test_terms_add_up_and_the_record_repeats_itself(series: NodeSeries, chosen: PeakSettings, resource: str) -> None:
    explained = explain(series, resource, chosen)
    assert sum(term.value for term in explained.terms) == explained.result
    assert explained.result == max(explained.pod_view.peak, explained.tier_view.peak)
    told = json.loads(json.dumps(series_to_json(series)))
    policy = {"safety_margin_percent": chosen.safety_margin_percent, "min_windows": chosen.min_windows}
    assert decide(resource, told, {**policy, "protect_lsr": chosen.protect_lsr}) == explained.result


@given(nodes, settings)
def test_more_margin_never_lowers_a_peak_nor_lends_more(series: NodeSeries, chosen: PeakSettings) -> None:
    less = node_peaks(series, chosen)
    more = node_peaks(series, replace(chosen, safety_margin_percent=chosen.safety_margin_percent + 7))
    for resource in ("cpu_milli", "memory_bytes"):
        assert getattr(more.prod_peak, resource) >= getattr(less.prod_peak, resource)
        assert getattr(more.prod_reclaimable, resource) <= getattr(less.prod_reclaimable, resource)


@given(nodes, settings)
def test_reclaimable_is_neither_negative_nor_above_what_was_requested(series: NodeSeries, chosen: PeakSettings) -> None:
    reclaimable = node_peaks(series, chosen).prod_reclaimable
    requested = sum(p.request.cpu_milli for p in series.pods if p.tier == "prod")
    assert 0 <= reclaimable.cpu_milli <= requested
    assert reclaimable.memory_bytes >= 0


@given(st.integers(0, 10**13), st.integers(0, 200))
def test_margin_is_exact_and_cut_to_a_whole_unit(amount: int, percent: int) -> None:
    got = with_margin(amount, PeakSettings(percent))
    assert got * 100 <= amount * (100 + percent) < (got + 1) * 100

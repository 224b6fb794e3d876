"""The two views of prod that conformance compares: margin, cold start, and what may never be lent."""

from __future__ import annotations

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
    View,
    pod_view,
    tier_view,
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
        whole=None,
    )


def views(series: NodeSeries, settings: PeakSettings = SETTINGS) -> tuple[View, View]:
    return pod_view(series, "cpu", settings), tier_view(series, "cpu", settings)


def test_a_warm_pod_is_its_percentile_and_a_tenth() -> None:
    assert views(node(pod(cpu=500), prod_cpu=400)) == (View(550, 1450), View(440, 2000 - 770))


def test_a_cold_pod_is_its_request_or_what_was_seen_and_lends_nothing() -> None:
    assert pod_view(node(pod(cpu=500, windows=WARM - 1)), "cpu", SETTINGS) == View(2000, 0)
    assert pod_view(node(pod(cpu=3000, windows=1)), "cpu", SETTINGS) == View(3300, 0)


def test_cpu_of_lse_is_never_reclaimable_but_its_memory_is() -> None:
    series = node(pod(cpu=100, qos="LSE"), prod_cpu=100)
    assert [view.reclaimable for view in views(series)] == [0, 0]
    assert pod_view(series, "memory", SETTINGS).reclaimable > 0


@pytest.mark.parametrize(("protect", "lent"), [(True, False), (False, True)])
def test_lsr_is_protected_by_setting(protect: bool, lent: bool) -> None:
    settings = replace(SETTINGS, protect_lsr=protect)
    assert [view.reclaimable > 0 for view in views(node(pod(cpu=100, qos="LSR"), prod_cpu=100), settings)] == [lent] * 2


def test_an_unmeasured_system_or_an_undescribed_node_makes_nothing_reclaimable() -> None:
    known = node(pod())
    assert tier_view(replace(known, system=None), "cpu", SETTINGS).reclaimable == 0
    assert [view.reclaimable for view in views(replace(known, allocatable=None))] == [0, 0]


def test_pods_of_other_tiers_are_not_prod() -> None:
    assert views(node(pod("a", tier="batch", cpu=700))) == (View(0, 0), View(0, 0))


@given(st.integers(0, 10**13), st.integers(0, 200))
def test_margin_is_exact_and_cut_to_a_whole_unit(amount: int, percent: int) -> None:
    got = with_margin(amount, PeakSettings(percent))
    assert got * 100 <= amount * (100 + percent) < (got + 1) * 100

"""The two views of prod that conformance compares: margin, cold start, and what may never be lent."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from peer_views import Learned, NodeSeries, PeakSettings, PodSeries, View, pod_view, tier_view, with_margin

from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.peaks.decaying_histograms import DecayingHistograms
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.forecast import forecast
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.state import DEFAULT_POOL, NodeWindow, PartitionState

SETTINGS = PeakSettings()
WARM = SETTINGS.min_windows
HISTOGRAM = ModelChoice("histogram", {"warm_seconds": 0})


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


def views(series: NodeSeries, chosen: PeakSettings = SETTINGS) -> tuple[View, View]:
    return pod_view(series, "cpu", chosen), tier_view(series, "cpu", chosen)


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
    chosen = replace(SETTINGS, protect_lsr=protect)
    assert [view.reclaimable > 0 for view in views(node(pod(cpu=100, qos="LSR"), prod_cpu=100), chosen)] == [lent] * 2


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


@given(
    st.lists(st.tuples(st.integers(500, 4000), st.sampled_from(["LS", "LSR"]), st.lists(st.floats(0, 1), min_size=3,
             max_size=3)), min_size=1, max_size=5),
    st.integers(0, 800),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_what_runs_says_the_larger_peak_of_both_views_and_lends_no_more_than_that_leaves(
    pods: list[tuple[int, str, list[float]]], system: int
) -> None:
    """The model `histogram` in the service, against the views of its own percentiles; both cut to whole units."""
    state = PartitionState(PoolPolicies(PoolPolicy(cpu=HISTOGRAM, memory=HISTOGRAM)), model_of)
    claims = [
        Pod(
            f"{n}",
            "",
            "",
            f"{n}",
            Tier.PROD,
            QoSClass(qos),
            9500,
            Resources(request, 0),
            datetime(2026, 1, 1, tzinfo=UTC),
        )
        for n, (request, qos, _) in enumerate(pods)
    ]
    for window in range(3):
        usage = np.array([(request * shares[window], 0.0) for request, _, shares in pods])
        state.apply_window(
            NodeWindow("n", 300 * window, 300 * window + 300, window, claims, usage, (0.0, 0.0), (float(system), 0.0))
        )
    pool = state.pools[DEFAULT_POOL]
    state.fold(pool)
    seen = forecast(pool, state.policies.cluster, np.array([[8000.0, 1e9]]), 900.0).seen["cpu"]
    rows = np.arange(len(pods))
    model = pool.pods.models["cpu"]
    assert isinstance(model, DecayingHistograms)
    _, percentiles = model.pods.read(rows)
    _, together = model.machines.read(np.array([0]))
    limits = [request for request, _, _ in pods]
    plain = PeakSettings(safety_margin_percent=0, min_windows=0)  # a pod's peak is cut to what it may use by what runs
    peaks = [min(1.1 * found, limit) for found, limit in zip(percentiles.tolist(), limits, strict=True)]
    series = replace(
        node(
            *(
                pod(f"{n}", cpu=round(peak), windows=1, request=limit, qos=qos)
                for n, (peak, limit, (_, qos, _)) in enumerate(zip(peaks, limits, pods, strict=True))
            ),
            prod_cpu=round(min(1.1 * float(together[0]), sum(limits))),
        ),
        system=Learned(round(float(seen.system[0])), 0, 1),
    )
    by_pods, by_tier = views(series, plain)
    units = len(pods) + 2
    assert abs(float(seen.tiers[0, 0]) - max(by_pods.peak, by_tier.peak)) <= units
    assert float(seen.reclaimable[0]) <= by_pods.reclaimable + units
    room = min(sum(limits), 8000 - float(seen.system[0])) - max(by_pods.peak, by_tier.peak)
    assert abs(float(seen.reclaimable[0]) - max(room, 0)) <= units

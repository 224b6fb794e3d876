"""What stands in for a workload that is not known: its request, or what its class needs of it if the policy says so."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from histories import History, feed, histories, members_of
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.peaks.workload_profile import CLASS_PRIOR, ProfileOptions, WorkloadProfile
from slackwater.prediction.adapters.predictors.catalogue import describe, settings_of
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.due_nodes import _fallback
from slackwater.prediction.domain.forecast import Forecast, forecast
from slackwater.prediction.domain.pod_peaks import pod_peaks
from slackwater.prediction.domain.pod_table import QOS, kind_of
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.prediction_record import reasons
from slackwater.prediction.domain.snapshot import decode, encode
from slackwater.prediction.domain.state import DEFAULT_POOL, NodeWindow, PartitionState

START = 1_700_006_400
HOUR = 3600
GIB = 2**30
AT = datetime.fromtimestamp(START, UTC)
LS, LSR = (kind_of(0, QOS.index(name)) for name in ("LS", "LSR"))
PROFILE = ProfileOptions(knob=0.2, history_hours=48, live_days=2, cold_hours=4, young_hours=0, ledger_after_hours=2)
GUESSING = replace(PROFILE, cold_start=CLASS_PRIOR, prior_workloads=2)


def pod(uid: str, qos: QoSClass = QoSClass.LS) -> Pod:
    return Pod(uid, uid, "default", f"w-{uid}", Tier.PROD, qos, 9500, Resources(1000, 2 * GIB), AT)


def sight(node: str, hour: int, pods: list[tuple[Pod, float]]) -> NodeWindow:
    end = START + hour * HOUR
    usage = np.array([(cpu, GIB) for _, cpu in pods], dtype=np.float64).reshape(-1, 2)
    return NodeWindow(
        node, end - HOUR, end, hour, [one for one, _ in pods], usage, (9e3, GIB), (100, GIB), f"{node}{hour}"
    )


def policies(cold_start: str, **chosen: object) -> PoolPolicies:
    given_ = {"cold_hours": 4, "young_hours": 0, "cold_start": cold_start, "prior_workloads": 20, **chosen}
    model = ModelChoice("workload-profile", given_)
    return PoolPolicies(PoolPolicy(cpu=model, memory=model))


def seasoned(cold_start: str, known: int = 30, **chosen: object) -> PartitionState:
    """Known LS pods that need 10 to 300 of their 1000 milli-cores; elsewhere, new ones of LS and of LSR."""
    state = PartitionState(policies(cold_start, **chosen), model_of)
    for hour in range(1, 9):
        state.apply_window(sight("old", hour, [(pod(f"p{n}"), 10.0 * (n + 1)) for n in range(known)]))
    state.apply_window(sight("new", 8, [(pod("n"), 5.0)]))
    state.apply_window(sight("newer", 8, [(pod("r", QoSClass.LSR), 5.0)]))
    state.apply_window(sight("busy", 8, [(pod("b"), 700.0)]))
    state.fold(state.pools[DEFAULT_POOL])
    return state


def told(state: PartitionState) -> Forecast:
    allocatable = np.full((len(state.by_number), 2), (64_000.0, 256.0 * GIB))
    pool = state.pools[DEFAULT_POOL]
    return forecast(pool, state.policies.of(DEFAULT_POOL), allocatable, float(state.latest_seconds))


def peak(state: PartitionState, node: str) -> float:
    return float(told(state).seen["cpu"].tiers[0, state.nodes[node].number])


def test_the_request_stands_in_unless_the_policy_says_otherwise() -> None:
    state = seasoned("request")
    assert [peak(state, node) for node in ("new", "newer", "busy")] == [1000, 1000, 1000]
    guessed = seasoned("class-prior")
    assert 290 < peak(guessed, "new") < 600  # 29 of 30 need 290 or less; and what is guessed is insured like the young
    assert peak(guessed, "newer") == 1000  # no LSR workload is known
    assert 700 < peak(guessed, "busy") <= 1000  # it was seen to use more
    assert peak(guessed, "old") == peak(state, "old")


@pytest.mark.parametrize(("known", "at_least", "guessed"), [(30, 20, True), (30, 30, True), (30, 31, False)])
def test_until_enough_of_a_class_are_known_the_request_stands_in(known: int, at_least: int, guessed: bool) -> None:
    state = seasoned("class-prior", known, prior_workloads=at_least)
    assert (peak(state, "new") < 1000) is guessed
    model = state.pools[DEFAULT_POOL].pods.models["cpu"]
    assert isinstance(model, WorkloadProfile)
    share, count = model.prior(int(LS))
    assert count == known
    assert share == (pytest.approx(0.29, rel=1e-3) if guessed else 1.0)
    assert model.prior(int(LSR)) == (1.0, 0)


def test_a_higher_quantile_holds_more() -> None:
    peaks = [peak(seasoned("class-prior", prior_quantile=each), "new") for each in (0.5, 0.9, 1.0)]
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[-1] < 1000


def test_they_still_count_as_not_known_and_why_says_what_stands_in() -> None:
    state = seasoned("class-prior")
    found, pool = told(state), state.pools[DEFAULT_POOL]
    seen = pod_peaks(
        pool, state.policies.of(DEFAULT_POOL), found, [state.nodes[node].number for node in ("new", "newer")]
    )
    assert seen.cold.all()
    assert seen.held[:, 0].tolist() == [False, True]
    assert seen.peaks[:, 0].tolist() == [peak(state, "new"), 1000]
    formula = reasons(found.seen["cpu"], state.nodes["new"].number).formula
    assert formula["cold_limits"] == 1000
    assert formula["cold_stand_in"] == pytest.approx(290, rel=1e-3)
    assert "cold_limits" not in reasons(found.seen["cpu"], state.nodes["old"].number).formula
    assert _fallback(pool.pods.models["cpu"]) == "class priors, shares of the limit: prod/LS: 0.29 (30 known)"
    assert _fallback(seasoned("request").pools[DEFAULT_POOL].pods.models["cpu"]) == "the limits of unknown pods"


def test_what_a_class_needs_survives_a_restart_bit_for_bit_and_a_policy_that_wants_it_later() -> None:
    state = seasoned("class-prior")
    again, anew = decode(encode(state, 1), state.policies, model_of)
    assert not anew
    for one in (state, again):
        one.apply_window(sight("old", 9, [(pod(f"p{n}"), 500.0) for n in range(30)]))
        one.apply_window(sight("old", 10, [(pod(f"p{n}"), 500.0) for n in range(30)]))
        one.fold(one.pools[DEFAULT_POOL])
    assert encode(state, 2) == encode(again, 2)
    later = seasoned("request")
    assert later.follow(policies("class-prior")) == []
    assert peak(later, "new") == 1000  # nothing was learned of classes so far
    for hour in (9, 10):
        later.apply_window(sight("old", hour, [(pod(f"p{n}"), 10.0) for n in range(30)]))
    later.fold(later.pools[DEFAULT_POOL])
    assert peak(later, "new") < 1000


@given(histories(rounds=20), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_guess_is_never_above_the_request_and_is_it_without_data(history: History, enough: bool) -> None:
    """Of everything that may come: late windows, gaps, limits of zero and limits that change."""
    guessing = WorkloadProfile(GUESSING if enough else replace(GUESSING, prior_workloads=6))
    holding = WorkloadProfile(PROFILE)
    for model in (guessing, holding):
        feed(model, history)
    at, rows = history[-1]
    members = members_of(rows)
    guessed, held = guessing.peaks(at, members), holding.peaks(at, members)
    assert np.isfinite(guessed.peak).all()
    limits = np.bincount(members.machine, members.limit, 4)
    assert (guessed.peak <= limits * (1 + 1e-12)).all()
    assert (guessed.inputs["cold_stand_in"] <= held.inputs["cold_stand_in"]).all()
    assert guessed.cold_share.tolist() == held.cold_share.tolist()
    if not enough:  # there are five workloads
        assert guessed.peak.tolist() == held.peak.tolist()


def test_the_setting_shows_what_is_allowed() -> None:
    found = {one.name: one for one in settings_of(describe("workload-profile"))}
    assert found["cold_start"].allowed == "request or class-prior"
    assert found["cold_start"].default == '"request"'

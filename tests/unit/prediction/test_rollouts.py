"""Rollouts are noticed from windows alone, raise the knob for a while, say so, and survive what the state survives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import numpy as np
import pytest

from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.peaks.workload_profile import WorkloadProfile
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.forecast import Forecast, forecast
from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.prediction_record import decide, explain, reasons
from slackwater.prediction.domain.rollouts import RolloutCause, revision_of
from slackwater.prediction.domain.snapshot import Snapshot, decode, encode, freeze, pack
from slackwater.prediction.domain.state import DEFAULT_POOL, Keeping, NodeWindow, PartitionState

START = 1_700_006_400
HOUR = 3600
GIB = 2**30
AT = datetime.fromtimestamp(START, UTC)
Pods = Sequence[tuple[Pod, float]]


def policies(**chosen: object) -> PoolPolicies:
    model = ModelChoice("workload-profile", {"knob": 0.15, "cold_hours": 2, "young_hours": 0, **chosen})
    return PoolPolicies(PoolPolicy(cpu=model, memory=model, cadence=Cadence(histogram_update_seconds=30)))


def pod(uid: str, workload: str = "web", *, request: int = 1000, labels: Mapping[str, str] | None = None) -> Pod:
    asked = Resources(request, 2 * GIB)
    return Pod(uid, uid, "default", workload, Tier.PROD, QoSClass.LS, 9500, asked, AT, dict(labels or {}))


def sight(node: str, end: int, pods: Pods, seconds: int = 600) -> NodeWindow:
    usage = np.array([(cpu, GIB) for _, cpu in pods], dtype=np.float64).reshape(-1, 2)
    whole = (float(usage[:, 0].sum()), float(GIB))
    return NodeWindow(
        node,
        START + end - seconds,
        START + end,
        end // seconds,
        [one for one, _ in pods],
        usage,
        whole,
        (100, GIB),
        str(end),
    )


def hours(state: PartitionState, pods: Pods, first: int, last: int, node: str = "n") -> None:
    """Three windows an hour, without gaps."""
    for end in range(first * HOUR, last * HOUR, 1200):
        state.apply_window(sight(node, end, pods, 1200))


def fresh(**chosen: object) -> PartitionState:
    return PartitionState(policies(**chosen), model_of)


def told(state: PartitionState) -> Forecast:
    pool = state.pools[DEFAULT_POOL]
    state.fold(pool)
    allocatable = np.full((len(state.by_number), 2), (64_000.0, 256.0 * GIB))
    return forecast(pool, state.policies.of(DEFAULT_POOL), allocatable, float(state.latest_seconds))


def why(state: PartitionState, workload: str = "web") -> RolloutCause:
    crowd = state.pools[DEFAULT_POOL].pods
    number = crowd.workloads.find(workload)
    return RolloutCause.NONE if number is None else crowd.rollouts.why(number)[0]


def insured(state: PartitionState, node: str = "n") -> float:
    seen = told(state).seen["cpu"]
    return float(seen.peaks.inputs["rollout_share"][seen.group[state.nodes[node].number]])


FOUR = [(pod(f"p{number}"), 300.0) for number in range(4)]


@cache
def _settled(**chosen: object) -> PartitionState:
    state = fresh(**chosen)
    hours(state, FOUR, 1, 26)
    return state


def settled(**chosen: object) -> PartitionState:
    """Four pods of one workload that have been there for a day."""
    return deepcopy(_settled(**chosen))


@pytest.mark.parametrize(("pods", "cause"), [
    (FOUR, RolloutCause.NONE),
    (FOUR[:2], RolloutCause.NONE),
    ([(pod("p0", request=1500), 300.0), *FOUR[1:]], RolloutCause.CONFIGURATION),
    ([*FOUR, (pod("p4", request=500), 300.0)], RolloutCause.CONFIGURATION),
    ([(pod(f"q{number}"), 300.0) for number in range(4)], RolloutCause.PODS),
    ([*FOUR, *((pod(f"q{number}"), 300.0) for number in range(4))], RolloutCause.PODS),
    ([*FOUR[1:], (pod("q"), 300.0)], RolloutCause.NONE),
    ([*FOUR, (pod("q"), 300.0), (pod("r"), 300.0)], RolloutCause.NONE),
    ([*FOUR, *((pod(f"o{number}", "other"), 300.0) for number in range(4))], RolloutCause.NONE),
])  # fmt: skip
def test_what_is_a_rollout_and_what_is_not(pods: Pods, cause: RolloutCause) -> None:
    state = settled()
    hours(state, pods, 26, 27)
    assert why(state) is cause
    assert why(state, "other") is RolloutCause.NONE
    assert (insured(state) > 0) is (cause is not RolloutCause.NONE)


def test_a_new_revision_is_one_and_the_one_before_it_coming_back_is_not() -> None:
    def one(uid: str, revision: str) -> Pods:
        return [(pod(uid, labels={"pod-template-hash": revision}), 300.0)]

    state = fresh()
    hours(state, one("a", "7c4"), 1, 26)
    assert why(state) is RolloutCause.NONE
    hours(state, one("b", "9f1"), 26, 27)
    assert why(state) is RolloutCause.REVISION
    at = state.pools[DEFAULT_POOL].pods.rollouts.why(0)
    hours(state, one("c", "7c4"), 27, 60)
    hours(state, one("a", "9f1"), 60, 61)
    assert state.pools[DEFAULT_POOL].pods.rollouts.why(0) == at


def test_a_platform_may_say_so_itself_by_a_label_of_a_pod_that_runs_on() -> None:
    state = fresh()
    for revision, first in (("1", 1), ("2", 26)):
        hours(
            state, [(pod("a", labels={"slackwater.io/revision": revision, "version": "x"}), 300.0)], first, first + 25
        )
    assert why(state) is RolloutCause.REVISION
    assert revision_of({"version": "2"}) not in (
        0,
        revision_of({"version": "1"}),
        revision_of({"pod-template-hash": "2"}),
    )
    assert revision_of({"team": "a"}) == 0


def test_pods_that_arrive_one_by_one_within_an_hour_are_counted_together() -> None:
    state = settled()
    for number in range(4):
        now = [(pod(f"q{each}"), 300.0) for each in range(number + 1)] + [*FOUR[number + 1 :]]
        state.apply_window(sight("n", 26 * HOUR + number * 600, now))
        assert why(state) is (RolloutCause.PODS if number >= 2 else RolloutCause.NONE)


@pytest.mark.parametrize(("was_there", "cause"), [(False, RolloutCause.PODS), (True, RolloutCause.NONE)])
def test_new_pods_on_other_nodes_count_but_not_those_of_a_node_that_was_silent(
    was_there: bool, cause: RolloutCause
) -> None:
    state, others = fresh(), [(pod(f"q{number}"), 300.0) for number in range(4)]
    for hour in range(1, 28):
        hours(state, FOUR, hour, hour + 1)
        if was_there and hour < 25:
            hours(state, others, hour, hour + 1, "m")
    assert state.pools[DEFAULT_POOL].pods.series.find("m\x1fq0") is None  # forgotten meanwhile
    hours(state, others, 28, 29, "m")
    assert why(state) is cause


def test_a_workload_that_changes_by_habit_is_no_rollout() -> None:
    state = settled()
    noticed = set()
    for hour in range(26, 50):
        hours(state, [(pod(f"{hour}-{number}"), 300.0) for number in range(4)], hour, hour + 1)
        noticed.add(state.pools[DEFAULT_POOL].pods.rollouts.why(0)[1])
    assert len(noticed) == 3
    hours(state, [(pod(f"49-{number}"), 300.0) for number in range(4)], 50, 76)  # and a quiet day later it is
    hours(state, [(pod(f"76-{number}"), 300.0) for number in range(4)], 76, 77)
    assert state.pools[DEFAULT_POOL].pods.rollouts.why(0)[1] >= START + 76 * HOUR


def test_a_job_that_starts_from_nothing_is_no_change() -> None:
    state = fresh()
    for hour in range(1, 30, 4):
        hours(state, [(pod(f"{hour}-{number}"), 300.0) for number in range(5)], hour, hour + 1)
        state.apply_window(sight("n", (hour + 1) * HOUR, []))
    assert why(state) is RolloutCause.NONE


def test_a_policy_says_how_long_and_how_much_and_switches_it_off() -> None:
    raised = {}
    for chosen in ({}, {"rollout_hours": 3}, {"rollout_knob": 0.5}, {"rollout_hours": 0}):
        state = settled(**chosen)
        hours(state, [(pod(f"q{number}"), 300.0) for number in range(4)], 26, 27)
        first = insured(state)
        peak = float(told(state).seen["cpu"].tiers[0, 0])
        hours(state, [(pod(f"q{number}"), 300.0) for number in range(4)], 27, 31)
        raised[str(chosen)] = (first, insured(state), peak)
    whole, short, less, off = raised.values()
    assert whole[:2] == (1.0, 1.0)
    assert short[:2] == (1.0, 0.0)
    assert off[:2] == (0.0, 0.0)
    assert whole[2] == short[2] > less[2] > off[2]


def test_why_a_peak_is_higher_adds_up_and_names_it() -> None:
    state = settled()
    hours(state, [(pod(f"q{number}"), 300.0) for number in range(4)], 26, 27)
    found = told(state)
    said = reasons(found.seen["cpu"], 0)
    peak, terms = explain(said)
    names = {term.name: term.value for term in terms}
    assert names["rollout"] > 0
    assert sum(names.values()) == peak == found.seen["cpu"].tiers[0, 0]
    assert decide(said.terms, said.limits, said.owned, said.formula) == peak
    text = state.pools[DEFAULT_POOL].pods.rollouts.reason_text(0)
    assert text == "has many new pods since 2023-11-16T02:00Z"
    quiet = reasons(told(settled()).seen["cpu"], 0)
    assert "rollout" not in quiet.terms
    assert "rollout" not in quiet.formula


def history() -> Iterator[NodeWindow]:
    for end in range(HOUR, 60 * HOUR, 1200):
        hour = end // HOUR
        yield sight("n", end, [(pod(f"p{hour // 30}-{number}"), 300.0 + hour) for number in range(4)], 1200)
        yield sight("m", end, [(pod("other", "other", request=1000 if hour < 40 else 1200), 500.0)], 1200)


@pytest.mark.parametrize("cut", [1, 88, 177])
def test_what_was_noticed_survives_a_restart_bit_for_bit(cut: int) -> None:
    sights = list(history())
    undisturbed, first = fresh(), fresh()
    for one in sights:
        undisturbed.apply_window(one)
    for one in sights[:cut]:
        first.apply_window(one)
    state, anew = decode(encode(first, cut), policies(), model_of)
    assert not anew
    for one in sights[cut:]:
        state.apply_window(one)
    assert encode(state, 9) == encode(undisturbed, 9)
    assert why(state) is RolloutCause.PODS
    assert why(state, "other") is RolloutCause.CONFIGURATION


def before_rollouts(state: PartitionState, position: int) -> Snapshot:
    """As it was kept until version 3."""
    frozen = freeze(state, position)
    arrays = {name: one for name, one in frozen.arrays.items() if ".rollouts." not in name}
    arrays = {name: one for name, one in arrays.items() if not name.endswith("crowd.members.revision")}
    return replace(pack(replace(frozen, arrays=arrays)), version=3)


def test_a_snapshot_of_before_is_read_and_nothing_in_it_is_taken_for_a_change() -> None:
    old = settled()
    state, anew = decode(before_rollouts(old, 5), policies(), model_of)
    assert not anew
    peaks = [told(one).values.tolist() for one in (old, state)]
    assert peaks[0] == peaks[1]
    hours(state, FOUR, 26, 30)
    assert why(state) is RolloutCause.NONE
    hours(state, [(pod("p0", request=1500), 300.0), *FOUR[1:]], 30, 31)
    assert why(state) is RolloutCause.CONFIGURATION


def test_a_pod_with_the_reused_row_of_another_is_not_taken_for_it() -> None:
    state = PartitionState(
        policies(), model_of, Keeping(pod_seconds=1800, node_seconds=3600, workload_seconds=4 * HOUR)
    )
    hours(state, FOUR, 1, 26)
    hours(state, [(pod(f"q{number}"), 300.0) for number in range(4)], 26, 27)
    crowd = state.pools[DEFAULT_POOL].pods
    number = crowd.workloads.find("web")
    hours(state, [(pod("x", "other"), 300.0)], 27, 40)
    assert crowd.workloads.find("web") is None
    hours(state, [(pod("x", "other"), 300.0), (pod("y", "newer", request=9000), 300.0)], 40, 41)
    assert crowd.workloads.find("newer") == number
    assert why(state, "newer") is RolloutCause.NONE
    assert insured(state) == 0


def fleet_after_rollouts(seed: int, *, rolls_out: bool, **chosen: object) -> tuple[float, float]:
    """Share of node-days above the peak, and of limits lent, in the day after: twelve nodes with twenty pods of
    thirty workloads, of which ten get new pods that use 1.3 to 2.4 times as much."""
    rng = np.random.default_rng(seed)
    state = PartitionState(policies(**chosen), model_of, Keeping(pod_seconds=4 * HOUR))
    level, place = rng.uniform(100, 500, 30), [rng.integers(0, 30, 20) for _ in range(12)]
    changes = np.zeros(30, dtype=bool)
    jump = np.ones(30)

    def hour_of(hour: int) -> list[Pods]:
        wave = 1 + 0.2 * np.sin(2 * np.pi * (hour + np.arange(30)) / 24)
        made = []
        for node, workloads in enumerate(place):
            used = np.minimum((level * jump * wave)[workloads] * rng.uniform(0.7, 1.3, 20), 1000)
            turn = [f"{node}-{seat}{'-new' if changes[workload] else ''}" for seat, workload in enumerate(workloads)]
            made.append([(pod(uid, f"w{w}"), cpu) for uid, w, cpu in zip(turn, workloads, used.tolist(), strict=True)])
        return made

    for hour in range(1, 49):
        for node, pods in enumerate(hour_of(hour)):
            state.apply_window(sight(f"n{node}", hour * HOUR, pods, HOUR))
    if rolls_out:
        changes[:10], jump[:10] = True, rng.uniform(1.3, 2.4, 10)
    first = hour_of(49)
    for node, pods in enumerate(first):
        state.apply_window(sight(f"n{node}", 49 * HOUR, [(one, 0.0) for one, _ in pods], HOUR))
    found = told(state)
    peaks = np.array([found.seen["cpu"].tiers[0, state.nodes[f"n{node}"].number] for node in range(12)])
    actual = np.max([[sum(cpu for _, cpu in pods) for pods in hour_of(hour)] for hour in range(50, 74)], axis=0)
    return float((actual > peaks).mean()), float(1 - peaks.sum() / (12 * 20 * 1000))


def test_fewer_are_broken_after_a_rollout_than_without_noticing_and_nothing_changes_where_nothing_does() -> None:
    noticed, overlooked = (
        np.mean([fleet_after_rollouts(seed, rolls_out=True, rollout_hours=long) for seed in range(2)], axis=0)
        for long in (24, 0)
    )
    assert overlooked[0] >= 0.3
    assert noticed[0] <= 0.5 * overlooked[0]
    assert noticed[1] >= overlooked[1] - 0.15
    assert fleet_after_rollouts(1, rolls_out=False) == fleet_after_rollouts(1, rolls_out=False, rollout_hours=0)


def test_the_largest_of_several_models_hands_the_news_on() -> None:
    inner = ["workload-profile", {"cold_hours": 2, "young_hours": 0}]
    choice = ModelChoice("max", {"models": [inner, ["borg-default", {"overcommit": 2}]]})
    state = PartitionState(PoolPolicies(PoolPolicy(cpu=choice, memory=choice)), model_of)
    hours(state, FOUR, 1, 26)
    hours(state, [(pod(f"q{number}"), 300.0) for number in range(4)], 26, 27)
    model = state.pools[DEFAULT_POOL].pods.models["cpu"]
    profile = model.models[0]  # type: ignore[attr-defined]  # it is the model of that name
    assert isinstance(profile, WorkloadProfile)
    assert profile.changing(float(state.latest_seconds), np.array([0])).all()

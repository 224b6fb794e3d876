"""What holds for every model of peaks, whatever was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from histories import History, feed, histories, members_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_models import Row

from slackwater.model.errors import InvalidInput
from slackwater.peaks.borg_default import BorgDefault
from slackwater.peaks.buckets import CPU_MILLI, ExponentialBuckets
from slackwater.peaks.decaying_histograms import DecayingHistograms, DecayingOptions
from slackwater.peaks.fleet import machine_members
from slackwater.peaks.largest import Largest
from slackwater.peaks.nsigma import NSigma, NSigmaV1, NSigmaV2
from slackwater.peaks.periodic import Periodic, PeriodicOptions
from slackwater.peaks.port import KeptModel, Members
from slackwater.peaks.resource_central import ResourceCentral, ResourceCentralOptions
from slackwater.peaks.workload_profile import CLASS_PRIOR, ProfileOptions, WorkloadProfile

DAY = 86_400.0
SIGMA = NSigma(sigmas=2.0, blocks=5, block_seconds=1800.0, warm_seconds=600.0)
CENTRAL = ResourceCentralOptions(percentile=0.9, slots=9, slot_seconds=1800.0, warm_seconds=600.0)
DECAYING = DecayingOptions(percentile=0.8, half_life_seconds=DAY / 4, warm_seconds=600.0)
PROFILE = ProfileOptions(knob=0.2, history_hours=48, live_days=2, cold_hours=2, young_hours=0, ledger_after_hours=2)
GUESSING = replace(PROFILE, cold_start=CLASS_PRIOR, prior_workloads=2)


def changing(options: ProfileOptions) -> WorkloadProfile:
    """Of which two workloads are in the middle of a rollout that does not end."""
    model = WorkloadProfile(replace(options, rollout_hours=1e9))
    model.announce(0.0, np.array([1, 3]))
    return model


MODELS = {
    "borg-default": BorgDefault,
    "nsigma-v1": lambda: NSigmaV1(SIGMA),
    "nsigma-v2": lambda: NSigmaV2(SIGMA),
    "resource-central": lambda: ResourceCentral(CENTRAL),
    "periodic": lambda: Periodic(PeriodicOptions(history_hours=48, cold_hours=2)),
    "periodic-best": lambda: Periodic(
        PeriodicOptions(history_hours=96, cold_hours=2, correlation=0.0, estimator="best")
    ),
    "histogram": lambda: DecayingHistograms(DECAYING, CPU_MILLI),
    "max": lambda: Largest([NSigmaV1(SIGMA), ResourceCentral(CENTRAL)]),
    "workload-profile": lambda: WorkloadProfile(PROFILE),
    "workload-profile-guessing": lambda: WorkloadProfile(GUESSING),
    "workload-profile-changing": lambda: changing(PROFILE),
    "workload-profile-calibrated": lambda: WorkloadProfile(replace(PROFILE, violation_rate=0.01, young_hours=30)),
}
each_model = pytest.mark.parametrize("name", MODELS)
few = settings(max_examples=25, deadline=None)


def peaks_of(model: KeptModel, history: History) -> np.ndarray:
    feed(model, history)
    at, rows = history[-1]
    return model.peaks(at, members_of(rows)).peak


@given(history=histories())
@few
def test_a_peak_is_a_number_between_zero_and_the_sum_of_limits(history: History) -> None:
    for name, make in MODELS.items():
        model = make()
        feed(model, history)
        for at, rows in history:
            answer = model.peaks(at, members_of(rows))
            limits = np.bincount([row.machine for row in rows], [row.limit for row in rows], minlength=4)
            assert (answer.peak >= 0).all(), name
            assert (answer.peak <= limits * (1 + 1e-12)).all(), name
            assert ((answer.cold_share >= 0) & (answer.cold_share <= 1)).all(), name
            assert all(np.isfinite(values).all() for values in answer.terms.values()), name


@each_model
def test_an_unseen_pod_counts_with_its_limit_and_no_peak_is_zero(name: str) -> None:
    model = MODELS[name]()
    unknown = members_of([Row(1, 4, 4, 700.0, 0.0), Row(1, 9, 9, 300.0, 0.0)])
    answer = model.peaks(0.0, unknown)
    assert answer.peak.tolist() == [0, pytest.approx(1000.0 if name != "borg-default" else 1000 / 1.1), 0, 0]
    nothing = model.peaks(0.0, members_of([], machines=2))
    assert nothing.peak.tolist() == [0, 0]
    model.fold(0.0, members_of([], machines=2), np.zeros(0))


@given(history=histories(), days=st.integers(-3000, 3000))
@few
def test_shifting_all_times_by_days_changes_nothing(history: History, days: int) -> None:
    shifted = [(at + days * DAY, rows) for at, rows in history]
    for name, make in MODELS.items():
        np.testing.assert_allclose(
            peaks_of(make(), history), peaks_of(make(), shifted), rtol=1e-9, atol=1e-9, err_msg=name
        )


@given(history=histories(late=False), order=st.permutations(range(7)))
@few
def test_the_order_of_pods_does_not_matter(history: History, order: list[int]) -> None:
    other = [(at, sorted((rows[n] for n in order), key=lambda row: row.machine)) for at, rows in history]
    for name, make in MODELS.items():
        np.testing.assert_allclose(
            peaks_of(make(), history), peaks_of(make(), other), rtol=1e-9, atol=1e-9, err_msg=name
        )


@given(history=histories(), cut=st.integers(0, 14))
@few
def test_a_restored_state_goes_on_bit_for_bit(history: History, cut: int) -> None:
    for name, make in MODELS.items():
        straight, broken, restored = (make() for _ in range(3))
        feed(straight, history)
        feed(broken, history[:cut])
        for at, rows in history[:cut]:
            broken.peaks(at, members_of(rows))  # asking changes nothing
        restored.restore(broken.state())
        feed(restored, history[cut:])
        at, rows = history[-1]
        one, two = (model.peaks(at, members_of(rows)) for model in (straight, restored))
        assert one.peak.tobytes() == two.peak.tobytes(), name
        assert in_bytes(one.terms) == in_bytes(two.terms), name
        assert in_bytes(straight.state()) == in_bytes(restored.state()), name


def in_bytes(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


@given(history=histories())
@few
def test_what_is_forgotten_was_never_seen(history: History) -> None:
    at, rows = history[-1]
    limits = np.bincount([row.machine for row in rows], [row.limit for row in rows], minlength=4)
    every = np.arange(50)
    for name, make in MODELS.items():
        if name in ("borg-default", "workload-profile-guessing"):
            continue
        model = make()
        feed(model, history)
        model.forget(every[:4], every, every)
        answer = model.peaks(at, members_of(rows))
        np.testing.assert_allclose(answer.peak, limits, err_msg=name)
        assert (answer.cold_share[np.unique([row.machine for row in rows])] == 1).all(), name


@pytest.mark.parametrize("name", [name for name in MODELS if name != "borg-default"])
def test_a_state_that_does_not_fit_is_refused(name: str) -> None:
    model = MODELS[name]()
    feed(model, [(1e9, [Row(0, 0, 0, 500.0, 100.0)])])
    state = model.state()
    part = next(key for key in state if len(state[key].shape) == 2 or key.endswith("slots"))
    with pytest.raises(InvalidInput, match="missing"):
        MODELS[name]().restore({key: array for key, array in state.items() if key != part})
    with pytest.raises(InvalidInput, match="model state"):
        MODELS[name]().restore({**state, part: state[part].astype(np.complex128)})


@given(histories(), st.floats(0, 20), st.floats(0, 20))
@few
def test_more_margin_never_lowers_a_peak(history: History, one: float, two: float) -> None:
    low, high = sorted((one, two))
    makers = [
        lambda margin: NSigmaV1(replace(SIGMA, sigmas=margin)),
        lambda margin: NSigmaV2(replace(SIGMA, sigmas=margin)),
        lambda margin: DecayingHistograms(replace(DECAYING, margin=margin), CPU_MILLI),
        lambda margin: ResourceCentral(replace(CENTRAL, percentile=min(1.0, 0.01 + margin / 21))),
        lambda margin: WorkloadProfile(replace(PROFILE, knob=margin)),
        lambda margin: WorkloadProfile(replace(PROFILE, knob=margin, young_hours=30)),
        lambda margin: WorkloadProfile(replace(GUESSING, knob=margin, young_hours=30)),
        lambda margin: changing(replace(PROFILE, knob=margin, young_hours=30)),
    ]
    for make in makers:
        assert (peaks_of(make(low), history) <= peaks_of(make(high), history) * (1 + 1e-12) + 1e-9).all()


@given(histories(rounds=20))
@settings(max_examples=50, deadline=None)
def test_bounds_are_in_order_and_without_a_knob_the_peak_is_what_was_seen_together(history: History) -> None:
    model = WorkloadProfile(replace(PROFILE, knob=0.0, young_knob=0.0))
    feed(model, history)
    at, rows = history[-1]
    members = members_of(rows)
    bounds = model.bounds(at, machine_members(members))
    assert (bounds.seen_together >= 0).all()
    assert (bounds.seen_together <= bounds.own_peaks).all()
    assert (bounds.own_peaks <= bounds.limits).all()
    answer = model.peaks(at, members)
    present = np.unique(members.machine)
    assert answer.peak[present].tolist() == bounds.seen_together.tolist()
    assert list(answer.terms) == ["seen_together", "coincidence", "novelty", "noise", "rollout"]
    assert not answer.terms["rollout"].any()


@given(histories(rounds=20))
@settings(max_examples=50, deadline=None)
def test_there_is_no_live_gap_while_keys_are_right(history: History) -> None:
    model = WorkloadProfile(PROFILE)
    feed(model, history)
    for at, rows in history:
        assert model.bounds(at, machine_members(members_of(rows))).live_gap.tolist() == [0.0, 0.0, 0.0]


def test_a_pod_under_a_wrong_key_is_covered_by_the_live_gap() -> None:
    model = WorkloadProfile(PROFILE)
    own = [Row(0, 0, 0, 1000.0, 800.0), Row(0, 1, 1, 1000.0, 100.0)]
    for hour in range(10):
        feed(model, [(3600.0 * (hour + 1), own)])
    wrong = [own[0]._replace(workload=1), own[1]]
    at = 36_000.0
    bounds = model.bounds(at, machine_members(members_of(wrong)))
    assert bounds.live_gap[0] == pytest.approx(700, rel=1e-4)
    assert model.peaks(at, members_of(wrong)).peak[0] >= 900


@given(histories(late=False), st.lists(st.booleans(), min_size=14, max_size=14))
@settings(max_examples=50, deadline=None)
def test_two_histories_merged_are_the_history_of_both(history: History, sides: list[bool]) -> None:
    members = members_of(history[-1][1])
    profiles = [WorkloadProfile(PROFILE) for _ in range(3)]
    sigmas = [NSigmaV2(SIGMA) for _ in range(3)]
    centrals = [ResourceCentral(CENTRAL) for _ in range(3)]
    decaying = [DecayingHistograms(DECAYING, CPU_MILLI) for _ in range(3)]
    for models in (profiles, sigmas, centrals, decaying):
        for window, left in zip(history, sides, strict=False):
            feed(models[0], [window])
            feed(models[1 if left else 2], [window])
    workloads, series, machines = np.arange(5), np.arange(7), np.arange(4)
    profiles[1].merge(profiles[2])
    whole, merged = (model.profiles for model in profiles[:2])
    assert (whole.hours(workloads) == merged.hours(workloads)).all()
    assert (whole.own(workloads) == merged.own(workloads)).all()
    counted = np.ones(7, dtype=bool)
    groups = machine_members(members).starts
    one, two = (each.together(members.workload, counted, groups) for each in (whole, merged))
    assert one.tolist() == two.tolist()
    sigmas[1].each.merge(sigmas[2].each)
    for mine, theirs in zip(sigmas[0].each.over(series), sigmas[1].each.over(series), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-7)
    centrals[1].merge(centrals[2])
    for mine, theirs in zip(centrals[0].percentiles(series), centrals[1].percentiles(series), strict=True):
        assert mine.tolist() == theirs.tolist()
    decaying[1].merge(decaying[2])
    for rows_, each, other in (
        (series, decaying[0].pods, decaying[1].pods),
        (machines, decaying[0].machines, decaying[1].machines),
    ):
        for matrix in (each.matrix, other.matrix):
            matrix.ensure_columns(matrix.buckets.count)
        older = np.exp2((each.matrix.reference - other.matrix.reference)[rows_] / DECAYING.half_life_seconds)
        np.testing.assert_allclose(each.matrix.weights[rows_] * older[:, None], other.matrix.weights[rows_], rtol=1e-9)


def test_a_workload_is_known_by_what_was_seen_of_it_not_by_the_age_of_its_pod() -> None:
    model = WorkloadProfile(PROFILE)
    pods = [Row(0, 0, 0, 1000.0, 300.0)]
    feed(model, [(3600.0, pods)])
    moved = [Row(1, 5, 0, 1000.0, 0.0)]
    assert model.peaks(3600.0, members_of(moved)).cold_share.tolist() == [0, 1, 0, 0]
    feed(model, [(7200.0, pods)])
    answer = model.peaks(7200.0, members_of(moved))
    assert answer.cold_share.tolist() == [0, 0, 0, 0]
    assert 300 <= answer.peak[1] < 600


@pytest.mark.parametrize(("rate", "raised"), [(None, 0.4 * 0.5), (0.99, 0.5 * 0.5)])  # of which the knob is 0
def test_an_announced_change_raises_the_knob_by_its_part_of_the_limits_for_a_while(
    rate: float | None, raised: float
) -> None:
    model = WorkloadProfile(replace(PROFILE, knob=0.1, violation_rate=rate, rollout_knob=0.5, rollout_hours=1.0))
    pods = [Row(0, 0, 0, 1000.0, 300.0), Row(0, 1, 1, 1000.0, 200.0)]
    feed(model, [(3600.0 * (hour + 1), pods) for hour in range(4)])
    before = model.peaks(14_400.0, members_of(pods))
    model.announce(14_400.0, np.array([1]))
    during, after = model.peaks(14_400.0, members_of(pods)), model.peaks(18_000.0, members_of(pods))
    assert during.inputs["rollout"][0] == pytest.approx(raised * 10**0.5)
    assert during.terms["rollout"][0] == pytest.approx(during.peak[0] - before.peak[0])
    assert during.peak[0] > before.peak[0] == after.peak[0]
    assert model.changing(14_400.0, np.arange(3)).tolist() == [False, True, False]


def test_a_model_set_to_ignore_rollouts_ignores_them() -> None:
    model = WorkloadProfile(replace(PROFILE, rollout_hours=0.0))
    pods = [Row(0, 0, 0, 1000.0, 300.0)]
    feed(model, [(3600.0 * (hour + 1), pods) for hour in range(4)])
    before = model.peaks(14_400.0, members_of(pods)).peak[0]
    model.announce(14_400.0, np.array([0]))
    assert model.peaks(14_400.0, members_of(pods)).peak[0] == before


def test_young_workloads_raise_a_knob_by_their_part_of_the_limits_and_a_measured_one_further() -> None:
    options = replace(PROFILE, knob=0.1, young_hours=5, young_knob=0.5, young_extra=0.2)
    old, young = Row(0, 0, 0, 1000.0, 300.0), Row(0, 1, 1, 3000.0, 200.0)
    for rate, raised in ((None, 0.3), (0.99, 0.525)):  # with a rate of 99 % the knob itself is 0
        model = WorkloadProfile(replace(options, violation_rate=rate))
        feed(model, [(3600.0 * (hour + 1), [old] if hour < 4 else [old, young]) for hour in range(7)])
        fleet = machine_members(members_of([old, young]))
        bounds = model.bounds(25_200.0, fleet)
        assert bounds.young_share.tolist() == [0.75]
        assert model.knobs(bounds)[0] - model.knob() == pytest.approx(raised)


def test_a_limit_that_grew_keeps_what_was_seen_with_coarser_units() -> None:
    model = WorkloadProfile(PROFILE)
    for hour, (limit, used) in enumerate([(1000.0, 900.0), (1000.0, 1.0), (4e9, 5.0)]):
        feed(model, [(3600.0 * (hour + 1), [Row(0, 0, 0, limit, used)])])
    unit = float(model.profiles.ring["unit"][0])
    assert 900.0 <= model.profiles.own(np.array([0]))[0] <= 900.0 + unit
    assert unit <= 2 * 4e9 / 65_535


@pytest.mark.parametrize("count", [3, 5000])
def test_few_members_are_summed_as_many_are(count: int) -> None:
    """Two ways of looking at profiles, one for a node and one for a fleet."""
    rng = np.random.default_rng(1)
    model = WorkloadProfile(PROFILE)
    numbers = np.arange(count)
    members = Members(numbers // 3, numbers, rng.permutation(count), np.full(count, 1000.0), np.zeros(count // 3 + 1))
    for hour in range(5):
        model.fold(3600.0 * (hour + 1), members, 1000 * rng.random(count))
    fleet = machine_members(members)
    counted = np.ones(count, dtype=bool)
    whole = model.profiles.together(members.workload, counted, fleet.starts)
    one = slice(0, 3)
    alone = model.profiles.together(members.workload[one], counted[one], np.array([0]))
    assert whole[0] == alone[0]
    assert model.profiles.own(members.workload)[one].tolist() == model.profiles.own(members.workload[one]).tolist()


def test_by_usage_the_one_large_sample_counts_as_much_as_it_is_large() -> None:
    rows = [[Row(0, 0, 0, 100.0, used)] for used in (1.0, 1.0, 1.0, 1.0, 10.0)]
    history = [(300.0 * (number + 1), row) for number, row in enumerate(rows)]
    peaks = {}
    for by_usage in (False, True):
        options = replace(DECAYING, percentile=0.5, margin=0.0, warm_seconds=0.0, by_usage=by_usage)
        model = DecayingHistograms(options, ExponentialBuckets(0.5, 100.0, 1.05))
        feed(model, history)
        peaks[by_usage] = float(model.peaks(1500.0, members_of(rows[-1])).peak[0])
    assert peaks[False] == pytest.approx(1, rel=0.6)
    assert peaks[True] == pytest.approx(10, rel=0.11)
    other = DecayingHistograms(replace(options, by_usage=False), ExponentialBuckets(0.5, 100.0, 1.05))
    with pytest.raises(InvalidInput, match="by_usage"):
        other.restore(model.state())

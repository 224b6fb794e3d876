"""Each batched model against its readable form: to 1e-9, whatever the stream brings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from histories import History, feed, histories, members_of
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_models import (
    Reference,
    ReferenceBorg,
    ReferenceCentral,
    ReferenceDecaying,
    ReferenceNSigma,
    ReferenceProfile,
    by_machine,
)

from slackwater.peaks.borg_default import BorgDefault
from slackwater.peaks.buckets import CPU_MILLI
from slackwater.peaks.decaying_histograms import DecayingHistograms, DecayingOptions
from slackwater.peaks.largest import Largest
from slackwater.peaks.nsigma import NSigma, NSigmaV1, NSigmaV2
from slackwater.peaks.port import KeptModel
from slackwater.peaks.resource_central import ResourceCentral, ResourceCentralOptions
from slackwater.peaks.workload_profile import CLASS_PRIOR, ProfileOptions, WorkloadProfile

SIGMA = NSigma(sigmas=2.0, blocks=5, block_seconds=1800.0, warm_seconds=600.0)
CENTRAL = ResourceCentralOptions(percentile=0.75, slots=9, slot_seconds=1800.0, warm_seconds=600.0)
DECAYING = DecayingOptions(percentile=0.8, half_life_seconds=3600.0, warm_seconds=600.0)
PROFILE = ProfileOptions(
    knob=0.2, history_hours=48, live_days=2, cold_hours=2, young_hours=4, young_knob=0.5, ledger_after_hours=2
)


def told(reference: Reference, history: History) -> Mapping[int, float]:
    for at, rows in history:
        reference.fold(at, rows)
    at, rows = history[-1]
    return reference.peaks(at, rows)


def said(model: KeptModel, history: History) -> Mapping[int, float]:
    feed(model, history)
    at, rows = history[-1]
    answer = model.peaks(at, members_of(rows))
    found = {machine: float(answer.peak[machine]) for machine in by_machine(rows)}
    assert all(answer.peak[machine] == 0 for machine in range(4) if machine not in found)
    whole = sum(answer.terms.values(), np.zeros(4))
    total = np.bincount([row.machine for row in rows], weights=[row.limit for row in rows], minlength=4)
    np.testing.assert_allclose(np.minimum(whole, total), answer.peak, rtol=1e-12, err_msg="terms do not add up")
    return found


@pytest.mark.parametrize("pods", [False, True], ids=["v1", "v2"])
@given(history=histories())
@settings(max_examples=60, deadline=None)
def test_n_sigma(pods: bool, history: History) -> None:
    model = NSigmaV2(SIGMA) if pods else NSigmaV1(SIGMA)
    assert said(model, history) == pytest.approx(told(ReferenceNSigma(SIGMA, pods), history), rel=1e-9, abs=1e-9)


@given(histories())
@settings(max_examples=60, deadline=None)
def test_resource_central(history: History) -> None:
    expected = told(ReferenceCentral(CENTRAL), history)
    assert said(ResourceCentral(CENTRAL), history) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(histories())
@settings(max_examples=20, deadline=None)
def test_borg_default_and_the_largest_of_several(history: History) -> None:
    borg, central = told(ReferenceBorg(), history), told(ReferenceCentral(CENTRAL), history)
    assert said(BorgDefault(), history) == pytest.approx(borg, rel=1e-9)
    largest = {machine: max(peak, central[machine]) for machine, peak in borg.items()}
    assert said(Largest([BorgDefault(), ResourceCentral(CENTRAL)]), history) == pytest.approx(largest, rel=1e-9)


@given(histories())
@settings(max_examples=60, deadline=None)
def test_decaying_histograms(history: History) -> None:
    found = said(DecayingHistograms(DECAYING, CPU_MILLI), history)
    low, high = (told(ReferenceDecaying(DECAYING, CPU_MILLI, nudge), history) for nudge in (-1e-9, 1e-9))
    for machine, peak in found.items():
        assert low[machine] * (1 - 1e-9) - 1e-9 <= peak <= high[machine] * (1 + 1e-9) + 1e-9


@given(histories(rounds=20), st.sets(st.integers(0, 4)))
@settings(max_examples=70, deadline=None)
def test_workload_profile(history: History, changing: set[int]) -> None:
    model, reference = WorkloadProfile(PROFILE), ReferenceProfile(PROFILE)
    until = history[-1][0] + 60
    if changing:
        model.announce(until - 3600 * PROFILE.rollout_hours, np.array(sorted(changing), dtype=np.intp))
        reference.announced = dict.fromkeys(changing, until)
    assert said(model, history) == pytest.approx(told(reference, history), rel=1e-9, abs=1e-9)


@given(histories(rounds=20), st.lists(st.sampled_from([0, 0, 0, 6, 12]), min_size=5, max_size=5))
@settings(max_examples=70, deadline=None)
def test_workload_profile_that_guesses_for_the_unknown(history: History, born: list[int]) -> None:
    """Some workloads come only after so many rounds; what was learned of the others stands in for them."""
    last = len(history) - 1
    history = [
        (at, [row for row in rows if number >= min(born[row.workload], last)])
        for number, (at, rows) in enumerate(history)
    ]
    options = replace(
        PROFILE, cold_hours=3, young_hours=0, cold_start=CLASS_PRIOR, prior_quantile=0.75, prior_workloads=2
    )
    expected = told(ReferenceProfile(options), history)
    assert said(WorkloadProfile(options), history) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_long_stream_far_from_zero_keeps_its_deviation() -> None:
    """Sums of squares would lose all of it: the deviation is a part in ten billion of the mean."""
    from slackwater.peaks.moments import Moments

    moments = Moments(10, 3600.0)
    for number in range(36_000):
        moments.fold(1.7e9 + 3.0 * number, np.array([0]), np.array([1e12 + 100.0 * (number % 2)]))
    count, mean, deviation = moments.over(np.array([0]))
    assert 9 * 1200 <= count[0] <= 10 * 1200
    assert mean[0] == pytest.approx(1e12 + 50, rel=1e-12)
    assert deviation[0] == pytest.approx(50.0, rel=1e-6)
    assert not math.isnan(moments.over(np.array([7]))[2][0])

"""Histories written down in the form of peers, and read again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peer_checkpoints import Checkpoint, from_json, load, save, to_json

from slackwater.model.errors import InvalidInput
from slackwater.peaks.buckets import CPU_MILLI
from slackwater.peaks.histogram import HistogramMatrix

HALF_LIFE = 3600.0
START = 1_700_000_000.0
SAMPLES = st.lists(st.tuples(st.floats(0, 2e6), st.floats(0, 300 * HALF_LIFE)), max_size=20)


def histogram(samples: list[tuple[float, float]], half_life: float = HALF_LIFE) -> HistogramMatrix:
    made = HistogramMatrix(CPU_MILLI, half_life)
    made.ensure_rows(1)
    for value, after in samples:
        made.add(np.array([0]), np.array([value]), np.array([START + after]))
    return made


def read(made: HistogramMatrix, share: float) -> float:
    return float(made.percentile(np.array([0]), share)[0])


@given(SAMPLES.filter(bool), st.floats(0.01, 0.99))
def test_a_checkpoint_keeps_percentiles_up_to_its_rounding(samples: list[Any], share: float) -> None:
    before, after = histogram(samples), histogram([])
    load(after, 0, from_json(to_json(save(before, 0))))
    assert after.totals[0] == pytest.approx(before.totals[0])
    rounding = len(samples) / 10_000
    lowest, highest = (read(before, max(0.0, min(1.0, share + nudge))) for nudge in (-rounding, rounding))
    assert lowest <= read(after, share) <= highest


@given(SAMPLES)
def test_a_second_checkpoint_says_what_the_first_said(samples: list[Any]) -> None:
    once, twice = histogram([]), histogram([])
    load(once, 0, save(histogram(samples), 0))
    load(twice, 0, save(once, 0))
    assert _same(save(twice, 0), save(once, 0))


def _same(one: Checkpoint, other: Checkpoint) -> bool:
    return (
        one.bucket_weights == other.bucket_weights
        and one.reference_seconds == other.reference_seconds
        and one.total_weight == pytest.approx(other.total_weight)
    )


def test_loading_adds_to_what_is_there_whatever_the_reference() -> None:
    made = histogram([(1000.0, 0.0)])
    reference = float(made.reference[0])
    load(made, 0, Checkpoint(2.0, {50: 1}, reference - 1.5 * HALF_LIFE))
    assert made.reference[0] == reference
    assert made.weights[0, 50] == pytest.approx(2.0 / 2**1.5)
    load(made, 0, Checkpoint(2.0, {50: 1}, reference + 0.5 * HALF_LIFE))
    assert made.reference[0] == reference + 0.5 * HALF_LIFE
    assert made.weights[0, 50] == pytest.approx(2.0 / 2**2 + 2.0)


def test_without_decay_there_is_no_reference() -> None:
    saved = save(histogram([(1000.0, 0.0)], half_life=math.inf), 0)
    assert saved.reference_seconds is None
    assert "referenceTimestamp" not in to_json(saved)
    made = histogram([], half_life=math.inf)
    load(made, 0, saved)
    assert read(made, 0.5) == pytest.approx(1000.0, rel=0.05)


def test_a_checkpoint_of_nothing_holds_and_adds_nothing() -> None:
    empty = histogram([])
    assert to_json(save(empty, 0))["bucketWeights"] == {}
    load(empty, 0, save(empty, 0))
    assert empty.is_empty(np.array([0])).all()


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"totalWeight": "x", "bucketWeights": {}},
        {"totalWeight": 1.0, "bucketWeights": {"a": 1}},
        {"totalWeight": 1.0, "bucketWeights": {"-1": 1}},
        {"totalWeight": 1.0, "bucketWeights": {str(CPU_MILLI.count): 1}},
        {"totalWeight": 1.0, "bucketWeights": {"1": -1}},
        {"totalWeight": -1.0, "bucketWeights": {}},
        {"totalWeight": math.nan, "bucketWeights": {"1": 1}},
        {"totalWeight": 1.0, "bucketWeights": {"1": 1}, "referenceTimestamp": "yesterday"},
    ],
)
def test_what_is_no_checkpoint_is_refused_and_changes_nothing(document: Any) -> None:
    made = histogram([(1000.0, 0.0)])
    before = made.weights.copy()
    with pytest.raises(InvalidInput, match="checkpoint"):
        load(made, 0, from_json(document))
    assert (made.weights == before).all()

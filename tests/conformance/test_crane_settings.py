"""One signal, one number: weights by value, margin, target utilization, decay, and settings from text."""

from __future__ import annotations

import math

import pytest
from crane_percentile import estimate
from crane_settings import EstimateSettings, seconds_of, settings_of
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.peaks.buckets import ExponentialBuckets, LinearBuckets


def signal(values: list[float], step: float = 60.0, **fields: float) -> float:
    return estimate(EstimateSettings(**fields), values, step)


def test_half_of_the_usage_lies_in_the_one_large_sample() -> None:
    assert signal([1, 1, 1, 1, 10], percentile=0.5) == pytest.approx(10.1)


def test_before_the_first_sample_there_is_nothing() -> None:
    assert signal([]) == 0.0


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.floats(0, 2), st.floats(0.1, 1))
def test_margin_and_target_utilization_scale_the_level(values: list[float], margin: float, target: float) -> None:
    plain = signal(values)
    assert signal(values, margin=margin, target_utilization=target) == pytest.approx(plain * (1 + margin) / target)


@given(st.lists(st.floats(0, 99), min_size=1, max_size=20))
def test_the_estimate_lies_between_the_smallest_and_the_largest_sample(values: list[float]) -> None:
    assert min(values) - 1e-9 <= signal(values) <= max(values) + 0.1 + 1e-9


def test_with_a_half_life_yesterday_gives_way_to_today() -> None:
    values = [4.0] * 10 + [1.0] * 10
    assert signal(values, step=86400, percentile=0.5) == pytest.approx(4.1)
    assert signal(values, step=86400, percentile=0.5, half_life_seconds=3600) == pytest.approx(1.1)


def test_samples_of_nothing_weigh_the_minimum() -> None:
    assert signal([0, 0, 0], percentile=0.5) == pytest.approx(0.1)


def test_settings_from_texts() -> None:
    texts = {"percentile": "0.9", "marginFraction": "0.15", "targetUtilization": "0.8", "minSampleWeight": "1"}
    read = settings_of({**texts, "epsilon": "0.001", "halfLife": "1h30m", "sampleInterval": "15s"})
    assert (read.percentile, read.margin, read.target_utilization, read.min_sample_weight) == (0.9, 0.15, 0.8, 1.0)
    assert (read.epsilon, read.half_life_seconds, read.sample_interval_seconds) == (0.001, 5400.0, 15.0)
    assert settings_of({}) == EstimateSettings() == settings_of({"percentile": "", "halfLife": ""})


def test_the_layout_follows_from_what_is_named() -> None:
    linear = {"maxValue": "100", "bucketSize": "10"}
    exponential = {**linear, "firstBucketSize": "40", "growth": "1.5"}
    assert settings_of(linear).buckets == LinearBuckets(10.0, 100.0)
    assert settings_of(exponential).buckets == ExponentialBuckets(40.0, 100.0, 2.5)
    assert settings_of({"maxValue": "7"}).buckets == EstimateSettings().buckets


@pytest.mark.parametrize(
    ("texts", "field"),
    [
        ({"percentile": "x"}, "percentile"),
        ({"percentile": "1.5"}, "percentile"),
        ({"percentile": "nan"}, "percentile"),
        ({"halfLife": "x"}, "halfLife"),
        ({"halfLife": "1h-"}, "halfLife"),
        ({"halfLife": "-1h"}, "half_life_seconds"),
        ({"targetUtilization": "0"}, "target_utilization"),
        ({"maxValue": "10", "bucketSize": "0"}, "size"),
        ({"maxValue": "10", "firstBucketSize": "1", "growth": "0"}, "growth"),
    ],
)
def test_what_cannot_be_is_named(texts: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidInput, match=field) as refused:
        settings_of(texts)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1d", 86400.0), ("1h30m", 5400.0), ("1.5s", 1.5), ("500ms", 0.5), ("0", 0.0), ("-2m", -120.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text, "t") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "d", "1x", "1h 5", "h1"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidInput, match="duration"):
        seconds_of(text, "t")


def test_not_forgetting_is_the_same_as_an_endless_half_life() -> None:
    assert EstimateSettings().half_life_seconds == math.inf

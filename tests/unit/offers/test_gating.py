"""Ageing and gating: drops at once, rises after a while, no flapping, and nothing from old usage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from drawn import gates, strategies
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.quantities import Resources
from slackwater.offers.degradation import aged, degraded_because, remaining_share
from slackwater.offers.publish_gate import PublishGate, pass_gate
from slackwater.offers.snapshot import NodeSnapshot
from slackwater.offers.strategy import Strategy

STRATEGY = Strategy(rise_windows=2)
FRESH = NodeSnapshot(Resources(8000, 2**34), Resources(), (), Resources(100, 2**20))
HIGH = 10**9


def passed(
    gate: PublishGate, computed: int, *, window: int = 0, degraded: bool = False, ceiling: int = HIGH
) -> PublishGate:
    value, after = pass_gate(gate, computed, ceiling=ceiling, window=window, degraded=degraded, strategy=STRATEGY)
    assert value == after.published
    return after


def test_the_first_value_is_published_at_once() -> None:
    assert passed(PublishGate(), 700).published == 700


def test_a_drop_beyond_the_threshold_is_published_at_once_and_one_within_is_not() -> None:
    assert passed(PublishGate(1000), 899).published == 899
    assert passed(PublishGate(1000), 900).published == 1000


def test_any_drop_is_published_while_degraded() -> None:
    assert passed(PublishGate(1000), 999, degraded=True).published == 999


def test_a_rise_is_published_after_two_windows_and_only_as_high_as_it_held() -> None:
    gate = passed(PublishGate(1000), 1500, window=60)
    assert gate.published == 1000
    assert passed(gate, 1400, window=120).published == 1400
    assert passed(gate, 1900, window=120).published == 1500


def test_a_window_counts_once_however_often_it_is_looked_at() -> None:
    gate = passed(PublishGate(1000), 1500, window=60)
    gate = passed(gate, 1300, window=60)
    gate = passed(gate, 1700, window=60)
    assert gate.published == 1000
    assert passed(gate, 1800, window=120).published == 1300


def test_a_rise_that_did_not_last_starts_anew() -> None:
    gate = passed(PublishGate(1000), 1500, window=60)
    gate = passed(gate, 1050, window=120)
    assert passed(gate, 1500, window=180).published == 1000


def test_a_published_value_above_what_the_node_can_bear_is_corrected_at_once() -> None:
    assert passed(PublishGate(1000), 950, ceiling=960).published == 950
    assert passed(PublishGate(960), 950, ceiling=960).published == 960  # it bears that much: the difference is noise


@given(st.integers(1, 10**6), st.lists(st.floats(-0.1, 0.1), max_size=40))
def test_noise_within_the_threshold_never_changes_the_value(base: int, noise: list[float]) -> None:
    gate, patient = PublishGate(published=base), replace(STRATEGY, update_time_threshold_seconds=float("inf"))
    for window, share in enumerate(noise):
        computed = base + int(base * share)
        _, gate = pass_gate(gate, computed, ceiling=HIGH, window=60 + window * 60, degraded=False, strategy=patient)
        assert gate.published == base


@given(st.integers(100, 10**6), st.lists(st.floats(0.01, 0.09), min_size=1, max_size=20))
def test_noise_around_a_value_is_never_published_however_old_it_is(base: int, noise: list[float]) -> None:
    gate = PublishGate(published=base)
    for window, share in enumerate(noise):
        for turn, sign in enumerate((1, -1)):
            at = 60 * (2 * window + turn + 1)
            assert passed(gate, base + int(sign * base * share), window=at).published == base
            gate = passed(gate, base + int(sign * base * share), window=at)


@pytest.mark.parametrize(("values", "told"), [((1050, 1030, 1060), 1030), ((950, 970, 940), 940)])
def test_a_small_lasting_difference_is_published_in_the_end_as_low_as_it_was(
    values: tuple[int, ...], told: int
) -> None:
    gate = PublishGate(published=1000)
    for number in range(3):
        gate = passed(gate, values[number], window=1000 + 100 * number)
        assert gate.published == 1000
    assert passed(gate, values[2], window=1299).published == 1000
    assert passed(gate, values[2], window=1300).published == told
    assert passed(passed(gate, 1000, window=1299), values[2], window=1300).published == 1000


def test_a_value_that_flaps_settles_at_the_lower_one() -> None:
    gate, published = PublishGate(1000), []
    for number in range(20):
        gate = passed(gate, 500 if number % 2 else 1000, window=60 * number)
        published.append(gate.published)
    assert published == [1000] + [500] * 19


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000), st.booleans()), max_size=40))
def test_the_value_never_exceeds_its_ceiling_nor_rises_above_what_was_computed(
    steps: list[tuple[int, int, bool]],
) -> None:
    gate = PublishGate()
    for window, (computed, above, degraded) in enumerate(steps):
        before = gate.published
        ceiling = computed + above
        gate = passed(gate, computed, window=window * 60, degraded=degraded, ceiling=ceiling)
        assert gate.published is not None
        assert gate.published <= ceiling
        if before is not None and gate.published > before:
            assert gate.published <= computed


def test_an_offer_decays_in_a_straight_line_between_two_ages() -> None:
    shares = [remaining_share(replace(FRESH, age_seconds=age), STRATEGY) for age in (0, 180, 540, 900, 5000)]
    assert shares == [1.0, 1.0, 0.5, 0.0, 0.0]
    left, terms = aged(1001, replace(FRESH, age_seconds=540), STRATEGY)
    assert left == 500
    assert terms[0].value == -501
    assert aged(1001, FRESH, STRATEGY) == (1001, ())


def test_a_lost_node_offers_nothing_however_fresh_its_usage() -> None:
    assert aged(1000, replace(FRESH, lost=True), STRATEGY)[0] == 0


@given(st.integers(0, 10**12), st.floats(0, 2000), st.floats(0, 2000))
def test_older_usage_never_offers_more(offered: int, a: float, b: float) -> None:
    young, old = replace(FRESH, age_seconds=min(a, b)), replace(FRESH, age_seconds=max(a, b))
    assert aged(offered, old, STRATEGY)[0] <= aged(offered, young, STRATEGY)[0]


def test_degradation_names_its_reason() -> None:
    assert degraded_because(FRESH, STRATEGY) is None
    assert degraded_because(replace(FRESH, lost=True), STRATEGY) == "node is lost"
    assert degraded_because(replace(FRESH, age_seconds=181), STRATEGY) == "usage is old"
    assert degraded_because(replace(FRESH, system=None), STRATEGY) == "system usage was never measured"


@given(gates, st.integers(0, 50_000), st.integers(0, 60_000), st.integers(1, 500), strategies, st.booleans())
def test_a_second_check_within_a_window_gives_the_same(
    gate: PublishGate, computed: int, ceiling: int, window: int, strategy: Strategy, degraded: bool
) -> None:
    how = {"ceiling": max(ceiling, computed), "window": window, "degraded": degraded, "strategy": strategy}
    value, after = pass_gate(gate, computed, **how)  # type: ignore[arg-type] # fields by name
    for _ in range(3):
        again, after = pass_gate(after, computed, **how)  # type: ignore[arg-type] # fields by name
        assert again == value

"""When a prediction is published: first, by the report, at once when a value moved; never twice, never of the past."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prediction_memory import MemoryPredictionStore
from tests.support.clock import FakeClock
from tests.support.windows import window

from slackwater.events.peak_predicted import PeakPredicted
from slackwater.model.tiers import Tier
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.cadence import Published, causes
from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.state import Keeping
from slackwater.prediction.usecases.fold_windows import fold_windows, node_window
from slackwater.prediction.usecases.partition_store import LivingState, PredictionPolicy
from slackwater.prediction.usecases.publish_predictions import next_check, publish_predictions

CADENCE = Cadence()
"""Report 60 s, check 20 s, 5 %, 600 s."""


def why(last: Published | None, until: int, values: tuple[int, ...], now: float, cadence: Cadence = CADENCE) -> object:
    return causes([last], [until], np.array([values], dtype=np.float64), now, cadence)[0]


def last(until: int = 60, at: float = 1000.0, values: tuple[int, ...] = (1000, 0)) -> Published:
    return Published(until, at, "default", 1, 0, values)


@pytest.mark.parametrize(("known", "until", "values", "now", "cause"), [
    (None, 60, (1000, 0), 0.0, "first"),
    (last(), 120, (1000, 0), 1020.0, None),
    (last(), 120, (1050, 0), 1020.0, None),
    (last(), 120, (1051, 0), 1020.0, "diff"),
    (last(), 120, (949, 0), 1020.0, "diff"),
    (last(), 120, (1000, 1), 1020.0, "diff"),
    (last(), 120, (1000, 0), 1060.0, "report"),
    (last(), 120, (1000, 0), 1049.0, None),
    (last(), 120, (1000, 0), 1050.0, "report"),
    (last(), 60, (1000, 0), 9999.0, None),
    (last(), 60, (2000, 0), 1001.0, "diff"),
    (last(), 30, (2000, 0), 9999.0, None),
    (last(values=()), 120, (1000, 0), 1001.0, "diff"),
])  # fmt: skip
def test_a_node_is_published_for_a_reason(
    known: Published | None, until: int, values: tuple[int, ...], now: float, cause: str | None
) -> None:
    assert why(known, until, values, now) == cause


def test_what_does_not_move_and_is_not_reported_is_published_before_it_gets_too_old() -> None:
    rare = Cadence(reporting_seconds=7200, force_update_seconds=600)
    assert why(last(), 120, (1000, 0), 1599.0, rare) is None
    assert why(last(), 120, (1000, 0), 1600.0, rare) == "force"


def test_editions_count_from_nothing_what_is_said_again_of_a_window_under_a_generation() -> None:
    before = Published(60, 0.0, "default", 1, 4, ())
    assert before.next_edition(60, "default", 1) == 5
    assert [before.next_edition(*other) for other in ((120, "default", 1), (60, "pool", 1), (60, "default", 2))] == [
        0
    ] * 3


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2), st.sampled_from(["default", "pool"]))
def test_two_publications_of_a_node_never_have_the_same_name(
    until: int, generation: int, edition: int, policy: str
) -> None:
    before = Published(1, 0.0, "default", 1, edition, ())
    after = (until, policy, generation, before.next_edition(until, policy, generation))
    assert after != (before.until, before.policy, before.generation, before.edition)


def living(cadence: Cadence = CADENCE) -> LivingState:
    warm = ModelChoice(settings={"cold_hours": 1, "young_hours": 0})
    policies = PoolPolicies(PoolPolicy(cpu=warm, memory=warm, cadence=cadence))
    return LivingState(MemoryPredictionStore(), PredictionPolicy(model_of, policies, Keeping()))


async def test_a_fleet_that_is_watched_is_published_as_often_as_the_policy_says() -> None:
    state, clock = living(), FakeClock()
    told: Counter[str] = Counter()
    for second in range(600):
        await clock.advance(1)
        if second % 60 == 0:
            number = second // 60
            batch = [window(node, number, {"p": 500}) for node in ("a", "b")]
            await fold_windows(state, [(2 * number + n, event) for n, event in enumerate(batch, start=1)])
        told.update(await publish_predictions(state, clock))
    assert told == {"first": 2, "report": 16}
    assert 0 <= next_check(state, clock) <= CADENCE.check_seconds


async def test_a_surge_is_published_in_the_check_after_it_was_folded() -> None:
    state, clock = living(Cadence(reporting_seconds=3600, check_seconds=20)), FakeClock()
    for number, cpu in enumerate((500, 500, 1500, 1500), start=1):
        await fold_windows(state, [(number, window("a", number, {"p": cpu}))])
        await clock.advance(20)
        await publish_predictions(state, clock)
    store = state.store
    assert isinstance(store, MemoryPredictionStore)
    said = [event.data for event in store.outbox if isinstance(event.data, PeakPredicted)]
    assert [one.cause for one in said] == ["first", "diff"]
    assert said[1].prod_peak.cpu_milli >= 1500
    assert said[1].prod_peak.cpu_milli > said[0].prod_peak.cpu_milli


async def test_a_silent_node_is_not_published_again_even_when_its_pods_are_dropped() -> None:
    state, clock = living(), FakeClock()
    stream = [window("silent", 1, {"p": 500}), *(window("lives", number, {"q": 500}) for number in range(1, 90))]
    told: Counter[str] = Counter()
    for position, event in enumerate(stream, start=1):
        await fold_windows(state, [(position, event)])
        await clock.advance(60)
        await publish_predictions(state, clock)
    store = state.store
    assert isinstance(store, MemoryPredictionStore)
    told.update(event.data.node for event in store.outbox if isinstance(event.data, PeakPredicted))
    assert told == {"silent": 1, "lives": 88}


async def test_a_policy_of_another_generation_counts_at_once_and_names_itself() -> None:
    state, clock = living(), FakeClock()
    await fold_windows(state, [(1, window("a", 1, {"p": 500})), (2, window("a", 2, {"p": 500}))])
    await publish_predictions(state, clock)
    safer = ModelChoice(settings={"cold_hours": 1, "young_hours": 0, "knob": 1.0})
    await state.follow(PoolPolicies(PoolPolicy(cpu=safer, memory=safer, generation=7)))
    assert await publish_predictions(state, clock) == {"diff": 1}
    store = state.store
    assert isinstance(store, MemoryPredictionStore)
    said = [event.data for event in store.outbox if isinstance(event.data, PeakPredicted)]
    assert [one.calibrations["cpu"].generation for one in said] == [0, 7]
    assert said[1].prod_peak.cpu_milli > said[0].prod_peak.cpu_milli
    assert len({event.id for event in store.outbox}) == len(store.outbox) == 6


def test_what_host_applications_use_is_foreseen_with_the_system() -> None:
    apart = window("a", 1, {"p": 500}, system=300, host_apps={("nginx", Tier.PROD): 200, ("yarn", Tier.BATCH): 100})
    assert node_window(apart).system == (600, 3 * 2**30)
    assert node_window(window("a", 1, {"p": 500}, system=300)).system == (300, 2**30)
    unknown = window("a", 1, {}, system=None, host_apps={("nginx", Tier.PROD): 200})
    assert node_window(unknown).system is None, "a part is not the whole"

"""Published peaks during rollouts and of unknown pods: they name the cause and the sum, and can be recomputed."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace

import pytest
from prediction_memory import MemoryPredictionStore
from tests.support.clock import FakeClock
from tests.support.windows import START, window

from slackwater.decisions.record import DecisionRecord
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import Event
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.quantities import Resources
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.ports import DescribedNode
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.partition_store import LivingState, PredictionPolicy
from slackwater.prediction.usecases.publish_predictions import publish_predictions


def asking(event: Event[UsageWindowed], uid: str, cpu_milli: int) -> Event[UsageWindowed]:
    """The same window, in which one pod has asked for something else."""
    pods = tuple(
        replace(one, pod=replace(one.pod, request=Resources(cpu_milli, 2**31))) if one.pod.uid == uid else one
        for one in event.data.pods
    )
    return event.model_copy(update={"data": event.data.model_copy(update={"pods": pods})})


async def told(windows: list[Event[UsageWindowed]], **chosen: object) -> tuple[PeakPredicted, DecisionRecord]:
    """The last prediction, and its record about CPU."""
    store, clock = MemoryPredictionStore(), FakeClock()
    async with store.begin() as transaction:
        await transaction.describe("a", DescribedNode(Resources(8000, 2**34), "default"), START)
    model = ModelChoice(settings={"cold_hours": 1, "young_hours": 0, "knob": 0.1, **chosen})
    cadence = Cadence(check_seconds=1, reporting_seconds=10)
    policies = PoolPolicies(PoolPolicy(cpu=model, memory=model, cadence=cadence, generation=3))
    living = LivingState(store, PredictionPolicy(model_of, policies))
    await living.restore()
    for position, event in enumerate(windows, 1):
        await fold_windows(living, [(position, event)])
        await clock.advance(20)
    await publish_predictions(living, clock)
    peaks = [event.data for event in store.outbox if isinstance(event.data, PeakPredicted)]
    records = [event.data.record for event in store.outbox if isinstance(event.data, DecisionRecorded)]
    record = next(one for one in reversed(records) if one.subject == "prod-cpu-peak")
    module, name = record.replay.function.split(":")
    arguments = json.loads(json.dumps(record.replay.arguments))
    assert getattr(importlib.import_module(module), name)(**arguments) == record.result == peaks[-1].prod_peak.cpu_milli
    assert sum(term.value for term in record.terms) == record.result
    return peaks[-1], record


QUIET = [window("a", number, {"p": 500, "q": 800}) for number in range(1, 6)]


async def test_a_rollout_is_a_term_with_its_workload_and_its_cause() -> None:
    changed = [*QUIET[:3], *(asking(event, "q", 3000) for event in QUIET[3:])]
    peak, record = await told(changed)
    terms = {term.name: term for term in record.terms}
    assert terms["rollout"].value > 0
    assert terms["rollout"].note == "w-q has other requests since 2026-01-05T00:05Z"
    inputs = {each.name: each for each in record.inputs}
    assert inputs["rollout_share"].source == terms["rollout"].note
    assert inputs["rollout_share"].value == pytest.approx(3 / 5)
    overlooked, quiet = await told(changed, rollout_hours=0)
    assert overlooked.prod_peak.cpu_milli == peak.prod_peak.cpu_milli - terms["rollout"].value
    assert "rollout" not in {term.name for term in quiet.terms}


async def test_where_nothing_changes_and_all_are_known_nothing_is_said() -> None:
    _, record = await told(QUIET)
    assert [term.name for term in record.terms][:4] == ["seen_together", "coincidence", "novelty", "noise"]
    assert not {"rollout", "rollout_share", "cold_limits", "cold_stand_in"} & {each.name for each in record.inputs}


@pytest.mark.parametrize(("chosen", "source"), [
    ({}, "the limits of unknown pods"),
    ({"cold_start": "class-prior"}, "class priors, shares of the limit: none known yet: the limit"),
])  # fmt: skip
async def test_what_stands_in_for_the_unknown_is_among_the_inputs(chosen: dict[str, object], source: str) -> None:
    peak, record = await told(QUIET, cold_hours=24, **chosen)
    inputs = {each.name: each for each in record.inputs}
    assert (inputs["cold_limits"].value, inputs["cold_stand_in"].value) == (4000, 4000)
    assert inputs["cold_stand_in"].source == source
    assert inputs["cold_stand_in"].unit == "milli-cores"
    assert peak.cold_start_share == 1.0
    assert all(pod.cold_start for pod in peak.pods)

"""Windows that cannot be folded cost themselves: the state is that of a stream without them, to the last bit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prediction_memory import MemoryPredictionStore
from tests.support.bus import MemoryBus
from tests.support.windows import usage, window

from slackwater.events.envelope import Event
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.model.quantities import Resources
from slackwater.prediction.adapters.predictors.registry import model_of
from slackwater.prediction.domain.pod_table import PodModels
from slackwater.prediction.domain.policy import Cadence, ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.snapshot import encode
from slackwater.prediction.edge.events import WindowsOf
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.partition_store import LivingState, PredictionPolicy

MODEL = ModelChoice(settings={"cold_hours": 1, "young_hours": 0})
POLICY = PredictionPolicy(
    model_of, PoolPolicies(PoolPolicy(cpu=MODEL, memory=MODEL, cadence=Cadence(histogram_update_seconds=30)))
)
HUGE = 10**400


def huge_request(event: Event[UsageWindowed]) -> Event[UsageWindowed]:
    first, *others = event.data.pods
    spoilt = replace(first, pod=replace(first.pod, request=Resources(HUGE, 2**70)))
    return changed(event, pods=(spoilt, *others))


def changed(event: Event[UsageWindowed], **fields: object) -> Event[UsageWindowed]:
    return event.model_copy(update={"data": event.data.model_copy(update=fields)})


SPOILT = {
    "request": huge_request,
    "usage": lambda event: changed(event, node_usage=replace(usage(1), cpu_p90_milli=HUGE)),
    "lasts for ever": lambda event: changed(event, window_seconds=HUGE),
    "before 1970": lambda event: changed(event, window_start=datetime(1, 1, 1, tzinfo=UTC)),
    "year 10000": lambda event: changed(event, window_seconds=2**60),
}


def living() -> LivingState:
    return LivingState(MemoryPredictionStore(), POLICY)


def state_of(state: LivingState) -> bytes:
    return encode(state.models, 0).body


async def replayed(events: list[Event[UsageWindowed]]) -> tuple[LivingState, MemoryBus, list[int]]:
    """All of them in one batch, through the bus in memory."""
    state, bus, folded = living(), MemoryBus(), []
    for event in events:
        await bus.publish(event)
    async with bus.replay(UsageWindowed, WindowsOf(state, folded.append), after_sequence=0):
        await bus.idle()
    return state, bus, folded


STREAM = [window(node, number, {"p": 500 + number, "q": 100}) for number in range(6) for node in ("a", "b")]


@pytest.mark.parametrize("kind", SPOILT)
@settings(max_examples=8, deadline=None)
@given(st.sets(st.integers(0, len(STREAM) - 1), min_size=1, max_size=4))
def test_a_batch_with_windows_that_cannot_be_folded_leaves_the_state_of_the_others(kind: str, at: set[int]) -> None:
    spoilt = [SPOILT[kind](event) if place in at else event for place, event in enumerate(STREAM)]
    good = [(place + 1, event) for place, event in enumerate(STREAM) if place not in at]

    async def compare() -> None:
        alone = living()
        await fold_windows(alone, good)
        state, bus, folded = await replayed(spoilt)
        assert state_of(state) == state_of(alone)
        assert sum(folded) == len(good)
        assert [letter.reason for letter in bus.dead_letters] == ["invalid_payload"] * len(at)
        assert [letter.stream_sequence - 1 for letter in bus.dead_letters] == sorted(at)

    asyncio.run(compare())


@pytest.mark.parametrize("node", ["a", "new"])
async def test_a_defect_in_the_middle_of_a_window_makes_no_duplicate_of_it(
    node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = window(node, 7, {"p": 700})
    whole, fails = PodModels.apply_window, []

    def failing(self: PodModels, number: int, *rest: object, **named: object) -> None:
        if fails and len(fails) == 2:  # the pods are taken, the node as a whole is not
            fails.clear()
            raise ZeroDivisionError("defect")
        if fails:
            fails.append(number)
        whole(self, number, *rest, **named)  # type: ignore[arg-type]  # as it was called

    undisturbed, state = living(), living()
    for each in (undisturbed, state):
        await fold_windows(each, list(enumerate(STREAM, start=1)))
    await fold_windows(undisturbed, [(20, last)])
    monkeypatch.setattr(PodModels, "apply_window", failing)
    fails.append(0)
    with pytest.raises(ZeroDivisionError):
        await fold_windows(state, [(20, last)])
    assert await fold_windows(state, [(20, last)]) == 1
    for each in (undisturbed, state):
        each.models.fold(each.models.pool("default"))  # two reports of a slot count once
    assert state.models.nodes[node].taken == undisturbed.models.nodes[node].taken
    assert state.models.series == undisturbed.models.series
    if node == "a":  # the members of a node that was entered twice have other numbers
        assert state_of(state) == state_of(undisturbed)

"""A node that cannot be predicted, or whose prediction cannot be stored, is set aside; the others are published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from prediction_memory import MemoryPredictionStore
from test_cadence import living
from tests.support.clock import FakeClock
from tests.support.windows import window

from slackwater.events.envelope import Event
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.model.errors import InvalidInput
from slackwater.prediction.usecases import publish_predictions as publishing
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.partition_store import LivingState
from slackwater.prediction.usecases.publish_predictions import publish_predictions

NODES = ("a", "b", "c")


async def with_windows() -> LivingState:
    state = living()
    windows = [window(node, minute, {"p": 500}) for minute in (1, 2) for node in NODES]
    await fold_windows(state, list(enumerate(windows, 1)))
    return state


def told(state: LivingState) -> list[str]:
    assert isinstance(state.store, MemoryPredictionStore)
    return sorted(event.data.node for event in state.store.outbox if isinstance(event.data, PeakPredicted))


async def test_a_node_that_cannot_be_predicted_costs_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    predict = publishing._prediction

    def failing(state: LivingState, due: Any, place: int, now: Any) -> Any:
        if due.nodes[place][0].name == "b":
            raise OverflowError("cannot convert float infinity to integer")
        return predict(state, due, place, now)

    monkeypatch.setattr(publishing, "_prediction", failing)
    state, clock = await with_windows(), FakeClock()
    assert await publish_predictions(state, clock) == {"first": 2}
    assert told(state) == ["a", "c"]
    assert list(state.quarantine.nodes) == ["b"]
    assert await publish_predictions(state, clock) == {}


async def test_a_prediction_that_cannot_be_stored_costs_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = LivingState.publish

    async def refusing(state: LivingState, events: Sequence[Event[Any]], published: Mapping[str, Any]) -> None:
        if "b" in published:
            raise InvalidInput("value out of range for type bigint")
        await publish(state, events, published)

    monkeypatch.setattr(LivingState, "publish", refusing)
    state = await with_windows()
    assert await publish_predictions(state, FakeClock()) == {"first": 2}
    assert told(state) == ["a", "c"]
    assert list(state.quarantine.nodes) == ["b"]

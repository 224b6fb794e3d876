from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.edge.events import routes
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.envelope import Event, Payload
from slackwater.testing.bus import MemoryBus
from slackwater.testing.clock import EPOCH, FakeClock
from slackwater.testing.story import story

sys.path.insert(0, str(Path(__file__).parents[1] / "charts"))

NOW = EPOCH + timedelta(hours=10)


@cache
def _by_type() -> dict[type[Payload], list[Event[Any]]]:
    found = defaultdict(list)
    for event in story(NOW):
        found[type(event.data)].append(event)
    return dict(found)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def streams(clock: FakeClock) -> Streams:
    return Streams(MemoryBus(clock=clock), clock)


@pytest.fixture
def model() -> MemoryReadModel:
    return MemoryReadModel()


@pytest.fixture
def record(model: MemoryReadModel, clock: FakeClock) -> RecordEvents:
    days = timedelta(days=1)
    return RecordEvents(model, clock, usage_retention=days, decision_retention=days)


def _after_the_story() -> MemoryReadModel:
    model = MemoryReadModel()
    days = timedelta(days=1)
    recorder = RecordEvents(model, FakeClock(NOW), usage_retention=days, decision_retention=days)
    handlers = routes(recorder)
    for payload, events in _by_type().items():
        with pytest.raises(StopIteration):  # it waits for nothing, so one step runs it to its end
            handlers[payload](events).__await__().__next__()
    return model


@pytest.fixture(scope="session")
def told() -> Iterator[MemoryReadModel]:
    """The read model after the whole story; tests only read it."""
    model = _after_the_story()
    before = _counts(model)
    yield model
    assert _counts(model) == before, "a test wrote into the read model that all share: give it told_anew"


@pytest.fixture
def told_anew() -> MemoryReadModel:
    """The same for a test that goes on from there."""
    return _after_the_story()


def _counts(model: MemoryReadModel) -> Any:
    with pytest.raises(StopIteration) as ended:
        model.counts().__await__().__next__()
    return ended.value.value

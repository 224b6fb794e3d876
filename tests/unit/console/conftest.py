from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from slackwater.console.adapters.feed import LocalFeed
from slackwater.console.adapters.memory import MemoryReadModel
from slackwater.console.edge.events import routes
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.testing.clock import EPOCH, FakeClock
from slackwater.testing.story import story

NOW = EPOCH + timedelta(hours=10)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def feed() -> LocalFeed:
    return LocalFeed()


@pytest.fixture
def model() -> MemoryReadModel:
    return MemoryReadModel()


@pytest.fixture
def record(model: MemoryReadModel, feed: LocalFeed, clock: FakeClock) -> RecordEvents:
    days = timedelta(days=1)
    return RecordEvents(model, feed, clock, usage_retention=days, decision_retention=days)


@pytest.fixture
async def told(record: RecordEvents, model: MemoryReadModel) -> MemoryReadModel:
    """The read model after the whole story."""
    handlers = routes(record)
    events: list[Any] = story(NOW)
    for event in events:
        await handlers[type(event.data)]([event])
    return model

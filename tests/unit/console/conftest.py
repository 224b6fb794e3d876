from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import story

from slackwater.console.edge.events import routes
from slackwater.console.edge.stream import Streams
from slackwater.console.service import routers_of
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.envelope import Event, Payload
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings

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


async def _no_checks() -> list[Any]:
    return []


@pytest.fixture(scope="session")
def told_app(told: MemoryReadModel) -> FastAPI:
    """The console after the whole story. Building it takes longer than most tests that read it."""
    clock = FakeClock(NOW)
    streams = Streams(MemoryBus(clock=clock), clock)
    return build_app(routers_of(told, streams, clock), _no_checks, HttpSettings(host="127.0.0.1", port=0))


@pytest.fixture
async def told_client(told_app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of that console; tests only read it."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(told_app), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def told_anew() -> MemoryReadModel:
    """The same for a test that goes on from there."""
    return _after_the_story()


def _counts(model: MemoryReadModel) -> Any:
    with pytest.raises(StopIteration) as ended:
        model.counts().__await__().__next__()
    return ended.value.value

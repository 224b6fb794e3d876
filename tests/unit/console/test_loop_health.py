"""The control loop's own health: durations, processes, and pages that say what is unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest
from console_app import console_app
from hypothesis import given
from hypothesis import strategies as st
from test_drawings import assert_inside
from tests.support.broker_admin import MemoryAdmin
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.bus.admin.broker_admin import ClosedAdmin, admin_of
from slackwater.charts.latency_chart import BINS, DurationSpread, bins, height_of, latency_chart, percentile, position
from slackwater.charts.svg import Frame
from slackwater.console.domain.loop import CheckView, ProcessView, ServiceView, limited_rows, service_rows
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.loop_page import loop_page
from slackwater.model.errors import Unavailable
from slackwater.model.limited_resource import Limited, LimitedResource
from slackwater.runtime.service_list import service_names

NOW = EPOCH + timedelta(hours=10)
durations = st.lists(st.floats(0, 1000), max_size=60)


@given(durations, st.floats(0, 1))
def test_a_percentile_is_one_of_the_values_and_not_exceeded_by_that_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    if not values:
        assert found is None
        return
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9


@given(durations)
def test_a_histogram_loses_no_duration_and_stays_in_its_picture(values: list[float]) -> None:
    assert sum(bins(values)) == len(values)
    assert len(bins(values)) == BINS
    spreads = [DurationSpread("a", "one <way>", tuple(values)), DurationSpread("b", "two", ())]
    for width in (580, 360):
        assert_inside(latency_chart(Frame(width, height_of(2), left=34, right=6), spreads, "spread"))


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_longer_is_never_further_left(one: float, other: float) -> None:
    assert (position(min(one, other)) <= position(max(one, other))) is True
    assert 0 <= position(one) <= 1


def process(instance: str, age: float, *services: ServiceView) -> ProcessView:
    return ProcessView(instance, "1", EPOCH, NOW - timedelta(seconds=age), 5.0, services)


def service(name: str, state: str = "running", ok: bool = True) -> ServiceView:
    return ServiceView(name, state, 0, "", (CheckView("bus", ok, ""),), 0, 0.0, 0)


def test_every_service_is_shown_with_its_health() -> None:
    processes = [
        process("a", 1, service("ingestion"), service("console", ok=False)),
        process("b", 60, service("ingestion"), service("prediction")),
        process("c", 2, service("ensurance", state="pausing")),
    ]
    found = [(row.name, row.word) for row in service_rows(processes, sorted(service_names()), NOW)]
    assert found == [
        ("colocation", "unknown"),
        ("console", "unwell"),
        ("descheduler", "unknown"),
        ("ensurance", "pausing"),
        ("ingestion", "running"),
        ("migration", "unknown"),
        ("prediction", "silent"),
        ("quota", "unknown"),
    ]


def limited(age: float, instance: str, *found: LimitedResource) -> ProcessView:
    return replace(process(instance, age), limited=found)


def test_what_all_processes_share_is_listed_once_as_last_reported_and_the_fullest_first() -> None:
    processes = [
        limited(1, "a", LimitedResource(Limited.STREAM, "DECISIONS", 9, 10), LimitedResource(Limited.POOL, "x", 1, 6)),
        limited(3, "b", LimitedResource(Limited.STREAM, "DECISIONS", 5, 10), LimitedResource(Limited.POOL, "x", 7, 6)),
        limited(60, "silent", LimitedResource(Limited.POOL, "y", 7, 6)),
    ]
    found = [(row.instance, row.resource.label, row.resource.used) for row in limited_rows(processes, NOW)]
    assert found == [("b", "pool-x", 7), ("", "stream-DECISIONS", 9), ("a", "pool-x", 1)]


async def test_the_page_shows_what_is_nearly_full_with_its_remedy(
    told: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    app = console_app(told, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        calm = (await client.get("/loop")).text
        (harbour,) = await told.processes()
        filling = LimitedResource(Limited.STREAM, "DECISIONS", 900, 1000)
        await told.save_processes([replace(harbour, limited=(filling,))])
        warned = (await client.get("/loop")).text
    assert "No stream, disk, pool or process is near its limit." in calm
    assert "stream-DECISIONS: nearly full: 900.0 of 1000.0 bytes (90 %); raise max_bytes" in warned


async def test_the_times_of_the_story_are_those_of_its_actions(told: MemoryReadModel) -> None:
    page = await loop_page(told, MemoryAdmin(MemoryBus(clock=FakeClock(NOW)).broker), NOW)
    assert page.actions == 5
    assert page.spreads[0].p50 == pytest.approx(0.05)
    assert page.effect.p99 == pytest.approx(0.4)
    assert {row.word for row in page.services} == {"running"}
    assert page.outbox is not None
    assert len(page.broker.consumers) > 10


async def test_what_the_broker_does_not_say_is_unknown_and_the_rest_is_shown(told: MemoryReadModel) -> None:
    page = await loop_page(told, ClosedAdmin(), NOW)
    assert page.broker.error
    assert page.actions == 5


async def test_a_bus_without_a_desk_has_a_closed_one() -> None:
    with pytest.raises(Unavailable):
        await admin_of(object()).letter_count()

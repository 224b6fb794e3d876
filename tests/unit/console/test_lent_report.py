"""The report of how offers are used: it agrees with the level, names pods, and says why nothing is offered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest_asyncio
from prometheus_client import CollectorRegistry
from served import END, record_all
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import story

from slackwater.console.domain.fleet import FRESH
from slackwater.console.metrics import ConsoleMetrics
from slackwater.console.usecases.fleet_level import FleetLevelRecorder
from slackwater.console.usecases.lent_report import NAMED_PODS, lent_report
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.model.quantities import Resources
from slackwater.telemetry.metrics import Meters

LATER = END + timedelta(minutes=1)


@pytest_asyncio.fixture
async def model() -> MemoryReadModel:
    model = MemoryReadModel()
    month = timedelta(days=30)
    record = RecordEvents(model, FakeClock(END), usage_retention=month, decision_retention=month)
    await record_all(record, story(END))
    return model


async def test_the_report_agrees_with_the_level(model: MemoryReadModel) -> None:
    report, level = await lent_report(model, END), await model.level(END, END - FRESH)
    assert (report.lent, report.borrowed, report.beyond) == (level.offered, level.borrowed, level.beyond)
    assert report.borrowed == report.borrowed.smaller_of(report.lent)
    assert (report.why, report.no_offer) == ("", {})


async def test_pods_beyond_a_withdrawn_offer_are_named(model: MemoryReadModel) -> None:
    nodes = await model.nodes()
    offers = [
        replace(node.offer, event_id=node.name, generation=999, batch=Resources()) for node in nodes if node.offer
    ]
    await model.save_offers([replace(offer, offered_at=LATER) for offer in offers])
    report = await lent_report(model, END)
    assert report.borrowed == Resources()
    assert report.exceeding
    assert sum((one.beyond for one in report.exceeding), Resources()) == report.beyond
    for one in report.exceeding:
        names = {pod.name for pod in await model.pods(one.node) if pod.tier in ("batch", "free")}
        assert 0 < len(one.pods) <= NAMED_PODS
        assert set(one.pods) <= names
    assert report.why.startswith("no CPU is offered: ")
    assert sum(report.no_offer.values()) == len(nodes)


async def test_what_is_used_beyond_offers_is_measured_with_every_level(model: MemoryReadModel) -> None:
    registry = CollectorRegistry()
    meter = ConsoleMetrics(Meters(registry))
    await FleetLevelRecorder(model, FakeClock(END), meter.level)()
    level = await model.level(END, END - FRESH)
    for result, part in (("within", level.borrowed), ("beyond", level.beyond)):
        cores = registry.get_sample_value("slackwater_borrowed_cpu_cores", {"result": result})
        memory = registry.get_sample_value("slackwater_borrowed_memory_bytes", {"result": result})
        assert (cores, memory) == (part.cpu_milli / 1000, part.memory_bytes)
    assert level.beyond.cpu_milli > 0

"""A process tells how its services fare; what cannot be asked is left unknown, and a broker that is away is no harm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from fastapi import APIRouter
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock

from slackwater.events.health_reported import HealthReported
from slackwater.model.errors import Unavailable
from slackwater.model.limited_resource import Limited, LimitedResource
from slackwater.runtime import health_reports
from slackwater.runtime.health_reports import INTERVAL_SECONDS, HealthReports
from slackwater.runtime.ownership import LeaseRow, MemberView
from slackwater.runtime.service import Check
from slackwater.runtime.supervisor import State, Supervised


@dataclass
class Plain:
    name: str
    breaks: bool = False

    async def run(self, started: Callable[[], None]) -> None:
        started()

    async def checks(self) -> Sequence[Check]:
        if self.breaks:
            raise Unavailable("PostgreSQL is away")
        return [Check(f"{self.name}-bus", True, "fine")]

    def routers(self) -> Sequence[APIRouter]:
        return ()


@dataclass(frozen=True)
class Numbers:
    depth: int = 3
    oldest_age_seconds: float = 0.25
    refused: int = 1


async def outbox(service: str) -> Numbers | None:
    if service == "broken":
        raise Unavailable("PostgreSQL is away")
    return Numbers() if service == "ingestion" else None


def watching(bus: MemoryBus, clock: FakeClock, *services: Supervised) -> HealthReports:
    reports = HealthReports(bus, clock, outbox)
    reports.watch([Supervised(reports, State.RUNNING), *services])
    return reports


async def test_a_report_holds_every_service_but_itself() -> None:
    clock = FakeClock()
    bus = MemoryBus(clock=clock)
    pausing = Supervised(Plain("console"), State.PAUSING, restarts=2, last_error="it fell")
    running, broken = Supervised(Plain("ingestion"), State.RUNNING), Supervised(Plain("broken", True), State.RUNNING)
    await watching(bus, clock, running, pausing, broken).report()
    (event,) = bus.published
    data = event.data
    assert isinstance(data, HealthReported)
    ingestion, console, away = data.services
    assert (ingestion.outbox_depth, ingestion.outbox_oldest_seconds, ingestion.outbox_refused) == (3, 0.25, 1)
    assert [check.name for check in ingestion.checks] == ["ingestion-bus"]
    assert (console.state, console.restarts, console.last_error, console.checks) == ("pausing", 2, "it fell", ())
    assert console.outbox_depth is None
    assert (away.checks[0].ok, away.outbox_depth) == (False, None)


async def test_a_report_says_how_far_limits_are_used() -> None:
    clock = FakeClock()
    bus = MemoryBus(clock=clock)
    limited = [LimitedResource(Limited.STREAM, "DECISIONS", 9, 10)]
    await HealthReports(bus, clock, outbox, lambda: limited).report()
    (event,) = bus.published
    assert isinstance(event.data, HealthReported)
    (told,) = event.data.limited
    assert (told.kind, told.name, told.used, told.limit) == ("stream", "DECISIONS", 9, 10)


async def test_a_service_that_does_not_answer_delays_no_report_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sessions may all be in use. A late report would make every service of the process silent."""
    monkeypatch.setattr(health_reports, "ASK_SECONDS", 0.01)

    class Hanging(Plain):
        async def checks(self) -> Sequence[Check]:
            await asyncio.Event().wait()
            return ()

    clock = FakeClock()
    bus = MemoryBus(clock=clock)
    hanging, fine = Supervised(Hanging("quota"), State.RUNNING), Supervised(Plain("ingestion"), State.RUNNING)
    await watching(bus, clock, hanging, fine).report()
    (event,) = bus.published
    assert isinstance(event.data, HealthReported)
    quota, ingestion = event.data.services
    assert [(check.ok, check.detail) for check in quota.checks] == [(False, "no answer within 0.01 s")]
    assert (ingestion.outbox_depth, ingestion.checks[0].ok) == (3, True)


@dataclass
class Shared(Plain):
    def standing(self) -> MemberView | None:
        return MemberView("a/1", 2, (LeaseRow(0, "a/1", 17, EPOCH), LeaseRow(1, None, 0)))


async def test_of_a_sharded_service_it_shows_the_owner_of_each_partition() -> None:
    clock = FakeClock()
    bus = MemoryBus(clock=clock)
    await watching(bus, clock, Supervised(Shared("ingestion"), State.RUNNING)).report()
    (event,) = bus.published
    assert isinstance(event.data, HealthReported)
    (told,) = event.data.services
    assert (told.member, told.members) == ("a/1", 2)
    assert [(lease.partition, lease.owner, lease.epoch, lease.since) for lease in told.leases] == [
        (0, "a/1", 17, EPOCH),
        (1, None, 0, None),
    ]


async def test_it_reports_again_and_again_also_after_the_broker_was_away() -> None:
    clock = FakeClock()
    bus = MemoryBus(clock=clock)
    bus.broker.away = True
    running = asyncio.create_task(watching(bus, clock, Supervised(Plain("ingestion"), State.RUNNING)).run(lambda: None))
    await clock.advance(INTERVAL_SECONDS)
    assert bus.published == []
    bus.broker.away = False
    await clock.advance(INTERVAL_SECONDS)
    await clock.advance(INTERVAL_SECONDS)
    assert len(bus.published) == 2
    running.cancel()
    await asyncio.wait([running])

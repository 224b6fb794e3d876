"""A batch of reports that fails after its commit: alone, each is known as one that was committed, and is no replay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ingestion_world import World
from tests.support.reports import received, report

from slackwater.bus.consume.handlers import Verdicts
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Done, Received
from slackwater.events.usage_reported import UsageReported
from slackwater.ingestion.domain.validation import ReportLimits
from slackwater.ingestion.usecases.accept_reports import AcceptReports


async def test_what_fails_after_the_commit_makes_no_replays_of_honest_reports() -> None:
    world, failures = World(), [RuntimeError("defect after the commit")]

    def took(batch: Sequence[Received[UsageReported]], at: datetime) -> None:
        if failures:
            raise failures.pop()

    accept = AcceptReports(
        world.database, world.books.ledgers(), world.clock, ReportLimits(30, 900), world.meter, took=took
    )
    counters = Counters()
    handler = Verdicts("ingestion-usage-reported", accept, counters)
    batch = [received(report(node, 1, world.clock.now())) for node in ("a", "b", "c")]
    assert await handler(batch) == [Done()] * 3
    assert counters.handler_failures == 1
    assert [await world.report(2, node) for node in ("a", "b", "c")] == [Done()] * 3

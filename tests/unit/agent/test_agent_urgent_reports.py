"""Urgent reports leave twice: in the queue of all reports, and at once beside it, where nothing is kept for later."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.support.clock import FakeClock
from tests.support.reports import report

from slackwater.agent.edge.send_queue import Outgoing
from slackwater.agent.edge.urgent_reports import AT_ONCE, UrgentReports
from slackwater.events.envelope import Event, event_of
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed, crossing_of
from slackwater.model.errors import Unavailable

NOW = datetime(2026, 1, 5, tzinfo=UTC)


class Line:
    """A bus that answers when the test lets it, by type of event."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Event[Any], asyncio.Future[None]]] = []

    async def publish(self, event: Event[Any]) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((event, answer))
        try:
            await answer
        finally:
            self.waiting.remove((event, answer))

    def under_way(self, payload: type[UsageReported]) -> list[int]:
        return [event.data.sequence for event, _ in self.waiting if type(event.data) is payload]

    async def answer(self, payload: type[UsageReported], *, lost: bool = False) -> None:
        for event, future in list(self.waiting):
            if type(event.data) is payload:
                if lost:
                    future.set_exception(Unavailable("the test cuts the line"))
                else:
                    future.set_result(None)
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def urgent(number: int) -> Event[UsageReported]:
    data = report("n", number, NOW).model_copy(update={"trigger": "waterline"})
    return event_of(data, source="agent/n", time=NOW)


def crossing(number: int) -> Event[WaterlineCrossed]:
    found = crossing_of(urgent(number))
    assert found is not None
    return found


async def test_an_urgent_report_overtakes_those_that_wait_and_is_among_them_too() -> None:
    line = Line()
    outgoing = Outgoing(line, FakeClock(), 24)  # type: ignore[arg-type] # publish is all it uses
    running = asyncio.create_task(outgoing.run())
    for number in range(1, 8):
        outgoing.report(event_of(report("n", number, NOW), source="agent/n", time=NOW))
    outgoing.report(urgent(8))
    await settle()
    assert line.under_way(WaterlineCrossed) == [8]
    assert 8 not in line.under_way(UsageReported)
    told = [event.data.sequence for event, _ in line.waiting]
    for _ in range(3):
        await line.answer(UsageReported)
        told += line.under_way(UsageReported)
    assert sorted(set(told)) == list(range(1, 9))
    running.cancel()
    await asyncio.wait({running})
    assert line.waiting == []


async def test_no_more_than_a_few_are_under_way_and_of_those_that_wait_the_newest_goes() -> None:
    line = Line()
    urgent = UrgentReports(line)  # type: ignore[arg-type] # publish is all it uses
    for number in range(1, AT_ONCE + 4):
        urgent.send(crossing(number))
    await settle()
    assert line.under_way(WaterlineCrossed) == list(range(1, AT_ONCE + 1))
    await line.answer(WaterlineCrossed)
    assert line.under_way(WaterlineCrossed) == [AT_ONCE + 3]
    await urgent.close()
    assert line.waiting == []


async def test_a_failed_urgent_report_is_not_published_again_and_the_next_is() -> None:
    line = Line()
    outgoing = Outgoing(line, FakeClock(), 24)  # type: ignore[arg-type] # publish is all it uses
    outgoing.report(urgent(1))
    await settle()
    await line.answer(WaterlineCrossed, lost=True)
    assert line.waiting == []
    assert not outgoing.away  # that is said by the queue, which tries again
    assert len(outgoing) == 1
    outgoing.report(urgent(2))
    await settle()
    assert line.under_way(WaterlineCrossed) == [2]
    await line.answer(WaterlineCrossed)

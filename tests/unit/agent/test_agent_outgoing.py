"""What leaves the agent: facts in order, reports a few at once when the line is long, none lost while there is room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from tests.support.clock import FakeClock
from tests.support.reports import described, report

from slackwater.agent.edge.send_queue import AT_ONCE, Outgoing
from slackwater.events.envelope import Event, event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput, Unavailable

NOW = datetime(2026, 1, 5, tzinfo=UTC)


class Line:
    """A bus whose answers come when the test lets them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Event[Any], asyncio.Future[None]]] = []
        self.stored: list[Event[Any]] = []

    async def publish(self, event: Event[Any]) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((event, answer))
        await answer
        self.stored.append(event)

    def answer(self, *, lost: bool = False) -> None:
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if lost:
                future.set_exception(Unavailable("the test cuts the line"))
            else:
                future.set_result(None)

    @property
    def under_way(self) -> list[int]:
        return [event.data.sequence for event, _ in self.waiting if isinstance(event.data, UsageReported)]

    @property
    def numbers(self) -> list[int]:
        return [event.data.sequence for event in self.stored if isinstance(event.data, UsageReported)]


@asynccontextmanager
async def going(line: Line, clock: FakeClock, capacity: int = 24) -> AsyncIterator[Outgoing]:
    outgoing = Outgoing(line, clock, capacity)  # type: ignore[arg-type] # publish is all it uses
    task = asyncio.create_task(outgoing.run())
    try:
        yield outgoing
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def one(number: int) -> Event[UsageReported]:
    return event_of(report("n", number, NOW), source="agent/n", time=NOW)


def fact() -> Event[NodeDescribed]:
    return event_of(described("n", NOW, cpu_milli=1000), source="agent/n", time=NOW)


async def test_a_report_goes_out_alone_and_the_next_one_with_it_when_it_has_to_wait() -> None:
    line = Line()
    async with going(line, FakeClock()) as outgoing:
        outgoing.report(one(1))
        await settle()
        assert line.under_way == [1]
        for number in range(2, 10):
            outgoing.report(one(number))
        await settle()
        assert line.under_way == list(range(1, AT_ONCE + 1))
        for _ in range(4):
            line.answer()
            await settle()
    assert line.numbers == list(range(1, 10))
    assert len(outgoing) == 0


async def test_facts_go_one_after_the_other_and_a_single_report_waits_for_them() -> None:
    line = Line()
    async with going(line, FakeClock()) as outgoing:
        first, second = fact(), fact()
        outgoing.fact("first", first)
        outgoing.fact("second", second)
        outgoing.report(one(1))
        await settle()
        assert [event for event, _ in line.waiting] == [first]
        line.answer()
        await settle()
        assert [event for event, _ in line.waiting] == [second]
        line.answer()
        await settle()
        line.answer()
        await settle()
    assert line.stored[:2] == [first, second]
    assert line.numbers == [1]


async def test_reports_do_not_wait_for_a_fact_when_they_fall_behind() -> None:
    line = Line()
    async with going(line, FakeClock()) as outgoing:
        outgoing.fact("first", fact())
        outgoing.report(one(1))
        outgoing.report(one(2))
        await settle()
        assert line.under_way == [1, 2]
        line.answer()


async def test_what_a_cut_took_goes_again_in_order_one_at_a_time_until_the_bus_is_back() -> None:
    line, clock = Line(), FakeClock()
    async with going(line, clock) as outgoing:
        for number in range(1, 4):
            outgoing.report(one(number))
        await settle()
        line.answer(lost=True)
        await settle()
        assert outgoing.away
        assert line.under_way == []  # it pauses
        await clock.advance(0.2)
        await settle()
        assert line.under_way == [1]
        line.answer()
        await settle()
        assert not outgoing.away
        line.answer()
        await settle()
        line.answer()
        await settle()
    assert line.numbers == [1, 2, 3]


async def test_a_full_buffer_drops_the_oldest_and_counts_it() -> None:
    line = Line()
    async with going(line, FakeClock(), capacity=2) as outgoing:
        for number in range(1, 6):
            outgoing.report(one(number))
        assert outgoing.dropped == 3
        await settle()
        assert line.under_way == [4, 5]
        line.answer()
        await settle()
    assert line.numbers == [4, 5]


async def test_what_is_under_way_when_it_stops_is_flushed_after_all() -> None:
    line = Line()
    async with going(line, FakeClock()) as outgoing:
        outgoing.report(one(1))
        outgoing.report(one(2))
        await settle()
    line.waiting.clear()
    flushing = asyncio.create_task(outgoing.flush())
    for _ in range(2):
        await settle()
        line.answer()
    await flushing
    assert line.numbers == [1, 2]


async def test_what_the_bus_can_never_take_is_dropped_and_the_others_go() -> None:
    line, tried = Line(), list[int]()

    async def publish(event: Event[Any]) -> None:
        tried.append(getattr(event.data, "sequence", 0))
        assert len(tried) < 50, "it tries again and again"
        if getattr(event.data, "sequence", 0) in (0, 2):
            raise InvalidInput("1200000 bytes, NATS takes 1048576", code="message_too_large")
        line.stored.append(event)

    line.publish = publish  # type: ignore[method-assign]
    async with going(line, FakeClock()) as outgoing:
        outgoing.fact("described", fact())
        for number in (1, 2, 3):
            outgoing.report(one(number))
        await settle()
        assert line.numbers == [1, 3]
        assert (len(outgoing), outgoing.dropped, outgoing.away) == (0, 1, False)
    assert sorted(tried) == [0, 1, 2, 3]


async def test_a_fact_that_the_bus_does_not_take_holds_up_neither_reports_nor_other_facts() -> None:
    """As where the accounts of a broker are older than its agents."""
    line, clock = Line(), FakeClock()

    async def publish(event: Event[Any]) -> int:
        if event is refused:
            await clock.sleep(5)
            raise Unavailable("no confirmation within 5 s")
        line.stored.append(event)
        return 1

    line.publish = publish  # type: ignore[method-assign]
    refused, other = fact(), fact()
    async with going(line, clock) as outgoing:
        outgoing.fact("refused", refused)
        outgoing.fact("other", other)
        for second in range(1, 61):
            if second % 5 == 0:
                outgoing.report(one(second // 5))
            await clock.advance(1)
            await settle()
        assert line.numbers == list(range(1, len(line.numbers) + 1))
        assert len(line.numbers) >= 10
        assert other in line.stored
        assert outgoing.dropped == 0

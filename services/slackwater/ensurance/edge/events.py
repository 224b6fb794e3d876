"""Which event leads to which use case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from slackwater.bus.deferring import DeferredReader
from slackwater.bus.port import Bus, Consumption, Holds, Received, Retry, Settlement, each
from slackwater.ensurance.usecases.book import Book
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.note_described import NoteDescribed
from slackwater.ensurance.usecases.note_evicted import NoteEvicted
from slackwater.ensurance.usecases.note_observed import NoteObserved
from slackwater.events.envelope import Event, Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed, report_of
from slackwater.model.errors import Conflict

P = TypeVar("P", bound=Payload)

USAGE_CONSUMER, URGENT_CONSUMER = "ensurance-usage-reported", "ensurance-waterline-crossed"
REPORTS_AT_ONCE = 1000
"""As many as the broker hands out: of those of one node only the newest is read."""


def settling(use_case: Callable[[Event[P]], Awaitable[None]]) -> Callable[[Received[P]], Awaitable[Settlement | None]]:
    """A conflict means that somebody else wrote meanwhile: what he wrote is read before the next try."""

    async def handle(received: Received[P]) -> Settlement | None:
        try:
            await use_case(received.event)
        except Conflict as error:
            return Retry(error.message, delay_seconds=0.05)
        return None

    return handle


async def consume_all(
    stack: AsyncExitStack,
    bus: Bus,
    holds: Holds,
    book: Book,
    guard: GuardNode,
    described: NoteDescribed,
    seen: NoteObserved,
    evicted: NoteEvicted,
) -> list[Consumption]:
    """Open every consumer on `stack`, reading nothing yet; nodes first, so that their reports find them known."""

    guarding = settling(guard)

    async def reported(received: Received[UsageReported]) -> Settlement | None:
        verdict = await guarding(received)
        if verdict is None:
            book.positions.record(received.subject_key, received.stream_sequence)
        return verdict

    async def urgent(crossing: Event[WaterlineCrossed]) -> None:
        await guard(report_of(crossing))

    nodes = bus.consume(NodeDescribed, "ensurance-node-described", each(settling(described)), holds=holds)
    observations = bus.consume(IntentObserved, "ensurance-intent-observed", each(settling(seen)), holds=holds)
    evictions = bus.consume(EvictionCompleted, "ensurance-eviction-completed", each(settling(evicted)), holds=holds)
    reports = bus.consume(
        UsageReported, USAGE_CONSUMER, each(reported), batch=REPORTS_AT_ONCE, holds=holds, read=DeferredReader()
    )
    crossings = bus.consume(WaterlineCrossed, URGENT_CONSUMER, each(settling(urgent)), holds=holds)
    consumers = nodes, observations, evictions, crossings, reports
    return [await stack.enter_async_context(consumer) for consumer in consumers]

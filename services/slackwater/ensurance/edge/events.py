"""Which event leads to which use case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from slackwater.bus.consume.handlers import Consumer, Each, all_or_split, each
from slackwater.bus.port import Received
from slackwater.ensurance.usecases.answer_reclaims import AnswerReclaims
from slackwater.ensurance.usecases.guard_node import GuardNode
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.ensurance.usecases.on_deleted import OnDeleted
from slackwater.ensurance.usecases.on_described import OnDescribed
from slackwater.ensurance.usecases.on_evicted import OnEvicted
from slackwater.ensurance.usecases.on_eviction_requested import OnEvictionRequested
from slackwater.ensurance.usecases.on_observed import OnObserved
from slackwater.events.envelope import Event, Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.eviction_requested import EvictionRequested
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.reclaim_requested import ReclaimRequested
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed, report_of

P = TypeVar("P", bound=Payload)

USAGE_CONSUMER, URGENT_CONSUMER = "ensurance-usage-reported", "ensurance-waterline-crossed"
REPORTS_AT_ONCE = 1000
"""As many as the broker hands out: of those of one node only the newest is read."""


def of_event(use_case: Callable[[Event[P]], Awaitable[None]]) -> Each[P]:
    """A handler that needs the event only."""

    async def handle(received: Received[P]) -> None:
        await use_case(received.event)

    return each(handle)


def consumers(
    cache: GuardedNodeCache,
    guard: GuardNode,
    described: OnDescribed,
    seen: OnObserved,
    evicted: OnEvicted,
    deleted: OnDeleted,
    reclaims: AnswerReclaims,
    requested: OnEvictionRequested,
) -> Sequence[Consumer[Any]]:
    """Nodes first, so that their reports find them known."""

    async def reported(received: Received[UsageReported]) -> None:
        await guard(received.event)
        cache.positions.record(received.subject_key, received.stream_sequence)

    async def asked(batch: Sequence[Received[ReclaimRequested]]) -> None:
        await reclaims([received.event for received in batch])

    async def urgent(crossing: Event[WaterlineCrossed]) -> None:
        await guard(report_of(crossing))

    return (
        Consumer(NodeDescribed, "ensurance-node-described", of_event(described)),
        Consumer(NodeDeleted, "ensurance-node-deleted", of_event(deleted)),
        Consumer(IntentObserved, "ensurance-intent-observed", of_event(seen)),
        Consumer(EvictionCompleted, "ensurance-eviction-completed", of_event(evicted)),
        Consumer(ReclaimRequested, "ensurance-reclaim-requested", all_or_split(asked)),
        Consumer(EvictionRequested, "ensurance-eviction-requested", of_event(requested)),
        Consumer(WaterlineCrossed, URGENT_CONSUMER, of_event(urgent)),
        Consumer(UsageReported, USAGE_CONSUMER, each(reported), batch=REPORTS_AT_ONCE),
    )

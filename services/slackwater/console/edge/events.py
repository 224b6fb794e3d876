"""The console's consumers: batches in, one write each, settled together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from slackwater.bus.port import BatchHandler, Bus, Done, P, Received, Reject, Retry, Settlement, Worth
from slackwater.console.ports import Meter
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.health_reported import HealthReported
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.errors import Conflict, InvalidInput, Unavailable
from slackwater.model.time import Clock

BATCH = 200


def whole_batch(
    record: Callable[[Sequence[Event[P]]], Awaitable[None]], recorded: Callable[[Sequence[Event[P]]], None]
) -> BatchHandler[P]:
    """A handler that records a batch in one write: all done, or, when the database is away, all again later.

    One event that cannot be stored is found by halving the batch, and only that one is rejected.
    """

    async def handle(batch: Sequence[Received[P]]) -> Sequence[Settlement]:
        try:
            events = [received.event for received in batch]
            await record(events)
            recorded(events)
        except (Conflict, Unavailable) as error:  # a conflict: lost against the other console, whose batch overlaps
            return [Retry(error.message, away=True)] * len(batch)
        except InvalidInput as error:
            if len(batch) == 1:
                return [Reject(error.code, error.message)]
            half = len(batch) // 2
            return [*await handle(batch[:half]), *await handle(batch[half:])]
        return [Done()] * len(batch)

    return handle


def routes(record: RecordEvents) -> dict[type[Payload], Callable[[Sequence[Event[Any]]], Awaitable[None]]]:
    """Which use case records which event; the consumer is `console-` and the event's type with dashes."""
    return {
        NodeDescribed: record.described,
        NodeLivenessChanged: record.liveness_changed,
        NodeSchedulingChanged: record.scheduling_changed,
        UsageReported: record.usage_reported,
        WaterlineCrossed: record.waterline_crossed,
        UsageWindowed: record.usage_windowed,
        PeakPredicted: record.peak_predicted,
        ResourcesOffered: record.resources_offered,
        DecisionRecorded: record.decision_recorded,
        EffectMeasured: record.effect_measured,
        IntentObserved: record.intent_observed,
        EvictionCompleted: record.eviction_completed,
        HealthReported: record.health_reported,
        StrategyFollowed: record.strategy_followed,
    }


@asynccontextmanager
async def consuming(
    bus: Bus, record: RecordEvents, meter: Meter, clock: Clock, worth: Worth | None = None
) -> AsyncIterator[None]:
    """All consumers run while this is open. `worth`: which reports are read, by their node (usecases/thinning)."""

    def recorded(events: Sequence[Event[Any]]) -> None:
        now = clock.now()
        for event in events:
            meter.recorded(event.data.TYPE, (now - event.time).total_seconds())

    async with AsyncExitStack() as stack:
        for payload, handler in routes(record).items():
            taking = whole_batch(handler, recorded)
            asked = worth if payload is UsageReported else None
            consumer = bus.consume(payload, consumer_of(payload), taking, batch=BATCH, worth=asked)
            await stack.enter_async_context(consumer)
        yield


def consumer_of(payload: type[Payload]) -> str:
    """The console's durable consumer of an event."""
    return "console-" + payload.TYPE.replace(".", "-").replace("_", "-")

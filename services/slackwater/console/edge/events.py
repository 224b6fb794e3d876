"""The console's consumers: each batch is recorded in one write and settled as a whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from slackwater.bus.admin.streams import consumer_name
from slackwater.bus.consume.handlers import Consumer, all_or_split
from slackwater.bus.port import BatchHandler, P, Received, Worth
from slackwater.console import CONSUMES
from slackwater.console.metrics import ConsoleMetrics
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.agent_block_changed import AgentBlockChanged
from slackwater.events.agent_decision_recorded import AgentDecisionRecorded
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, Payload
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.health_reported import HealthReported
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.quota_accounted import QuotaAccounted
from slackwater.events.registry import EVENTS
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.strategy_followed import StrategyFollowed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.time import Clock

BATCH = 200


def recording(
    record: Callable[[Sequence[Event[P]]], Awaitable[None]], recorded: Callable[[Sequence[Event[P]]], None]
) -> BatchHandler[P]:
    """A handler that records a batch in one write."""

    async def handle(batch: Sequence[Received[P]]) -> None:
        events = [received.event for received in batch]
        await record(events)
        recorded(events)

    return all_or_split(handle)


Record = Callable[[Sequence[Event[Any]]], Awaitable[None]]


def routes(record: RecordEvents) -> dict[type[Payload], Record]:
    """The use case that records each event type; the consumer is `console-` and the event's type with dashes.

    A listed event with a projection of its own is recorded by both.
    """
    found = projections(record)
    listed = {payload: _both(found.get(payload), record.listed) for payload in EVENTS if payload.LISTED}
    return {**found, **listed}


def _both(projection: Record | None, listed: Record) -> Record:
    if projection is None:
        return listed

    async def record(events: Sequence[Event[Any]]) -> None:
        await projection(events)
        await listed(events)

    return record


def projections(record: RecordEvents) -> dict[type[Payload], Record]:
    """The use case of each event that the read model has tables of its own for."""
    return {
        NodeDescribed: record.described,
        NodeLivenessChanged: record.liveness_changed,
        NodeDeleted: record.node_deleted,
        NodeSchedulingChanged: record.scheduling_changed,
        UsageReported: record.usage_reported,
        WaterlineCrossed: record.waterline_crossed,
        UsageWindowed: record.usage_windowed,
        PeakPredicted: record.peak_predicted,
        ResourcesOffered: record.resources_offered,
        DecisionRecorded: record.decision_recorded,
        AgentDecisionRecorded: record.agent_decided,
        EffectMeasured: record.effect_measured,
        IntentObserved: record.intent_observed,
        EvictionCompleted: record.eviction_completed,
        HealthReported: record.health_reported,
        StrategyFollowed: record.strategy_followed,
        ResourceChanged: record.resource_changed,
        QuotaAccounted: record.quota_accounted,
        MigrationChanged: record.migration_changed,
    }


def consumers(
    record: RecordEvents, meter: ConsoleMetrics, clock: Clock, worth: Worth | None = None
) -> Sequence[Consumer[Any]]:
    """All consumers of the console. `worth` selects the reports that are read, by node (usecases/thinning)."""

    def recorded(events: Sequence[Event[Any]]) -> None:
        now = clock.now()
        for event in events:
            meter.recorded(event.data.TYPE, (now - event.time).total_seconds())

    return [
        Consumer(
            payload,
            consumer_of(payload),
            recording(handler, recorded),
            batch=BATCH,
            worth=worth if payload is UsageReported else None,
        )
        for payload, handler in routes(record).items()
    ]


READ_BY_THE_BUS = (AgentBlockChanged, PodsRostered)


def consumer_of(payload: type[Payload]) -> str:
    """The console's durable consumer of an event."""
    return consumer_name("console", payload)


def is_recorded(payload: type[Payload]) -> bool:
    """Whether the read model shows the event once the console's consumer has settled it."""
    return payload.LISTED or (payload.TYPE in CONSUMES and payload not in READ_BY_THE_BUS)

"""The event consumers of colocation: one handler per type of event, with a batch in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.bus.consume.handlers import Consumer, each
from slackwater.bus.port import Done, Received, Settlement
from slackwater.colocation.usecases.drop_node import drop_node
from slackwater.colocation.usecases.node_updates import (
    apply_description,
    apply_liveness,
    apply_peaks,
    apply_reservations,
    apply_usage,
)
from slackwater.colocation.usecases.recompute_offer import NodeUpdate, Offering, apply_updates
from slackwater.events.envelope import Event
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_reserved import NodeReserved
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.usage_windowed import UsageWindowed

ON_DESCRIBED = "colocation-node-described"
ON_LIVENESS = "colocation-node-liveness-changed"
ON_DELETED = "colocation-node-deleted"
ON_USAGE = "colocation-usage-windowed"
ON_PEAKS = "colocation-peak-predicted"
ON_RESERVED = "colocation-node-reserved"


class ColocationEvents:
    """The batch handlers of colocation. Duplicates are detected by consumer and event id and have no effect."""

    def __init__(self, offering: Offering) -> None:
        self._offering = offering

    async def on_described(self, batch: Sequence[Received[NodeDescribed]]) -> Sequence[Settlement]:
        return await self._apply(ON_DESCRIBED, [_described(received.event) for received in batch])

    async def on_liveness(self, batch: Sequence[Received[NodeLivenessChanged]]) -> Sequence[Settlement]:
        return await self._apply(ON_LIVENESS, [_liveness(received.event) for received in batch])

    async def on_deleted(self, received: Received[NodeDeleted]) -> None:
        await drop_node(self._offering, ON_DELETED, received.event)

    async def on_usage(self, batch: Sequence[Received[UsageWindowed]]) -> Sequence[Settlement]:
        return await self._apply(ON_USAGE, [_usage(received.event) for received in batch])

    async def on_peaks(self, batch: Sequence[Received[PeakPredicted]]) -> Sequence[Settlement]:
        return await self._apply(ON_PEAKS, [_peaks(received.event) for received in batch])

    async def on_reserved(self, batch: Sequence[Received[NodeReserved]]) -> Sequence[Settlement]:
        return await self._apply(ON_RESERVED, [_reserved(received.event) for received in batch])

    async def _apply(self, consumer: str, batch: Sequence[NodeUpdate]) -> Sequence[Settlement]:
        await apply_updates(self._offering, consumer, batch)
        return [Done()] * len(batch)

    def consumers(self) -> Sequence[Consumer[Any]]:
        """Returns the consumers, inventory first."""
        return (
            Consumer(NodeDescribed, ON_DESCRIBED, self.on_described),
            Consumer(NodeLivenessChanged, ON_LIVENESS, self.on_liveness),
            Consumer(NodeDeleted, ON_DELETED, each(self.on_deleted)),
            Consumer(UsageWindowed, ON_USAGE, self.on_usage),
            Consumer(PeakPredicted, ON_PEAKS, self.on_peaks),
            Consumer(NodeReserved, ON_RESERVED, self.on_reserved),
        )


def _described(event: Event[NodeDescribed]) -> NodeUpdate:
    return NodeUpdate(event, event.data.facts.name, lambda state: apply_description(state, event))


def _liveness(event: Event[NodeLivenessChanged]) -> NodeUpdate:
    return NodeUpdate(event, event.data.node, lambda state: apply_liveness(state, event))


def _usage(event: Event[UsageWindowed]) -> NodeUpdate:
    return NodeUpdate(event, event.data.node, lambda state: apply_usage(state, event))


def _peaks(event: Event[PeakPredicted]) -> NodeUpdate:
    return NodeUpdate(event, event.data.node, lambda state: apply_peaks(state, event))


def _reserved(event: Event[NodeReserved]) -> NodeUpdate:
    return NodeUpdate(event, event.data.node, lambda state: apply_reservations(state, event))

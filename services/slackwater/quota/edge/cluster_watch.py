"""Reads what nodes have, offer, run and are fit for: the last event of each node and type, then every change."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from slackwater.bus.port import Bus
from slackwater.events.envelope import Payload
from slackwater.events.node_deleted import NodeDeleted
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.quota.usecases.cluster_totals import ClusterTotals

WATCHED: Final[tuple[type[Payload], ...]] = (
    NodeDescribed,
    NodeLivenessChanged,
    NodeSchedulingChanged,
    ResourcesOffered,
    UsageReported,
    NodeDeleted,
)


class ClusterWatch:
    """Without consumers in streams.yaml: only the newest value of each node counts, and every replica needs all."""

    def __init__(self, bus: Bus, totals: ClusterTotals) -> None:
        self._bus = bus
        self._totals = totals

    async def __call__(self) -> None:
        """Read until cancelled."""
        async with AsyncExitStack() as stack:
            for payload in WATCHED:
                await stack.enter_async_context(self._bus.watch(payload, self._totals.receive))
            await asyncio.Event().wait()

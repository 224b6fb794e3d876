"""Reads what nodes have, offer, run and are fit for: the last event of each node and type, then every change."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from slackwater.bus.port import Bus
from slackwater.quota.usecases.cluster_totals import WATCHED, ClusterTotals


class ClusterWatch:
    """Without consumers in streams.yaml: only the newest value of each node counts, and every replica needs all."""

    def __init__(self, bus: Bus, totals: ClusterTotals) -> None:
        self._bus = bus
        self._totals = totals

    async def __call__(self) -> None:
        """Read until cancelled."""
        async with AsyncExitStack() as stack:
            for payload in WATCHED:
                caught_up = partial(self._totals.caught_up, payload)
                await stack.enter_async_context(self._bus.watch(payload, self._totals.receive, caught_up=caught_up))
            await asyncio.Event().wait()

"""Reads what nodes have, run, use and offer: the last event of each node and type, then every change."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from slackwater.bus.port import Bus
from slackwater.descheduler.usecases.cluster_state import WATCHED, ClusterState
from slackwater.descheduler.usecases.job_states import JobStates
from slackwater.descheduler.usecases.pool_modes import PoolModes
from slackwater.events.migration_changed import MigrationChanged
from slackwater.events.resource_changed import ResourceChanged


class PlacementWatch:
    """Without consumers in streams.yaml: only the newest value of each node counts, and every replica needs all."""

    def __init__(self, bus: Bus, cluster: ClusterState, jobs: JobStates, modes: PoolModes) -> None:
        self._modes = modes
        self._bus = bus
        self._cluster = cluster
        self._jobs = jobs

    async def __call__(self) -> None:
        """Read until cancelled."""
        async with AsyncExitStack() as stack:
            for payload in WATCHED:
                caught_up = partial(self._cluster.caught_up, payload)
                await stack.enter_async_context(self._bus.watch(payload, self._cluster.receive, caught_up=caught_up))
            caught_up = partial(self._cluster.caught_up, MigrationChanged)
            await stack.enter_async_context(self._bus.watch(MigrationChanged, self._jobs.receive, caught_up=caught_up))
            await stack.enter_async_context(self._bus.watch(ResourceChanged, self._modes.receive))
            await asyncio.Event().wait()

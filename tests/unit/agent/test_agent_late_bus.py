"""An agent that starts before its broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from agent_fakes import FACTS
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH

from slackwater.agent.edge.late_bus import LateBus
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.model.errors import Unavailable

EVENT = event_of(NodeDescribed(facts=FACTS, boot_epoch="b", described_at=EPOCH), source="test", time=EPOCH)


async def test_it_is_away_until_the_first_connection_and_then_the_real_bus() -> None:
    real, attempts, closed = MemoryBus(), [], asyncio.Event()

    @asynccontextmanager
    async def connect() -> AsyncIterator[MemoryBus]:
        attempts.append(1)
        if len(attempts) < 3:
            raise Unavailable("no broker")
        yield real
        closed.set()

    late = LateBus(pause_seconds=0.001)
    with pytest.raises(Unavailable):
        await late.publish(EVENT)
    async with late.connecting(connect):
        await late.first.wait()
        await late.publish(EVENT)
        assert await late.connected()
    assert real.published == [EVENT]
    assert closed.is_set()
    assert not await late.connected()


async def test_leaving_before_a_connection_leaves_no_task_behind() -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[MemoryBus]:
        await asyncio.Event().wait()
        yield MemoryBus()

    before = asyncio.all_tasks()
    async with LateBus().connecting(connect):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before

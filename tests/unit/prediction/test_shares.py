"""Partitions that come and go: no reader is left open, whenever its partition is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prediction_memory import MemoryPredictionStore
from test_windows_that_fail import POLICY

from slackwater.prediction.usecases.owned_partitions import OwnedPartitions
from slackwater.prediction.usecases.partition_store import LivingState


async def test_a_partition_that_is_lost_while_its_reader_is_opened_leaves_no_reader() -> None:
    opening, may_open, is_open = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def reading(_: LivingState) -> AsyncIterator[None]:
        opening.set()
        await may_open.wait()
        is_open.set()
        try:
            yield
        finally:
            is_open.clear()

    shares = OwnedPartitions(MemoryPredictionStore(), POLICY, reading, lambda _: None, lambda _: None)
    taking = asyncio.create_task(shares.acquire([3]))
    await opening.wait()
    for stack in shares.drop([3]):
        await stack.aclose()
    may_open.set()
    await taking
    assert list(shares) == []
    assert not is_open.is_set()

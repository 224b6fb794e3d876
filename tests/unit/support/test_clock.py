from __future__ import annotations

import asyncio

from tests.support.clock import EPOCH, FakeClock


async def test_sleepers_wake_in_order_and_only_when_time_is_moved() -> None:
    clock, woken = FakeClock(), []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 10))
        group.create_task(sleeper("early", 1))
        await clock.advance(0.5)
        assert woken == []
        await clock.advance(9.5)

    assert woken == [("early", 1.0), ("late", 10.0)]


async def test_a_loop_that_sleeps_again_runs_once_per_period() -> None:
    clock, ticks = FakeClock(), []

    async def loop() -> None:
        while True:
            await clock.sleep(1)
            ticks.append((clock.now() - EPOCH).total_seconds())

    task = asyncio.create_task(loop())
    await clock.advance(0)
    await clock.advance(5)
    task.cancel()

    assert ticks == [1, 2, 3, 4, 5]

"""Work inside of an anyio scope: it is cancelled once, and what it awaits at its end is not."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from slackwater.runtime.signals import cancelled_once


async def test_a_cancelled_work_ends_in_order_although_the_scope_cancels_every_await() -> None:
    ended: list[int] = []

    async def work() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            for step in range(3):
                await asyncio.sleep(0.01)
                ended.append(step)
        return 1

    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_later(0.01, scope.cancel)
        await cancelled_once(work())
    assert scope.cancelled_caught
    assert ended == [0, 1, 2]


async def test_results_and_errors_of_the_work_are_its_own() -> None:
    async def work(fails: bool) -> int:
        await asyncio.sleep(0)
        if fails:
            raise LookupError("lost")
        return 7

    assert await cancelled_once(work(fails=False)) == 7
    with pytest.raises(LookupError, match="lost"):
        await cancelled_once(work(fails=True))

"""Readers whose context is left open, or that end while they work."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from slackwater.bus.consume.pull_requests import ConsumerGone
from slackwater.bus.consume.reader_tasks import ReaderTasks
from slackwater.bus.read.ordered_reader import OrderedReader


class Reader:
    """Waits for ever, as a pull request does on a quiet stream."""

    def __init__(self) -> None:
        self.interrupted = asyncio.Event()
        self.resets = 0

    def interrupt(self, reason: str) -> None:
        self.interrupted.set()

    async def reset(self) -> None:
        await asyncio.sleep(0)
        self.resets += 1

    async def work(self) -> bool:
        await self.interrupted.wait()
        return False


async def heal() -> None:
    """Nothing to mend."""


@asynccontextmanager
async def replay(reader: Reader) -> AsyncIterator[None]:
    """As the bus does it: a context around that of the reader."""
    async with ReaderTasks(heal).reading("replay", reader.work, cast(OrderedReader, reader)):
        yield


@pytest.mark.parametrize("how", ["the process ends", "it is collected"])
def test_a_reader_that_is_left_open_is_closed_once(how: str) -> None:
    complaints: list[dict[str, Any]] = []
    readers: list[Reader] = []

    async def leave_open() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        readers.append(Reader())
        context = replay(readers[0])
        await context.__aenter__()
        await asyncio.sleep(0)
        if how == "it is collected":
            del context
            gc.collect()
            for _ in range(20):
                await asyncio.sleep(0)
        else:
            kept.append(context)

    kept: list[Any] = []
    asyncio.run(leave_open())
    assert [str(each.get("exception") or each["message"]) for each in complaints] == []


async def test_leaving_ends_the_round_and_then_closes_the_reader() -> None:
    reader = Reader()
    async with replay(reader):
        await asyncio.sleep(0)
    assert reader.interrupted.is_set()
    assert reader.resets == 1


async def test_a_leave_that_is_cancelled_ends_the_round_as_well() -> None:
    class Busy(Reader):
        ended = False

        async def work(self) -> bool:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True
            return False

    reader = Busy()

    async def read() -> None:
        async with replay(reader):
            await asyncio.sleep(0)

    task = asyncio.create_task(read())
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert reader.ended
    assert reader.resets == 1


async def test_a_reader_goes_on_while_streams_are_declared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition of eight may have no leader, and declaring it again takes half a minute then."""
    monkeypatch.setattr("slackwater.bus.consume.reader_tasks.FIRST_PAUSE_SECONDS", 0.0)
    healing, rounds = list[bool](), 0

    async def never_healed() -> None:
        healing.append(True)
        try:
            await asyncio.Event().wait()
        finally:
            healing.append(False)

    async def work() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds % 2:
            raise ConsumerGone("consumer without leader")
        await asyncio.sleep(0)
        return True

    tasks, reader = ReaderTasks(never_healed), Reader()
    async with tasks.running("consumer", work, reader):
        while rounds < 5:
            await asyncio.sleep(0)
    assert healing == [True], "one at a time"
    await tasks.close()
    assert healing == [True, False]

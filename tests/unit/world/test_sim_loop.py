"""The event loop of the simulated world: virtual time, seeded order, crashes, and what it refuses."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest
from tests.world.clocks import HostClock
from tests.world.loop import Failed, SimLoop, sim_loop
from tests.world.processes import Process
from tests.world.run import Child

FAR = 1e6


def process_on(loop: SimLoop, name: str = "p") -> Process:
    return Process(loop, name, 1, HostClock(loop))


def order_of(seed: int, *, in_order: bool = False) -> list[int]:
    """The order in which ten tasks, ready at once, take three turns each."""
    loop, seen = sim_loop(Random(seed), in_order=in_order), []

    async def turns(number: int) -> None:
        for _ in range(3):
            seen.append(number)
            await asyncio.sleep(0)

    for number in range(10):
        process_on(loop).start(turns(number))
    loop.run(FAR)
    return seen


def test_a_seed_gives_one_order_and_another_seed_another() -> None:
    assert order_of(1) == order_of(1)
    assert order_of(1) != order_of(2)
    assert order_of(1, in_order=True) == [*range(10)] * 3


def test_an_hour_passes_at_once_and_timers_run_in_the_order_of_their_time() -> None:
    loop, seen = sim_loop(Random(1)), []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((seconds, asyncio.get_running_loop().time()))

    for seconds in (3600.0, 5.0, 60.0):
        process_on(loop).start(sleep(seconds))
    loop.run(FAR)
    assert seen == [(5.0, 5.0), (60.0, 60.0), (3600.0, 3600.0)]


async def tell_at_the_end(seen: list[str]) -> None:
    try:
        await asyncio.sleep(10)
        seen.append("ran")
    finally:
        seen.append("finally")


def crashed() -> list[str]:
    loop, seen = sim_loop(Random(1)), list[str]()
    process = process_on(loop)
    process.start(tell_at_the_end(seen))
    loop.call_later(5, process.crash)
    loop.run(FAR)
    return seen


def test_no_finally_of_a_crashed_process_runs() -> None:
    assert Child(crashed).result() == []


def test_what_the_parent_dropped_is_not_finalized_in_a_child() -> None:
    class Dropped:
        def __init__(self) -> None:
            self.cycle = self
            finalized.append(0)

        def __del__(self) -> None:
            finalized[0] += 1

    def collected() -> int:
        gc.collect()
        return finalized[0]

    finalized = list[int]()
    gc.disable()
    try:
        Dropped()
        assert Child(collected).result() == 0
        assert collected() == 1
    finally:
        gc.enable()


def test_a_frozen_process_goes_on_where_it_was_and_its_clock_went_on() -> None:
    loop, seen = sim_loop(Random(1)), []
    process = process_on(loop)

    async def watch() -> None:
        await process.clock.sleep(10)
        seen.append(process.clock.monotonic())

    process.start(watch())
    loop.call_later(5, process.freeze)
    loop.call_later(65, process.resume)
    loop.run(FAR)
    assert seen == [65.0]


async def fail() -> None:
    raise ValueError("a defect")


def run_alone(work: Coroutine[Any, Any, Any]) -> None:
    loop = sim_loop(Random(1))
    process = process_on(loop)
    process.start(work)
    loop.run(FAR)
    process.release_done()
    loop.raise_failure()


def test_an_exception_that_nothing_awaits_fails_the_run() -> None:
    with pytest.raises(Failed, match="a defect"):
        run_alone(fail())


async def open_a_connection() -> None:
    await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", 1)


def test_a_socket_fails_the_run() -> None:
    with pytest.raises(Failed, match="create_connection"):
        run_alone(open_a_connection())


def test_work_for_a_thread_runs_later_in_no_thread() -> None:
    loop, seen = sim_loop(Random(1)), []

    async def work() -> None:
        seen.append(await asyncio.to_thread(threading.current_thread))
        seen.append(loop.time())

    process_on(loop).start(work())
    loop.run(FAR)
    assert seen[0] is threading.current_thread()
    assert seen[1] > 0


def test_clocks_drift_and_jump_without_a_jump_of_the_monotonic_one() -> None:
    loop = sim_loop(Random(1))
    clock = HostClock(loop)
    loop.run(100.0)
    clock.drift(1.5)
    assert (clock.monotonic(), clock.seconds() - HostClock(loop).seconds()) == (100.0, 0.0)
    loop.run(110.0)
    assert clock.monotonic() == 115.0
    clock.jump(-30.0)
    assert clock.seconds() - HostClock(loop).seconds() == -25.0
    assert clock.monotonic() == 115.0

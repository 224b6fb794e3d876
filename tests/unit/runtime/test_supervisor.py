from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence

import pytest
from fastapi import APIRouter
from structlog.testing import capture_logs
from tests.support.clock import FakeClock

from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.runtime.service import Check
from slackwater.runtime.signals import cancelled_by_signal
from slackwater.runtime.supervisor import RestartLimits, State, Supervisor


class Scripted:
    """A service that records its calls and fails a configured number of times."""

    def __init__(self, name: str, journal: list[str], failures: Sequence[Exception | None] = ()) -> None:
        self.name = name
        self._journal = journal
        self._failures = list(failures)
        self.stubborn = asyncio.Event()
        self.stubborn.set()

    async def run(self, started: Callable[[], None]) -> None:
        self._journal.append(f"{self.name} starts")
        if self._failures:
            failure = self._failures.pop(0)
            if failure is None:
                return
            raise failure
        started()
        self._journal.append(f"{self.name} runs")
        try:
            await asyncio.Event().wait()
        finally:
            while not self.stubborn.is_set():
                try:
                    await self.stubborn.wait()
                except asyncio.CancelledError:
                    continue
            self._journal.append(f"{self.name} stops")

    async def checks(self) -> Sequence[Check]:
        return [Check(f"{self.name}-inside", True)]

    def routers(self) -> Sequence[APIRouter]:
        return ()


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_services_start_in_order_and_stop_in_reverse() -> None:
    journal: list[str] = []
    supervisor = Supervisor([Scripted(name, journal) for name in "abc"], clock=FakeClock())
    task = asyncio.create_task(supervisor.run(lambda: journal.append("all")))
    await settle()
    await cancel(task)
    assert journal == [
        *("a starts", "a runs", "b starts", "b runs", "c starts", "c runs", "all"),
        *("c stops", "b stops", "a stops"),
    ]
    assert {entry.state for entry in supervisor.supervised} == {State.STOPPED}


async def test_a_crashed_service_comes_back_after_a_growing_pause_and_the_others_never_notice() -> None:
    journal: list[str] = []
    clock = FakeClock()
    frail = Scripted("frail", journal, [OSError("one"), OSError("two"), None])
    supervisor = Supervisor([Scripted("steady", journal), frail], clock=clock)
    task = asyncio.create_task(supervisor.run())
    await settle()
    entry = supervisor.supervised[1]
    pauses = []
    while entry.state is State.PAUSING:
        pauses.append(entry.pause_seconds)
        await clock.advance(entry.pause_seconds)
    assert pauses == [0.5, 1.0, 2.0]
    assert entry.state is State.RUNNING
    assert entry.restarts == 3
    assert journal.count("steady starts") == 1
    await cancel(task)


@pytest.mark.parametrize(("failure", "unrecoverable"), [(OSError("disk"), True), (Unavailable("no database"), False)])
async def test_what_crashes_after_every_restart_needs_another_process(failure: Exception, unrecoverable: bool) -> None:
    clock = FakeClock()
    limits = RestartLimits(crashes_in_a_row=3)
    supervisor = Supervisor([Scripted("frail", [], [failure] * 3)], clock=clock, limits=limits)
    task = asyncio.create_task(supervisor.run())
    await settle()
    entry, seen = supervisor.supervised[0], list[list[str]]()
    while entry.state is State.PAUSING:
        seen.append(list(supervisor.unrecoverable()))
        await clock.advance(entry.pause_seconds)
    assert seen == [[], [], ["frail: OSError: disk"] if unrecoverable else []]
    await cancel(task)


async def test_health_shows_a_restart_and_asks_only_services_that_run() -> None:
    clock = FakeClock()
    supervisor = Supervisor([Scripted("frail", [], [OSError("disk")])], clock=clock)
    task = asyncio.create_task(supervisor.run())
    await settle()
    assert await supervisor.checks() == [Check("frail", False, "pausing, restarts 1, last error: OSError: disk")]
    await clock.advance(0.5)
    life, inside = await supervisor.checks()
    assert life.ok
    assert "restarts 1" in life.detail
    assert inside == Check("frail-inside", True)
    await cancel(task)


@pytest.mark.parametrize(
    ("failure", "said", "stacks"),
    [
        (Unavailable("the database does not answer"), "the database does not answer", 0),
        (OSError("disk"), "OSError: disk", 1),
    ],
)
async def test_an_outage_is_logged_in_a_line_and_a_defect_with_its_stack(
    failure: Exception, said: str, stacks: int
) -> None:
    clock = FakeClock()
    supervisor = Supervisor([Scripted("frail", [], [failure])], clock=clock)
    with capture_logs() as logged:
        task = asyncio.create_task(supervisor.run())
        await settle()
    assert [line["error"] for line in logged if line["event"] == "service restarts"] == [said]
    assert sum(bool(line.get("exc_info")) for line in logged) == stacks
    await clock.advance(0.5)
    assert supervisor.supervised[0].state is State.RUNNING
    await cancel(task)


async def test_a_service_that_ran_long_is_forgiven_its_past() -> None:
    clock = FakeClock()
    crash = asyncio.Event()

    class CrashesOnCall(Scripted):
        async def run(self, started: Callable[[], None]) -> None:
            started()
            await crash.wait()
            crash.clear()
            raise OSError("called")

    supervisor = Supervisor([CrashesOnCall("late", [])], clock=clock)
    task = asyncio.create_task(supervisor.run())
    entry = supervisor.supervised[0]
    seen = []
    for ran_seconds in (1, 1, 61):
        await settle()
        await clock.advance(ran_seconds)
        crash.set()
        await settle()
        seen.append(entry.pause_seconds)
        await clock.advance(entry.pause_seconds)
    assert seen == [0.5, 1.0, 0.5]
    await cancel(task)


async def test_a_misconfigured_service_ends_the_start_instead_of_looping() -> None:
    journal: list[str] = []
    wrong = Scripted("wrong", journal, [Misconfigured("no such file")])
    with capture_logs() as lines, pytest.raises(Misconfigured, match="no such file"):
        await Supervisor([Scripted("first", journal), wrong], clock=FakeClock()).run()
    assert lines == []  # its runner logs it, once
    assert journal == ["first starts", "first runs", "wrong starts", "first stops"]


async def test_a_service_that_does_not_stop_is_left_behind_and_the_others_still_stop() -> None:
    journal: list[str] = []
    stubborn = Scripted("stubborn", journal)
    stubborn.stubborn.clear()
    limits = RestartLimits(orderly_stop_seconds=0.01, final_stop_seconds=0.03)
    task = asyncio.create_task(Supervisor([Scripted("good", journal), stubborn], limits=limits).run())
    await settle()
    await cancel(task)
    assert "good stops" in journal
    assert "stubborn stops" not in journal
    stubborn.stubborn.set()
    await settle()


class Drained(Scripted):
    """Serves on after it was told to stop."""

    drain_seconds = 30.0


async def test_a_service_that_drains_is_waited_for() -> None:
    journal: list[str] = []
    draining = Drained("draining", journal)
    draining.stubborn.clear()
    limits = RestartLimits(orderly_stop_seconds=0.01, final_stop_seconds=0.03)
    task = asyncio.create_task(Supervisor([draining], limits=limits).run())
    await settle()
    task.cancel()
    await asyncio.sleep(0.2)  # longer than both limits
    assert not task.done()
    draining.stubborn.set()
    await asyncio.wait([task])
    assert journal[-1] == "draining stops"


async def test_a_signal_cancels_the_block_and_the_program_goes_on_after_it() -> None:
    with cancelled_by_signal() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(30)
        pytest.fail("the block was not cancelled")
    assert interruption.received is signal.SIGTERM
    await asyncio.sleep(0)


async def test_without_a_signal_the_block_just_ends() -> None:
    with cancelled_by_signal() as interruption:
        await asyncio.sleep(0)
    assert interruption.received is None

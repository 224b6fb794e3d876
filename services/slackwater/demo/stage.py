"""What the scenes of a run work with, and how they wait: for a condition, under a generous bound."""

from __future__ import annotations

import asyncio
import inspect
import shutil
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.demo.api import Api
from slackwater.demo.machine.kernel import Kernel
from slackwater.demo.machine.workloads import Workloads
from slackwater.demo.narrator import Narrator
from slackwater.model.errors import Unavailable

_STEP_SECONDS, _BUSY_SECONDS, _BUSY_CPU_SECONDS = 0.1, 20.0, 0.3
Condition = Callable[[], bool | Awaitable[bool]]


@dataclass(slots=True)
class Stage:
    """The running stack, its workloads and cgroups, and the terminal."""

    api: Api
    narrator: Narrator
    workloads: Workloads
    kernel: Kernel

    @property
    def cpus(self) -> int:
        return self.workloads.cpus

    def file(self, name: str) -> Path:
        """Returns a path that no turn has used before."""
        stem, dot, suffix = name.rpartition(".")
        return self.workloads.folder / f"{stem}-{time.monotonic_ns()}{dot}{suffix}"

    def lacks(self, memory_mib: int, disk_mib: int) -> str:
        """Returns what the machine has too little of, in words; empty if it has all of it."""
        lines = Path("/proc/meminfo").read_text().splitlines()
        memory = next((int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable:")), 0)
        disk = shutil.disk_usage(self.workloads.folder).free >> 20
        needs = (("memory are available", memory, memory_mib), ("disk are free", disk, disk_mib))
        return "; ".join(f"{has:,} MiB of {what}, it needs {needed:,}" for what, has, needed in needs if has < needed)

    async def batch_runs(self) -> bool:
        """Waits until batch uses CPU; returns whether it did."""
        began = self.kernel.read().batch_cpu
        return await holds_within(lambda: self.kernel.read().batch_cpu - began >= _BUSY_CPU_SECONDS, _BUSY_SECONDS)

    @asynccontextmanager
    async def programs(self) -> AsyncIterator[list[Process]]:
        """A list whose processes are stopped after the block."""
        started: list[Process] = []
        try:
            yield started
        finally:
            await asyncio.gather(*(self.workloads.stop(process) for process in started))


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work that runs during the block and is cancelled after it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def holds_within(condition: Condition, seconds: float) -> bool:
    """Asks ten times a second; returns whether the condition held within these seconds."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if await answer if inspect.isawaitable(answer) else answer:
            return True
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_STEP_SECONDS)


async def require(condition: Condition, seconds: float, problem: str) -> None:
    """Waits for a condition. Raises Unavailable if it does not hold in time."""
    if not await holds_within(condition, seconds):
        raise Unavailable(f"{problem} within {seconds:g} s")

"""Readings of what this process can use up by itself: descriptors, and the disks of folders that it writes.

What PostgreSQL's disk holds is known here only where PostgreSQL is embedded and writes below the state directory.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from slackwater.model.limited_resource import Limited, LimitedResource
from slackwater.runtime.limited_readings import LimitedReadings

LOOK_SECONDS = 10.0
_DESCRIPTORS = Path("/proc/self/fd")


async def process_limits(folders: Mapping[str, Path]) -> Sequence[LimitedResource]:
    """Returns descriptors, and one disk for each folder by the given name. Reads in a thread, because a hung disk would
    stop the event loop.
    """
    return await asyncio.to_thread(_read, folders)


@asynccontextmanager
async def watching_process(
    readings: LimitedReadings, folders: Mapping[str, Path], seconds: float = LOOK_SECONDS
) -> AsyncIterator[None]:
    """Reads what this process can use up while the context is open, for metrics and log where no LoopWatch runs."""

    async def look() -> None:
        while True:
            readings.note("process", await process_limits(folders))
            await asyncio.sleep(seconds)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


def _read(folders: Mapping[str, Path]) -> Sequence[LimitedResource]:
    readings = (descriptors(), *(disk_of(name, folder) for name, folder in folders.items()))
    return [reading for reading in readings if reading is not None]


def descriptors() -> LimitedResource | None:
    """Returns the open descriptors of this process; None without a limit or without /proc."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        used = sum(1 for _ in _DESCRIPTORS.iterdir()) - 1  # one is that of the listing
    except OSError:
        return None
    return None if limit == resource.RLIM_INFINITY else LimitedResource(Limited.DESCRIPTORS, "process", used, limit)


def disk_of(name: str, folder: Path) -> LimitedResource | None:
    """Returns the disk of a folder, or of the next one above it that exists; None if it cannot be read.

    Blocks that only root may use count as used.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    used = (found.f_blocks - found.f_bfree) * found.f_frsize
    return LimitedResource(Limited.DISK, name, used, used + found.f_bavail * found.f_frsize)

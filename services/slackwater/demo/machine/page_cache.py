"""The page cache of prod and the memory limits of batch as the kernel counts them, and files that are not cached."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.model.errors import Unavailable

MIB = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Reads a memory cgroup, v1 or v2."""

    directory: Path
    pure_v2: bool

    def limits(self) -> tuple[str, ...]:
        """What the files of the upper level hold, the level first."""
        if self.pure_v2:
            return ((self.directory / "memory.high").read_text(),)
        limit, pause = (self.directory / f"memory.{name}" for name in ("limit_in_bytes", "oom_control"))
        return limit.read_text(), pause.read_text().partition("\n")[0]

    def refault_bytes(self) -> int:
        """Bytes of files that were read again after the kernel had dropped them, so far."""
        name = "workingset_refault_file" if self.pure_v2 else "total_workingset_refault_file"
        lines = (self.directory / "memory.stat").read_text().splitlines()
        return _PAGE_BYTES * next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


@dataclass(slots=True)
class CacheWatch:
    """Readings by seconds since the begin: the files of batch's limits, and bytes that prod read again. A batch pod
    without an upper level counts with `most_mib`, its hard limit."""

    prod: CacheGroup
    batch: Mapping[CacheGroup, tuple[str, ...]]
    """With their limits before prod read anything again: a rule may have lowered some when the watch begins."""
    most_mib: int
    began: float = field(default_factory=time.monotonic)
    readings: list[tuple[float, tuple[tuple[str, ...], ...], int]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def note(self) -> None:
        """Read the kernel's files once. Raises Unavailable where a program has ended."""
        try:
            self.readings.append((self.seconds, self._limits(), self.prod.refault_bytes()))
        except OSError as error:
            raise Unavailable(f"a program ended early: {error}") from error

    def lowered_at(self) -> float | None:
        """When a limit first differed from its first."""
        return next((round(at, 1) for at, limits, _ in self.readings if limits != tuple(self.batch.values())), None)

    def limit_mib(self, until: float) -> int | None:
        """The levels of all batch pods together at a time; None where all are as at first."""
        limits = [limits for at, limits, _ in self.readings if at <= until][-1:]
        if not limits or limits[0] == tuple(self.batch.values()):
            return None
        most, levels = self.most_mib * MIB, [files[0].strip() for files in limits[0]]
        return sum(most if level == "max" else min(most, int(level)) for level in levels) // MIB

    def is_original(self) -> bool:
        return self._limits() == tuple(self.batch.values())

    def refault_mib(self, since: float, until: float) -> float:
        """MiB per second that prod read again in this time."""
        within = [(at, total) for at, _, total in self.readings if since <= at <= until]
        if len(within) < 2:
            return 0.0
        (begin, before), (end, after) = within[0], within[-1]
        return round((after - before) / MIB / (end - begin), 1)

    def seconds_above(self, mib: float) -> int:
        """In how many whole seconds prod read more again than so many MiB."""
        whole = range(int(self.readings[-1][0])) if self.readings else range(0)
        return sum(self.refault_mib(second, second + 1) > mib for second in whole)

    def _limits(self) -> tuple[tuple[str, ...], ...]:
        return tuple(group.limits() for group in self.batch)


def write_file(path: Path, mib: int) -> None:
    """Write a file of random bytes to the disk."""
    block = os.urandom(MIB)
    with path.open("wb") as file:
        for _ in range(mib):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def drop_cache(path: Path) -> None:
    """Drop the file from the page cache, so that its next reader reads the disk and is charged for it."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

"""The page cache of one cgroup as the kernel counts it, and files that are not in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def level_bytes(limits: tuple[str, ...], without: int) -> int:
    """The upper level in these files, or `without` where there is none."""
    text = limits[0].strip()
    return without if text == "max" else min(without, int(text))


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Reads a memory cgroup, v1 or v2."""

    directory: Path
    pure_v2: bool

    def limits(self) -> tuple[str, ...]:
        """What the files of the upper level hold. Raises OSError where the group is gone."""
        if self.pure_v2:
            return ((self.directory / "memory.high").read_text(),)
        limit, pause = (self.directory / f"memory.{name}" for name in ("limit_in_bytes", "oom_control"))
        return limit.read_text(), pause.read_text().partition("\n")[0]

    def refault_bytes(self) -> int:
        """Bytes of files that were read again after the kernel had dropped them, so far."""
        name = "workingset_refault_file" if self.pure_v2 else "total_workingset_refault_file"
        lines = (self.directory / "memory.stat").read_text().splitlines()
        return _PAGE_BYTES * next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)


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
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)

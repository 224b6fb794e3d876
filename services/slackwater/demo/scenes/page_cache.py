"""The page cache of one cgroup as the kernel counts it, and files that are not in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
_UNLIMITED_V1 = 1 << 60
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Reads a memory cgroup, v1 or v2."""

    directory: Path
    pure_v2: bool

    def limit_bytes(self) -> int | None:
        """The upper level in force; None = unlimited. Raises OSError where the group is gone."""
        name = "memory.high" if self.pure_v2 else "memory.limit_in_bytes"
        text = (self.directory / name).read_text().strip()
        return None if text == "max" or int(text) >= _UNLIMITED_V1 else int(text)

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

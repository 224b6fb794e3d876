"""The system calls on which the agent's durable files rest, as a port: the operating system, or a simulated disk.

A simulated disk (tests/world/machine) loses what was not synced, becomes full or read-only, and runs the code of the
journal, the ledger and the documents unchanged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from slackwater.runtime.owned_files import PRIVATE_FOLDER, open_owned


class DiskFiles(Protocol):
    """One file system. Every method raises OSError as the system call does."""

    def read(self, path: Path) -> bytes:
        """The whole file."""
        ...

    def open(self, path: Path, flags: int) -> int:
        """A descriptor, as os.open with mode 0600. A link is not followed."""
        ...

    def write(self, descriptor: int, content: bytes) -> int:
        """How many bytes were taken: fewer than given on a disk that has just become full."""
        ...

    def sync(self, descriptor: int) -> None:
        """Make a file's content durable, or the names in a directory."""
        ...

    def size(self, descriptor: int) -> int: ...

    def truncate(self, descriptor: int, size: int) -> None: ...

    def close(self, descriptor: int) -> None: ...

    def rename(self, path: Path, target: Path) -> None:
        """Atomically; durable once the directory is synced."""
        ...

    def remove(self, path: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        """With its parents; nothing if it is there."""
        ...


class OsFiles:
    """The file system of the operating system."""

    __slots__ = ()

    def read(self, path: Path) -> bytes:
        with open(open_owned(path, os.O_RDONLY), "rb") as stream:  # noqa: PTH123 - of a descriptor
            return stream.read()

    def open(self, path: Path, flags: int) -> int:
        return open_owned(path, flags)

    def write(self, descriptor: int, content: bytes) -> int:
        return os.write(descriptor, content)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        path.rename(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


OS_FILES = OsFiles()

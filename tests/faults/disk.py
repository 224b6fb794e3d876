"""Disks for faults: one that can be filled and emptied (a tmpfs, where mounting is permitted), and a slow one."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from tests.faults.scenario import Skipped

_BALLAST = "ballast"
_UNIFIED = Path("/sys/fs/cgroup")
_BLKIO = _UNIFIED / "blkio"
_LEAVE_SECONDS = 10.0
_numbers = itertools.count(1)


class SmallDisk:
    """Mounted while the context is open. Raises Skipped if mounting is not permitted."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self._size = size_bytes

    def __enter__(self) -> SmallDisk:
        self.path.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={self._size},mode=0755", "slackwater-faults", str(self.path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise Skipped("a size-limited disk needs mount(8)") from error
        if done.returncode:
            raise Skipped(f"a size-limited disk needs root: {done.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], capture_output=True, check=False)

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Fill the disk with a file. Repeatable: uses space that has become free since."""
        with (self.path / _BALLAST).open("ab") as file:
            while (free := self.free_bytes - leave_bytes) > 0:
                try:
                    file.write(b"\0" * min(free, 1 << 20))
                    file.flush()
                except OSError:
                    return

    def clear(self) -> None:
        (self.path / _BALLAST).unlink(missing_ok=True)


class SlowDisk:
    """While the context is open, processes that are put behind it may write so many times a second to the disk of a
    folder, all together: cgroup's throttle of I/O. A sync then takes tenths of seconds. Raises Skipped where this
    kernel cannot do it."""

    def __init__(self, folder: Path, writes_per_second: int) -> None:
        number = folder.stat().st_dev
        self._device = f"{os.major(number)}:{os.minor(number)}"
        self._limit, self._is_v2 = writes_per_second, not _BLKIO.exists()
        self._group = (_UNIFIED if self._is_v2 else _BLKIO) / f"slackwater-slow-{os.getpid()}-{next(_numbers)}"

    def __enter__(self) -> SlowDisk:
        try:
            if self._is_v2:
                (_UNIFIED / "cgroup.subtree_control").write_text("+io")
            self._group.mkdir()
            self._write(self._limit)
        except OSError as error:
            self._remove()
            raise Skipped(f"a slow disk needs cgroup's throttle of I/O: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def hold(self, pid: int) -> None:
        """Put a process and all that descend from it behind the disk."""
        while missing := _descendants(pid) - self._pids():
            for one in missing:
                with suppress(ProcessLookupError):
                    (self._group / "cgroup.procs").write_text(str(one))

    def _write(self, limit: int) -> None:
        name, text = ("io.max", f"wiops={limit}") if self._is_v2 else ("blkio.throttle.write_iops_device", f"{limit}")
        (self._group / name).write_text(f"{self._device} {text}")

    def _pids(self) -> set[int]:
        return {int(line) for line in (self._group / "cgroup.procs").read_text().split()}

    def _remove(self) -> None:
        """Let all processes out, also those that start meanwhile; what is exiting keeps the group for a moment."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        while self._group.exists() and time.monotonic() < deadline:
            for pid in self._pids():
                with suppress(OSError):
                    (self._group.parent / "cgroup.procs").write_text(str(pid))
            with suppress(OSError):
                self._group.rmdir()
                return
            time.sleep(0.05)


def _descendants(pid: int) -> set[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, more = set[int](), {pid} & parents.keys()
    while more:
        found |= more
        more = {child for child, parent in parents.items() if parent in found} - found
    return found

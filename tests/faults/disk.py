"""Disks for faults: one that can be filled and emptied (a tmpfs, where mounting is permitted), and a slow one."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.faults.cgroup import Cgroup
from tests.faults.scenario import Skipped

_BALLAST = "ballast"
_BLKIO = Path("/sys/fs/cgroup/blkio")


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
        self._limit = writes_per_second
        self._group = Cgroup("blkio" if _BLKIO.exists() else "io", "slow")

    def __enter__(self) -> SlowDisk:
        with ExitStack() as stack:
            group = stack.enter_context(self._group)
            if group.is_v2:
                group.write("io.max", f"{self._device} wiops={self._limit}")
            else:
                group.write("blkio.throttle.write_iops_device", f"{self._device} {self._limit}")
            stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._group.__exit__(*error)

    def hold(self, pid: int) -> None:
        """Put a process and all that descend from it behind the disk."""
        while missing := _descendants(pid) - self._group.pids():
            for one in missing:
                self._group.admit(one)


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

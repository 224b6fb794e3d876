"""A size-limited disk that can be filled and emptied: a separate tmpfs, where mounting is permitted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.faults.scenario import Skipped

_BALLAST = "ballast"


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

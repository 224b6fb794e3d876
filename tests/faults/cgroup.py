"""Cgroups of this machine for faults: of one controller, v1 or v2, whichever is mounted."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.faults.scenario import Skipped

_UNIFIED = Path("/sys/fs/cgroup")
_LEAVE_SECONDS = 10.0
_OURS = re.compile(r"slackwater-faults-.+-(\d+)-\d+")
_numbers = itertools.count(1)


class Cgroup:
    """One cgroup of a controller, which exists while the context is open. Raises Skipped where it cannot be made."""

    def __init__(self, controller: str, purpose: str) -> None:
        first = _UNIFIED / controller
        self.is_v2 = not first.exists()
        self._controller = controller
        self._parent = _UNIFIED if self.is_v2 else first
        self.path = self._parent / f"slackwater-faults-{purpose}-{os.getpid()}-{next(_numbers)}"

    def __enter__(self) -> Cgroup:
        remove_leftovers(self._parent)
        try:
            if self.is_v2:
                (self._parent / "cgroup.subtree_control").write_text(f"+{self._controller}")
            self.path.mkdir()
        except OSError as error:
            raise Skipped(f"it needs a cgroup of the controller {self._controller}: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        """Let all processes out, also those that start meanwhile; what is exiting keeps the group for a moment."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        while self.path.exists() and time.monotonic() < deadline:
            if _is_removed(self.path):
                return
            time.sleep(0.05)

    def admit(self, pid: int) -> None:
        """Put a process into the group; what it starts later is in it, too."""
        with suppress(ProcessLookupError):
            (self.path / "cgroup.procs").write_text(str(pid))

    def around(self, command: Sequence[str]) -> list[str]:
        """The command that enters the group before it becomes `command`, so that all its memory is counted here."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def pids(self) -> set[int]:
        return _pids(self.path)

    def write(self, name: str, text: str) -> None:
        """Raises Skipped where the kernel does not have this file or value."""
        try:
            (self.path / name).write_text(text)
        except OSError as error:
            raise Skipped(f"{self.path.name}: {name} cannot be written: {error}") from error

    def number(self, name: str, key: str = "") -> int:
        """A file's number, or that of the line that begins with `key`; 0 where there is none."""
        for line in (self.path / name).read_text().splitlines():
            words = line.split()
            if words[:-1] == ([key] if key else []):
                return int(words[-1])
        return 0


def remove_leftovers(parent: Path) -> None:
    """Remove groups of processes that have ended without it. What still runs in one goes to its parent."""
    for path in parent.glob("slackwater-faults-*"):
        named = _OURS.fullmatch(path.name)
        if named is not None and not Path("/proc", named[1]).exists():
            _is_removed(path)


def _is_removed(path: Path) -> bool:
    """Let all processes out and remove the group; False while it cannot be removed."""
    with suppress(OSError):
        for pid in _pids(path):
            with suppress(OSError):
                (path.parent / "cgroup.procs").write_text(str(pid))
        path.rmdir()
        return True
    return False


def _pids(path: Path) -> set[int]:
    return {int(line) for line in (path / "cgroup.procs").read_text().split()}

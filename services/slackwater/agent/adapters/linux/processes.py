"""Processes: identity that survives pid reuse, and ending everything in a cgroup."""

from __future__ import annotations

import os
import signal as signals
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A pid with its start time in clock ticks since boot (field 22 of /proc/PID/stat)."""

    pid: int
    started_ticks: int

    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        state, started = _state_and_start(self.pid)
        return started == self.started_ticks and state not in ("Z", "X")


def _state_and_start(pid: int) -> tuple[str, int]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X", -1
    words = text[text.rindex(")") + 2 :].split()
    return words[0], int(words[19])


def process_of(pid: int) -> Process:
    """The process that has this pid now."""
    return Process(pid, _state_and_start(pid)[1])


def members(directory: Path) -> tuple[int, ...]:
    """Pids in one cgroup directory and all below it, 0 for each of another pid namespace; empty when it is gone."""
    pids: list[int] = []
    for current, _, _ in os.walk(directory):
        try:
            pids.extend(int(word) for word in Path(current, "cgroup.procs").read_text().split())
        except OSError:
            continue
    return tuple(pids)


def members_of(directories: Iterable[Path]) -> tuple[int, ...]:
    """Pids in any of a cgroup's trees, each once."""
    return tuple(dict.fromkeys(pid for directory in directories for pid in members(directory)))


def send(directories: Iterable[Path], signal: int) -> None:
    """Signal every member that has a number here and is ours to signal: 0 would be our own process group. SIGKILL goes
    through cgroup.kill first: nothing can fork away from it."""
    places = tuple(directories)
    if signal == signals.SIGKILL:
        for directory in places:
            try:
                with (directory / "cgroup.kill").open("r+") as kill:
                    kill.write("1")
            except OSError:  # v1 trees have no such file; a vanished cgroup needs none
                continue
    for pid in members_of(places):
        if pid > 0:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal)


def kill_all(directories: Iterable[Path], within_seconds: float = 3.0) -> bool:
    """SIGKILL until the cgroup is empty; False if something (in uninterruptible sleep) outlasts the time."""
    places = tuple(directories)
    deadline = time.monotonic() + within_seconds
    pause = 0.001
    while members_of(places):
        send(places, signals.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(0.05, pause * 2)
    return True

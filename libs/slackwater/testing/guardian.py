"""Runs a measuring command so that no process, cgroup, mount or temporary folder of it is left, however it ends.

    the process that was started ── the guardian ── the command ── servers, services, workloads

The first one forwards signals and returns the command's exit status. The guardian has a process group of its own and
adopts orphans, so everything the command starts stays below it, daemons and sessions of their own included. It ends
the command when the first process is signalled or dies (SIGKILL included), and sweeps: processes, cgroups of instances
whose state lies in the run's folder, mounts, the folder. When the guardian is killed the first process sweeps.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from slackwater.runtime.parent_death import adopt_orphans, die_with_parent

CGROUPS = Path("/sys/fs/cgroup")
_ASKED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_ORPHANED = signal.SIGUSR1
_WAITED = {*_ASKED, _ORPHANED, signal.SIGCHLD}
_POLL_SECONDS, _LOOK_SECONDS = 0.02, 1.0
_ORDERLY_SECONDS, _GRACE_SECONDS, _KILL_SECONDS = 15.0, 3.0, 10.0
_MNT_DETACH = 2


@dataclass(frozen=True, slots=True)
class Run:
    """One guarded command: its arguments, the folder for its temporary files, the signal mask it starts with."""

    command: tuple[str, ...]
    folder: Path
    mask: set[signal.Signals]


def guarded(name: str, command: Sequence[str]) -> int:
    """Run `command` below a guardian; its exit status, or 128 + the number of the signal that ended it.

    `TMPDIR` of the command is a new folder called after `name`. Call it in a process with one thread.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    adopt_orphans()
    if "MAKELEVEL" in os.environ:  # a killed make does not signal its recipe
        die_with_parent(signal.SIGTERM)
    folder = Path(tempfile.gettempdir()) / f"slackwater-{name}-{os.getpid()}-{secrets.token_hex(4)}"
    run, first = Run(tuple(command), folder, {signal.Signals(number) for number in mask}), os.getpid()
    guardian = os.fork()
    if guardian == 0:
        _guard(run, first)
    status = _wait_for(guardian)
    if status > 128 and folder.exists():  # the guardian was killed before it could sweep
        sweep(folder)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return status


def sweep(folder: Path) -> None:
    """End every process below this one; remove the cgroups of instances below `folder`, mounts in it, and `folder`."""
    _end_descendants()
    for cgroup in cgroups_of(instances(folder)):
        _remove_cgroup(cgroup)
    _unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """Processes below `pid` that have not ended, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                children.setdefault(int(parent), []).append(int(entry.name) if state not in "ZX" else 0)
    found, open_ = [], [pid]
    while open_:
        below = [child for child in children.get(open_.pop(0), ()) if child]
        found += below
        open_ += below
    return found


def instances(folder: Path) -> set[str]:
    """Ids of the Slackwater instances whose state directory lies below `folder`."""
    found = set()
    for place, _, names in os.walk(folder):  # passes over folders that vanish; `rglob` raises
        if "instance-id" in names:
            with suppress(OSError):
                found.add((Path(place) / "instance-id").read_text().strip())
    return found


def cgroups_of(ids: set[str]) -> list[Path]:
    """The root cgroup of each instance, once per mounted hierarchy."""
    names = {f"slackwater-{identity}" for identity in ids if identity}
    found = []
    for directory, below, _ in os.walk(CGROUPS) if names else ():
        found += [Path(directory) / name for name in below if name in names]
        below[:] = [name for name in below if name not in names]
    return found


# ---------------------------------------------------------------------- the first process


def _wait_for(guardian: int) -> int:
    """Forward signals to the guardian until it ends; its exit status."""
    while True:
        number = signal.sigwait(_WAITED)
        if number in _ASKED:
            with suppress(ProcessLookupError):
                os.kill(guardian, number)
        ended = dict(_reaped())
        if guardian in ended:
            return ended[guardian]


# ---------------------------------------------------------------------- the guardian


def _guard(run: Run, first: int) -> NoReturn:
    """Start the command, wait for its end, sweep, and end with its exit status."""
    status = 1
    try:
        os.setpgid(0, 0)
        die_with_parent(_ORPHANED)
        adopt_orphans()
        run.folder.mkdir(mode=0o755)
        run.folder.chmod(0o755)  # PostgreSQL runs as another user below it
        try:
            status = _wait_or_end(_start(run), first)
        finally:
            sweep(run.folder)
    except OSError as error:
        sys.stderr.write(f"guardian: {error}\n")
    finally:
        os._exit(status)


def _start(run: Run) -> int:
    """The pid of the command, which the kernel kills when the guardian ends."""
    guardian, pid = os.getpid(), os.fork()
    if pid:
        return pid
    try:
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
        signal.pthread_sigmask(signal.SIG_SETMASK, run.mask)
        if os.getppid() == guardian:
            os.execvpe(run.command[0], run.command, os.environ | {"TMPDIR": str(run.folder)})  # noqa: S606 - no shell
    except OSError as error:
        sys.stderr.write(f"{run.command[0]}: {error}\n")
    os._exit(127)


def _wait_or_end(command: int, first: int) -> int:
    """The command's exit status. A signal, or the end of the first process, is one SIGINT to the command; a second
    signal, or its patience, is SIGKILL."""
    deadline, asked = float("inf"), 0
    while True:
        told = signal.sigtimedwait(_WAITED, min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        ended = dict(_reaped())
        if command in ended:
            return 128 + asked if asked else ended[command]
        number = told.si_signo if told is not None else 0
        orphaned = os.getppid() != first
        if (number in _ASKED or orphaned) and not asked:
            asked, deadline = number if number in _ASKED else signal.SIGTERM, time.monotonic() + _ORDERLY_SECONDS
            os.kill(command, signal.SIGCONT)
            os.kill(command, signal.SIGINT)
        elif number in _ASKED or time.monotonic() >= deadline:
            os.kill(command, signal.SIGKILL)


def _reaped() -> Iterator[tuple[int, int]]:
    """Children that have ended, adopted ones included, each with its exit status (128 + signal where it was killed)."""
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(found[1])
            yield found[0], code if code >= 0 else 128 - code


# ---------------------------------------------------------------------- the sweep


def _end_descendants() -> None:
    """In good order first, because PostgreSQL and the agent have more to put back than their processes."""
    for final, patience in ((False, _GRACE_SECONDS), (True, _KILL_SECONDS)):
        deadline, signalled = time.monotonic() + patience, set[int]()
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left if final else [pid for pid in left if pid not in signalled]:
                signalled.add(pid)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if final else _good_order(pid))
                    os.kill(pid, signal.SIGCONT)
            time.sleep(_POLL_SECONDS)
            dict(_reaped())
    dict(_reaped())


def _good_order(pid: int) -> signal.Signals:
    """PostgreSQL waits for its clients at SIGTERM, and not at SIGINT."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        name = ""
    return signal.SIGINT if name == "postgres" else signal.SIGTERM


def _remove_cgroup(root: Path) -> None:
    """Kill what is left in a cgroup and remove it with all below it."""
    deadline = time.monotonic() + _KILL_SECONDS
    while root.exists() and time.monotonic() < deadline:
        for procs in root.rglob("cgroup.procs"):
            with suppress(OSError):
                for pid in procs.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
        for directory in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
            with suppress(OSError):
                directory.rmdir()
        with suppress(OSError):
            root.rmdir()
        if root.exists():
            time.sleep(_POLL_SECONDS)


def _unmount(folder: Path) -> None:
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for point in reversed(points):
        if Path(point.encode().decode("unicode_escape")).is_relative_to(folder):
            ctypes.CDLL(None).umount2(os.fsencode(point), _MNT_DETACH)

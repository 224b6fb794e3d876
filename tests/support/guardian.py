"""Runs a command so that it leaves no process, cgroup, mount or temporary folder behind, however it ends.

    first process ── guardian ── command ── servers, services, workloads

The first process forwards signals and returns the command's exit status. The guardian has its own process group and
adopts orphans (child subreaper), so that all descendants of the command stay below it, including daemons. When the
first process gets a signal or dies (SIGKILL included), the guardian ends the command and sweeps: it ends processes and
removes cgroups of instances with state in the run's folder, mounts, and the folder. If the guardian is killed, the
first process sweeps.
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
    """One guarded command: its arguments, its temporary folder, and its initial signal mask."""

    command: tuple[str, ...]
    folder: Path
    mask: set[signal.Signals]


def guarded(name: str, command: Sequence[str]) -> int:
    """Run `command` below a guardian. Returns its exit status, or 128 + the number of the signal that ended it.

    `TMPDIR` of the command is a new folder named after `name`. Must be called in a single-threaded process.
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
    """Living descendants of `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                children.setdefault(int(parent), []).append(int(entry.name) if state not in "ZX" else 0)
    living, open_ = [], [pid]
    while open_:
        below = [child for child in children.get(open_.pop(0), ()) if child]
        living += below
        open_ += below
    return living


def instances(folder: Path) -> set[str]:
    """Ids of the Slackwater instances whose state directory lies below `folder`."""
    ids = set()
    for place, _, names in os.walk(folder):  # passes over folders that vanish; `rglob` raises
        if "instance-id" in names:
            with suppress(OSError):
                ids.add((Path(place) / "instance-id").read_text().strip())
    return ids


def cgroups_of(ids: set[str]) -> list[Path]:
    """The root cgroup of each instance, once per mounted hierarchy."""
    names = {f"slackwater-{identity}" for identity in ids if identity}
    roots = []
    for directory, below, _ in os.walk(CGROUPS) if names else ():
        roots += [Path(directory) / name for name in below if name in names]
        below[:] = [name for name in below if name not in names]
    return roots


# ---------------------------------------------------------------------- the first process


def _wait_for(guardian: int) -> int:
    """Forward signals to the guardian until it ends. Returns its exit status."""
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
    """Start the command, wait for its end, sweep, and exit with its status."""
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
    """Start the command, which the kernel kills when the guardian ends. Returns its pid."""
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
    """Wait for the command. Returns its exit status.

    A signal, or the end of the first process, sends SIGINT to the command; a second signal or the timeout, SIGKILL.
    """
    deadline, asked = float("inf"), 0
    while True:
        info = signal.sigtimedwait(_WAITED, min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        ended = dict(_reaped())
        if command in ended:
            return 128 + asked if asked else ended[command]
        number = info.si_signo if info is not None else 0
        orphaned = os.getppid() != first
        if (number in _ASKED or orphaned) and not asked:
            asked, deadline = number if number in _ASKED else signal.SIGTERM, time.monotonic() + _ORDERLY_SECONDS
            os.kill(command, signal.SIGCONT)
            os.kill(command, signal.SIGINT)
        elif number in _ASKED or time.monotonic() >= deadline:
            os.kill(command, signal.SIGKILL)


def _reaped() -> Iterator[tuple[int, int]]:
    """Yields ended children, including adopted ones, with their exit status (128 + signal if killed)."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(ended[1])
            yield ended[0], code if code >= 0 else 128 - code


# ---------------------------------------------------------------------- the sweep


def _end_descendants() -> None:
    """End descendants gracefully first, because PostgreSQL and the agent clean up more than their processes."""
    for final, patience in ((False, _GRACE_SECONDS), (True, _KILL_SECONDS)):
        deadline, signalled = time.monotonic() + patience, set[int]()
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left if final else [pid for pid in left if pid not in signalled]:
                signalled.add(pid)
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if final else _graceful_signal(pid))
                    os.kill(pid, signal.SIGCONT)
            time.sleep(_POLL_SECONDS)
            dict(_reaped())
    dict(_reaped())


def _graceful_signal(pid: int) -> signal.Signals:
    """The signal for an orderly stop: SIGINT for PostgreSQL, because at SIGTERM it waits for its clients."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        name = ""
    return signal.SIGINT if name == "postgres" else signal.SIGTERM


def _remove_cgroup(root: Path) -> None:
    """Kill all processes in a cgroup and remove it with its children."""
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

"""`slackwater exec`: one command in cgroups of its own, from fork to the last process of it.

The child enters its cgroups before it becomes the command, so no work of it is ever outside, and dies with its
supervisor (PR_SET_PDEATHSIG). What outlives the command in its cgroup is killed; cgroup and registry entry go last.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal as signals
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Final

from slackwater.agent.adapters.ledger_file import eviction_of
from slackwater.agent.adapters.linux.first_cpuset import assign_cpuset
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.lock import agent_runs
from slackwater.agent.adapters.linux.meters import flat
from slackwater.agent.adapters.linux.processes import kill_all, process_of
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.domain.admission import memory_limit_bytes
from slackwater.agent.domain.controls.cpu_limit import PERIOD_FILE, cpu_max_text, quota_us
from slackwater.agent.domain.oom_scores import OOM_SCORE_ADJ
from slackwater.agent.domain.weights import shares_of_request
from slackwater.model.errors import Conflict, Misconfigured, Unavailable
from slackwater.model.pods import Pod

NOT_FOUND = 127
NOT_PLACED = 125
"""The agent has no CPUs of its own for the command."""
NOT_EXECUTABLE = 126
FORWARDED = (signals.SIGTERM, signals.SIGINT, signals.SIGHUP)
GUARD_SECONDS = 1.0
Guard = Callable[[Callable[[int], None]], None]
"""Looks whether the command may go on; it is handed what sends the command a signal."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Forwarder:
    """Passes signals on to the command's process group; those that come before it exists are kept for it."""

    child: int | None = None
    early: list[int] = field(default_factory=list)

    def install(self) -> None:
        for number in FORWARDED:
            signals.signal(number, self._handle)

    def attach(self, child: int) -> None:
        self.child = child
        for number in self.early:
            self._send(number)

    def send(self, number: int) -> None:
        """Send a signal to the command's process group, as if it had come from outside."""
        self._handle(number, None)

    def detach(self) -> None:
        """The command has ended: its process group id may be reused from now on."""
        self.child = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.child is None:
            self.early.append(number)
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        if self.child is not None:
            try:
                os.killpg(self.child, number)
            except ProcessLookupError:
                return


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a command finds: its environment (None: that of this process) and its directory (empty: that of this one).

    `begins_by`: a command that could not begin by then, on the monotonic clock of the machine, does not begin.
    """

    environment: Mapping[str, str] | None = None
    directory: str = ""
    begins_by: float = math.inf


AS_HERE: Final = Surroundings()
TOO_LATE = 124
"""Exit code of a command that could not begin in time; `timeout` uses it."""


def run_managed(
    layout: Layout,
    pod: Pod,
    arguments: Sequence[str],
    cpu_limit_milli: int | None,
    cpu_period_us: int,
    guard: Guard | None = None,
    surroundings: Surroundings = AS_HERE,
) -> int:
    """Run the command as `pod` and return its exit code. Raises Misconfigured where cgroups cannot be made."""
    layout.hierarchy.require_writable()
    forwarder = Forwarder()
    forwarder.install()
    registry = PodRegistry(layout.agent_dir / "pods")
    entry = Entry(pod, process_of(os.getpid()), layout.instance)
    registry.reserve(entry)
    try:
        directories = layout.make_pod(pod.tier, pod.uid)
        _prepare(layout, pod, cpu_limit_milli, cpu_period_us)
        try:
            placement = assign_cpuset(layout, pod)
        except (Conflict, Unavailable) as error:
            return _complain(arguments[0], error.message, NOT_PLACED)
        if placement.without:
            sys.stderr.write(f"slackwater exec: {pod.name}: starts without what it asks for: {placement.without}\n")
        if placement.envs:  # what the command has itself counts
            own = os.environ if surroundings.environment is None else surroundings.environment
            surroundings = replace(surroundings, environment={**placement.envs, **own})
        registry.add(entry)  # only now: an agent must not see first values change under its hands
        if time.monotonic() > surroundings.begins_by:
            return _complain(arguments[0], "could not begin in time", TOO_LATE)
        code = run_child(arguments, forwarder, directories, OOM_SCORE_ADJ[pod.tier], guard, surroundings)
        _report_oom_kills(layout, pod, registry)
        _report_eviction(layout, pod, code, surroundings.directory or str(Path.cwd()))
        return code
    finally:
        _clean(layout, pod, registry)


def run_unmanaged(arguments: Sequence[str], guard: Guard | None = None, surroundings: Surroundings = AS_HERE) -> int:
    """Run the command where nothing can be managed; signals and exit code behave the same."""
    forwarder = Forwarder()
    forwarder.install()
    return run_child(arguments, forwarder, (), guard=guard, surroundings=surroundings)


def run_child(
    arguments: Sequence[str],
    forwarder: Forwarder,
    directories: Sequence[Path],
    oom_score_adj: int | None = None,
    guard: Guard | None = None,
    surroundings: Surroundings = AS_HERE,
) -> int:
    """Fork into the cgroups, exec, wait. 127: no such command; 126: not executable; 128+n: ended by signal n.

    `guard` is called every GUARD_SECONDS while the command runs, with what sends it a signal.
    """
    supervisor = os.getpid()
    entrances = [str(directory / "cgroup.procs") for directory in directories]

    def enter() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signals.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:  # it died before the prctl: nothing would kill this process any more
            os._exit(128 + signals.SIGKILL)
        for number in FORWARDED:  # from the cgroup on the agent may end it: exec would lose what a handler has taken
            signals.signal(number, signals.SIG_DFL)
        for entrance in entrances:
            with open(entrance, "w") as procs:  # noqa: PTH123 - between fork and exec, the less code the better
                procs.write("0")
        if oom_score_adj is not None:
            _set_oom_score(oom_score_adj)

    try:
        # preexec_fn is safe here: this process has one thread, and nothing else can enter cgroups before exec.
        child = subprocess.Popen(
            list(arguments),
            preexec_fn=enter,  # noqa: PLW1509
            process_group=0,
            env=surroundings.environment,
            cwd=surroundings.directory or None,
        )
    except FileNotFoundError as error:
        missing = "no such directory" if error.filename == surroundings.directory else "no such command"
        return _complain(str(error.filename or arguments[0]), missing, NOT_FOUND)
    except (PermissionError, OSError) as error:
        return _complain(arguments[0], error.strerror or "cannot be executed", NOT_EXECUTABLE)
    except subprocess.SubprocessError as error:
        raise Misconfigured(
            f"the command could not enter its cgroups ({error}); is another tool moving processes on this machine?",
            code="cgroup_not_entered",
        ) from error
    forwarder.attach(child.pid)
    with guarded(guard, forwarder):
        code = child.wait()
    forwarder.detach()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def guarded(guard: Guard | None, forwarder: Forwarder) -> Iterator[None]:
    """Calls the guard from a timer signal: this process must have one thread (see run_child)."""
    if guard is None:
        yield
        return

    def look(number: int, frame: FrameType | None) -> None:
        guard(forwarder.send)
        signals.setitimer(signals.ITIMER_REAL, GUARD_SECONDS)  # only now: a slow guard must not interrupt itself

    signals.signal(signals.SIGALRM, look)
    signals.setitimer(signals.ITIMER_REAL, GUARD_SECONDS)
    try:
        yield
    finally:
        signals.setitimer(signals.ITIMER_REAL, 0)
        signals.signal(signals.SIGALRM, signals.SIG_DFL)


def _set_oom_score(value: int) -> None:
    """Of this process, before the command starts. Lowering it needs CAP_SYS_RESOURCE, whose lack `slackwater doctor`
    reports: the command runs without."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 - before exec
        file.write(str(value))


def _complain(command: str, why: str, code: int) -> int:
    sys.stderr.write(f"slackwater exec: {command}: {why}\n")
    return code


def oom_kills(layout: Layout, cgroup: str) -> int:
    """How many processes of a cgroup the kernel has ended for want of memory; 0 where it does not count them."""
    name = "memory.events" if layout.hierarchy.pure_v2 else "memory.oom_control"
    try:
        text = (layout.hierarchy.memory or Path("/nonexistent")).joinpath(cgroup, name).read_bytes()
    except OSError:
        return 0
    return flat(text, b"oom_kill")[0] or 0


def _report_oom_kills(layout: Layout, pod: Pod, registry: PodRegistry) -> None:
    killed = oom_kills(layout, layout.pod(pod.tier, pod.uid))
    if killed:
        registry.note_oom_kills(pod, killed)
        processes = "a process" if killed == 1 else f"{killed} processes"
        sys.stderr.write(f"slackwater exec: {pod.name}: the kernel killed {processes} of it for want of memory (OOM)\n")


def _report_eviction(layout: Layout, pod: Pod, code: int, directory: str) -> None:
    """Say why the agent has ended the command, how it ended, where its checkpoint is, and where its record is."""
    eviction = eviction_of(layout.agent_dir, pod.uid)
    if eviction is not None:
        killed = code == 128 + signals.SIGKILL
        ended = "killed after it" if killed else f"ended within it with status {code}"
        kept = "a checkpoint may be incomplete" if code >= 128 else "a checkpoint that it wrote is whole"
        sys.stderr.write(
            f"slackwater exec: {pod.name}: evicted for {eviction.writer}, SIGTERM at"
            f" {eviction.started_at:%H:%M:%S}Z with {eviction.grace_seconds:g} s of grace, {ended}: {kept}"
            f" (working directory {directory}); why: slackwater why decision/{eviction.decision_id}\n"
        )


def _prepare(layout: Layout, pod: Pod, cpu_limit_milli: int | None, cpu_period_us: int) -> None:
    """First values of the new cgroup: weight by request, period and limit of CPU, hard memory limit of lower tiers."""
    cgroup = layout.pod(pod.tier, pod.uid)
    layout.write_weight(cgroup, shares_of_request(pod.request.cpu_milli))
    _write_first_limit(layout.cpu_directory(cgroup), cpu_limit_milli, cpu_period_us, layout.hierarchy.pure_v2)
    limit = memory_limit_bytes(pod)
    if limit is not None and layout.hierarchy.memory is not None:
        name = "memory.max" if layout.hierarchy.pure_v2 else "memory.limit_in_bytes"
        (layout.hierarchy.memory / cgroup / name).write_text(str(limit))


def _write_first_limit(directory: Path, limit_milli: int | None, period_us: int, pure_v2: bool) -> None:
    """Set period and limit (None = unlimited) of a cgroup that has no limit yet."""
    if pure_v2:
        (directory / "cpu.max").write_text(cpu_max_text(limit_milli, period_us))
        return
    (directory / PERIOD_FILE).write_text(str(period_us))
    if limit_milli is not None:
        (directory / "cpu.cfs_quota_us").write_text(str(quota_us(limit_milli, period_us)))


def _clean(layout: Layout, pod: Pod, registry: PodRegistry) -> None:
    """Nothing stays: processes, cgroup, entry, and (if no agent runs that owns them) empty tiers and root."""
    cgroup = layout.pod(pod.tier, pod.uid)
    kill_all(layout.hierarchy.directories(cgroup))
    for _ in range(100):  # a killed process holds its cgroup for a moment after it has left cgroup.procs
        if layout.hierarchy.remove(cgroup, with_children=True):
            registry.remove(pod.uid)
            break
        time.sleep(0.01)
    if not agent_runs(layout.agent_dir):
        layout.remove_unused()

"""Which cgroup trees this machine has, and how one cgroup maps onto them.

A cgroup of ours is a path like `slackwater-1a2b/batch/<uid>`. It exists once in every tree that we need: on v1 in
cpu, cpuacct and memory (a co-mounted `cpu,cpuacct` counts once) and, where a v2 tree is mounted beside them, there
too, for pressure and for killing; on pure v2 in the one tree.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slackwater.agent.domain.controls.catalog import CONTROLLERS
from slackwater.model.errors import Misconfigured

CgroupVersion = Literal["v1", "v2", "hybrid", "none"]
REQUIRED_V2 = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Mount points by purpose; None where the machine has none. On pure v2 all of them are the same tree."""

    cpu: Path | None = None
    cpuacct: Path | None = None
    memory: Path | None = None
    unified: Path | None = None
    pure_v2: bool = False
    others: tuple[tuple[str, Path], ...] = ()
    """Trees of further v1 controllers that a declared knob needs, by controller."""

    @property
    def version(self) -> CgroupVersion:
        if self.pure_v2:
            return "v2"
        if self.cpu is None:
            return "none"
        return "hybrid" if self.unified is not None else "v1"

    def trees(self) -> tuple[Path, ...]:
        """Each tree once, the one that limits CPU first."""
        trees = (self.cpu, self.cpuacct, self.memory, *(tree for _, tree in self.others), self.unified)
        return tuple(dict.fromkeys(tree for tree in trees if tree is not None))

    def tree(self, controller: str) -> Path | None:
        """The tree of one controller; None where it is not mounted."""
        if self.pure_v2:
            return self.unified
        return {"cpu": self.cpu, "cpuacct": self.cpuacct, "memory": self.memory, **dict(self.others)}.get(controller)

    def directories(self, cgroup: str) -> tuple[Path, ...]:
        """Where this cgroup lives, once per tree."""
        return tuple(tree / cgroup for tree in self.trees())

    def make_directory(self, directory: Path) -> None:
        """Create one cgroup directory; the kernel fills it. (A fake tree in tests fills it itself.)"""
        directory.mkdir(mode=0o755, exist_ok=True)
        cpusets = dict(self.others).get("cpuset")
        if cpusets is not None and directory.is_relative_to(cpusets):
            _inherit(directory)

    def remove_directory(self, directory: Path) -> bool:
        """Remove one cgroup directory; False while processes or children keep it."""
        try:
            directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def remove(self, cgroup: str, *, with_children: bool = False) -> bool:
        """Remove a cgroup from every tree; True if it is nowhere any more."""
        directories = self.directories(cgroup)
        if with_children:  # a command may have made cgroups of its own below the pod's
            below = [path for directory in directories for path in directory.glob("**/")]
            for path in sorted(below, key=lambda path: len(path.parts), reverse=True):
                self.remove_directory(path)
        for directory in directories:
            self.remove_directory(directory)
        return not any(directory.exists() for directory in directories)

    def why_unwritable(self) -> str | None:
        """One line that says why cgroups cannot be used here and what would enable them; None if they can."""
        if self.cpu is None:
            return (
                "no cgroup tree with a cpu controller is mounted on this machine; "
                "mount cgroup v2 (or the v1 cpu controller) on /sys/fs/cgroup to enable managed workloads"
            )
        for tree in self.trees():
            if _is_read_only(tree):
                return (
                    f"{tree} is mounted read-only, as in most containers; mount it writable "
                    "(docker run --privileged --cgroupns=private), to enable managed workloads"
                )
            if not os.access(tree, os.W_OK | os.X_OK):
                return (
                    f"{tree} is not writable for uid {os.geteuid()}; run as root, "
                    "or delegate a writable cgroup tree, to enable managed workloads"
                )
        return None

    def why_not_entered(self) -> str | None:
        """Move a process into a new cgroup of each tree and remove it; one line that says what was refused, or None.

        A directory may be writable and the move refused: the kernel also asks for write access to the cgroup that
        contains both the process and its destination.
        """
        for tree in filter(None, dict.fromkeys((self.cpu, self.cpuacct, self.memory, self.unified))):
            directory = tree / f"slackwater-probe-{os.getpid()}"
            try:
                directory.mkdir()
                entering = ("sh", "-c", 'echo $$ > "$1"', "sh", str(directory / "cgroup.procs"))
                done = subprocess.run(entering, capture_output=True, check=False)
            except OSError as error:
                return f"no cgroup can be made in {tree}: {error.strerror}"
            finally:
                self._remove_probe(directory)
            if done.returncode:
                return (
                    f"a process of uid {os.geteuid()} cannot enter a cgroup in {tree}; start inside the delegated "
                    "tree (systemd-run --user --scope -p Delegate=yes), or run as root, to enable managed workloads"
                )
        return None

    def _remove_probe(self, directory: Path) -> None:
        for _ in range(100):  # a process that has ended holds its cgroup for a moment
            if self.remove_directory(directory):
                return
            time.sleep(0.01)

    def require_writable(self) -> None:
        """Raises Misconfigured with the same line."""
        reason = self.why_unwritable()
        if reason is not None:
            raise Misconfigured(reason, code="cgroups_not_writable")


def _inherit(directory: Path) -> None:
    """A new cpuset of v1 is empty, and no process may enter it: it gets what its parent has."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = directory / name
        if not file.read_text().strip():
            file.write_text((directory.parent / name).read_text())


def _is_read_only(tree: Path) -> bool:
    try:
        return bool(os.statvfs(tree).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _unescaped(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def hierarchy_of(mountinfo: str) -> Hierarchy:
    """Read the text of /proc/self/mountinfo (man 5 proc). The first mount of a controller counts. Of the controllers
    that the agent can do without, one that is mounted read-only is left out.
    """
    legacy: dict[str, Path] = {}
    read_only: set[str] = set()
    unified: Path | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        if not separator:
            continue
        mount_point = Path(_unescaped(before.split()[4]))
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            unified = unified or mount_point
        elif kind == "cgroup":
            for option in options.split(","):
                if option not in legacy and "ro" in before.split()[5].split(","):
                    read_only.add(option)
                legacy.setdefault(option, mount_point)
    if "cpu" in legacy:
        needed = {"cpu", "cpuacct", "memory"}
        further = [name for name in CONTROLLERS if name in legacy and name not in needed | read_only]
        others = tuple((name, legacy[name]) for name in further)
        return Hierarchy(legacy["cpu"], legacy.get("cpuacct"), legacy.get("memory"), unified, others=others)
    if unified is not None and "cpu" in words_of(unified / "cgroup.controllers"):
        return Hierarchy(unified, unified, unified, unified, pure_v2=True)
    return Hierarchy(unified=unified)


def find_hierarchy(proc: Path = Path("/proc")) -> Hierarchy:
    """The trees of the machine we run on."""
    try:
        return hierarchy_of((proc / "self/mountinfo").read_text())
    except OSError:  # not Linux, or /proc hidden
        return Hierarchy()


def words_of(file: Path) -> tuple[str, ...]:
    """Returns the words of a file; none where it cannot be read."""
    try:
        return tuple(file.read_text().split())
    except OSError:
        return ()

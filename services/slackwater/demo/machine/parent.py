"""A cgroup with a hard memory limit and no controller above it: what a scene without Slackwater runs in."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.demo.machine.kernel import processes_below
from slackwater.demo.machine.workloads import program
from slackwater.model.errors import Misconfigured

_REMOVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """The directory of the group. Its limit is that of all processes below it together."""

    directory: Path

    @classmethod
    @contextmanager
    def limited(cls, hierarchy: Hierarchy, name: str, limit_bytes: int) -> Iterator[ParentGroup]:
        """Make the group, and remove it with all of its processes. Raises Misconfigured where memory of a group cannot
        be limited.
        """
        tree = hierarchy.tree("memory")
        if tree is None:
            raise Misconfigured("no memory controller is mounted")
        group = cls(tree / name)
        try:
            group._make(limit_bytes, pure_v2=hierarchy.pure_v2)
            yield group
        finally:
            group.remove()

    def _make(self, limit_bytes: int, *, pure_v2: bool) -> None:
        try:
            self.directory.mkdir(exist_ok=True)
            self._limit(limit_bytes, pure_v2=pure_v2)
        except OSError as error:
            raise Misconfigured(f"memory of {self.directory} cannot be limited: {error}") from error

    def _limit(self, limit_bytes: int, *, pure_v2: bool) -> None:
        limits = {"memory.max": limit_bytes, "memory.swap.max": 0} if pure_v2 else {
            "memory.limit_in_bytes": limit_bytes, "memory.memsw.limit_in_bytes": limit_bytes
        }  # fmt: skip
        for place, (name, value) in enumerate(limits.items()):
            file = self.directory / name
            if file.exists():
                file.write_text(str(value))
            elif not place:
                raise Misconfigured(f"{file} does not exist: the controller is not enabled there")
        if pure_v2:
            (self.directory / "cgroup.subtree_control").write_text("+memory")

    def child(self, name: str) -> Path:
        """The group of a program of this name."""
        return self.directory / name

    async def start(self, name: str, command: Sequence[str]) -> Process:
        """Start a program in a group of its own below this one, as a plain orchestrator would: no tiers, no scores."""
        child = self.child(name)
        child.mkdir()
        enter = f'echo 0 > "{child}/cgroup.procs" && exec "$@"'
        return await asyncio.create_subprocess_exec(
            *program("die_with_parent", "/bin/sh", "-c", enter, "sh", *command),
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )

    def remove(self) -> None:
        """Kill what is left and remove the group."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while self.directory.exists() and time.monotonic() < deadline:
            for _, pid in processes_below(self.directory):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                for child in [path for path in self.directory.iterdir() if path.is_dir()]:
                    child.rmdir()
                self.directory.rmdir()
                return
            time.sleep(0.05)

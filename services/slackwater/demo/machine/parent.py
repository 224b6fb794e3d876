"""A cgroup with a hard memory limit and no controller above it: what a scene without Slackwater runs in."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.model.errors import Misconfigured

_REMOVE_SECONDS = 3.0


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

    async def start(self, *command: str, name: str = "") -> Process:
        """Start a program in a group of its own below this one, as a plain orchestrator would: no tiers, no scores."""
        child = self.child(name or f"p{len(list(self.directory.iterdir()))}-{time.monotonic_ns()}")
        child.mkdir()
        enter = f'echo 0 > "{child}/cgroup.procs" && exec "$@"'
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "slackwater.demo.programs.die_with_parent"),
            *("/bin/sh", "-c", enter, "sh", *command),
            stdin=DEVNULL,
            stdout=DEVNULL,
            start_new_session=True,
        )

    def remove(self) -> None:
        """Kill what is left and remove the group."""
        for _ in range(int(_REMOVE_SECONDS / 0.05) if self.directory.exists() else 0):
            for procs in self.directory.glob("**/cgroup.procs"):
                for pid in procs.read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), 9)
            with suppress(OSError):
                for child in [one for one in self.directory.iterdir() if one.is_dir()]:
                    child.rmdir()
                self.directory.rmdir()
                return
            time.sleep(0.05)

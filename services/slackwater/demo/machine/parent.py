"""A cgroup with a hard memory limit and no controller above it: what a scene without Slackwater runs in."""

from __future__ import annotations

import time
from asyncio.subprocess import Process
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.linux.processes import kill_all
from slackwater.demo.machine.workloads import spawn
from slackwater.model.errors import Misconfigured

_REMOVE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """The directory of the group. Its limit is that of all processes below it together."""

    directory: Path

    async def start(self, name: str, command: Sequence[str]) -> Process:
        """Start a program in a group of its own below this one, as a plain orchestrator would: no tiers, no scores."""
        child = self.directory / name
        child.mkdir()
        return await spawn("/bin/sh", "-c", f'echo 0 > "{child}/cgroup.procs" && exec "$@"', "sh", *command)


@contextmanager
def limited_parent(hierarchy: Hierarchy, limit_bytes: int) -> Iterator[ParentGroup]:
    """Make a group with this limit, and remove it with all of its processes. Raises Misconfigured where memory of a
    group cannot be limited.
    """
    tree = hierarchy.tree("memory")
    if tree is None:
        raise Misconfigured("no memory controller is mounted")
    name = f"slackwater-plain-{time.monotonic_ns()}"
    directory = tree / name
    try:
        try:
            hierarchy.make_directory(directory)
            _limit(directory, limit_bytes, pure_v2=hierarchy.pure_v2)
        except OSError as error:
            raise Misconfigured(f"memory of {directory} cannot be limited: {error}") from error
        yield ParentGroup(directory)
    finally:
        kill_all((directory,))
        deadline = time.monotonic() + _REMOVE_SECONDS  # a killed process holds its group for a moment
        while not hierarchy.remove(name, with_children=True) and time.monotonic() < deadline:
            time.sleep(0.05)


def _limit(directory: Path, limit_bytes: int, *, pure_v2: bool) -> None:
    memory, swap = ("max", "swap.max") if pure_v2 else ("limit_in_bytes", "memsw.limit_in_bytes")
    limit = directory / f"memory.{memory}"
    if not limit.exists():
        raise Misconfigured(f"{limit} does not exist: the controller is not enabled there")
    limit.write_text(str(limit_bytes))
    if (file := directory / f"memory.{swap}").exists():
        file.write_text("0" if pure_v2 else str(limit_bytes))
    if pure_v2:
        (directory / "cgroup.subtree_control").write_text("+memory")

"""The declared memory limits as real memory cgroups around the processes of a site."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any

import yaml
from tests.faults.cgroup import Cgroup
from tests.faults.supervisor import REPOSITORY

from slackwater.model.quantities import parse_memory_bytes
from slackwater.runtime.service_list import service_list

VALUES = REPOSITORY / "deploy" / "helm" / "slackwater" / "values.yaml"
BROKER = "nats-server"


def declared() -> dict[str, int]:
    """Bytes of memory that each service may use by contracts/services.yaml, and the broker by the chart."""
    values: Mapping[str, Any] = yaml.safe_load(VALUES.read_text())
    limits = {name: part.limits.memory for name, part in service_list().services.items()}
    limits[BROKER] = values["nats"]["resources"]["limits"]["memory"]
    return {name: parse_memory_bytes(limit) for name, limit in limits.items()}


class MemoryLimits:
    """A memory cgroup for each part while the context is open. Raises Skipped where none can be made."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = dict(limits)
        self._groups: dict[str, Cgroup] = {}
        self._stack = ExitStack()

    def __enter__(self) -> MemoryLimits:
        with self._stack as stack:
            for name, limit in self.limits.items():
                group = stack.enter_context(Cgroup("memory", f"limit-{name}"))
                group.write("memory.max" if group.is_v2 else "memory.limit_in_bytes", str(limit))
                self._groups[name] = group
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def around(self, name: str, command: list[str]) -> list[str]:
        """The command of a part, in its group; as it is for a part without a limit."""
        return self._groups[name].around(command) if name in self._groups else command

    def admit(self, name: str, pid: int) -> None:
        """Put a process that runs into its group. What it used before stays counted where it was."""
        if name in self._groups:
            self._groups[name].admit(pid)

    def peak(self, name: str) -> int:
        """The most bytes in use since `begin`, with page cache; on kernels that cannot begin anew, since the start."""
        group = self._groups[name]
        return group.number("memory.peak" if group.is_v2 else "memory.max_usage_in_bytes")

    def begin(self) -> None:
        """Begin the peaks anew."""
        for group in self._groups.values():
            with suppress(OSError):
                (group.path / ("memory.peak" if group.is_v2 else "memory.max_usage_in_bytes")).write_text("0")

    def kills(self) -> dict[str, int]:
        """Processes that the kernel has killed for their memory, by part; parts without any are left out."""
        found = {name: _killed(group) for name, group in self._groups.items()}
        return {name: count for name, count in found.items() if count}


def _killed(group: Cgroup) -> int:
    return group.number("memory.events" if group.is_v2 else "memory.oom_control", "oom_kill")

"""Which NUMA zone a pod is bound to, as the kernel has it: every process of it, its CPUs and its memory.

/proc/PID/status tells what cpusets and affinities together allow (`Cpus_allowed_list`, `Mems_allowed_list`), on cgroup
v1 and v2 alike, also where a cgroup has no cpuset files of its own. Nothing is read where there is one zone only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slackwater.kernels.topology.cpu_list import parse_cpu_list

MOST_PROCESSES = 64
"""Of a pod: the others are taken to be where these are."""


@dataclass(frozen=True, slots=True)
class Zones:
    """The CPUs of each zone by its name; none where the machine is one zone."""

    cpus: Mapping[str, frozenset[int]]
    proc: Path = Path("/proc")

    def of(self, pids: Iterable[int]) -> str | None:
        """The one zone in which all of these processes must run and have their memory; None for any other case. A
        process that is gone meanwhile says nothing."""
        zones: set[str | None] = set()
        for pid in [*pids][:MOST_PROCESSES]:
            if (allowed := self._allowed(pid)) is not None:
                zones.add(self._zone_of(*allowed))
        return zones.pop() if len(zones) == 1 else None

    def _zone_of(self, cpus: frozenset[int], memories: frozenset[int]) -> str | None:
        return next(
            (zone for zone, own in self.cpus.items() if cpus <= own and memories == {int(zone.removeprefix("node"))}),
            None,
        )

    def _allowed(self, pid: int) -> tuple[frozenset[int], frozenset[int]] | None:
        try:
            text = (self.proc / str(pid) / "status").read_text()
        except OSError:
            return None
        lines = dict(line.partition(":")[::2] for line in text.splitlines())
        cpus, memories = lines.get("Cpus_allowed_list", ""), lines.get("Mems_allowed_list", "")
        return (parse_cpu_list(cpus), parse_cpu_list(memories)) if cpus.strip() and memories.strip() else None


def zones_of(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> Zones:
    """Of this machine: those that have CPUs, where there are at least two."""
    zones: dict[str, frozenset[int]] = {}
    for place in sorted((sys / "devices/system/node").glob("node[0-9]*")):
        try:
            cpus = parse_cpu_list((place / "cpulist").read_text())
        except OSError:
            continue
        if cpus:
            zones[place.name] = cpus
    return Zones(zones if len(zones) > 1 else {}, proc)

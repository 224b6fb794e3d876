"""The upper memory level of a pod: the lowest that any writer requests, and never below what the pod needs.

cgroup v2 has memory.high. Above it the kernel reclaims, and lets a pod that has nothing to reclaim wait up to two
seconds for each few pages: a pod that grew after the cut would stand still, holding its memory (Linux 6.1: 12 MiB in
57 s; with a level raised every 3 s, 136 MiB in 24 s). So the level is at least a little more than what the pod cannot
drop, computed again at every sample. On v1 the hard limit stands in, with a wider margin, and while it is in force
`memory.oom_control` pauses the pod at its limit instead of ending it, until the next sample raises the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slackwater.agent.domain.admission import memory_limit_bytes
from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.controls.node_memory import UNLIMITED_V1, parse_v1
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import READ_REFUSED, CgroupFiles, KernelFile, KnobSpec, Target, Value
from slackwater.agent.domain.kubelet import KubeletView
from slackwater.model.errors import Misconfigured
from slackwater.model.pods import Pod

MIB = 1 << 20
MARGIN_BYTES = 64 * MIB
"""Stays above what a pod cannot drop, or a quarter of that, whichever is more."""
GROWTH_SHARE = 10
"""On v2 the level is at least a tenth more than what a pod cannot drop, as the planner's `unreclaimableMargin`."""
GRAIN_BYTES = 16 * MIB
"""Limits on v1, and raised levels on v2, are multiples of this, so that small changes of usage cause no writes."""
MOST_RECLAIMED_BYTES = 256 * MIB
"""One write on v1 drops at most so much, because the agent waits for it (about 0.1 s)."""
RESTORE_STEP = 0.25
"""Share of what a limit holds back, by which the limits of a lapsed lease rise per second."""


def floor_v1(unreclaimable_bytes: int) -> int:
    """The lowest limit that leaves a pod room to grow until the next sample."""
    return unreclaimable_bytes + max(MARGIN_BYTES, unreclaimable_bytes // 4)


def bounded_v1(high_bytes: int, used_bytes: int, cache_bytes: int) -> int:
    """The hard limit that stands in for an upper level: never below the floor, and not far below the usage."""
    least = max(high_bytes, floor_v1(max(0, used_bytes - cache_bytes)), used_bytes - MOST_RECLAIMED_BYTES)
    return -(-least // GRAIN_BYTES) * GRAIN_BYTES


def bounded_v2(high_bytes: int, used_bytes: int, cache_bytes: int) -> int:
    """The level in memory.high: the requested one, raised for a pod that has grown beyond it without page cache."""
    unreclaimable = max(0, used_bytes - cache_bytes)
    least = unreclaimable + unreclaimable // GROWTH_SHARE
    return high_bytes if high_bytes >= least else -(-least // GRAIN_BYTES) * GRAIN_BYTES


def _usage_v1(files: CgroupFiles) -> tuple[int, int]:
    """Usage and page cache in bytes, those of child cgroups included."""
    counters = dict(line.split(" ", 1) for line in files.read("memory.stat").splitlines())
    try:
        cache = int(counters["total_inactive_file"]) + int(counters["total_active_file"])
    except (KeyError, ValueError) as error:
        raise Misconfigured("memory.stat has no page cache", code=READ_REFUSED, field="memory.stat") from error
    return int(files.read("memory.usage_in_bytes")), cache


def usage_v2(files: CgroupFiles) -> tuple[int, int]:
    """Usage and page cache in bytes. Raises Misconfigured where the kernel does not tell."""
    counters = dict(line.split(" ", 1) for line in files.read("memory.stat").splitlines())
    try:
        cache = int(counters["inactive_file"]) + int(counters["active_file"])
    except (KeyError, ValueError) as error:
        raise Misconfigured("memory.stat has no page cache", code=READ_REFUSED, field="memory.stat") from error
    return int(files.read("memory.current")), cache


def _render_v2(value: Value, files: CgroupFiles) -> str:
    return "max" if value is None else str(bounded_v2(int(value), *usage_v2(files)))


def _render_v1(value: Value, files: CgroupFiles) -> str:
    return "-1" if value is None else str(bounded_v1(int(value), *_usage_v1(files)))


MEMORY_HIGH = KnobSpec(
    name="memory_high",
    default=None,
    v1=KernelFile("memory", "memory.limit_in_bytes", _render_v1, parse_v1),
    v2=KernelFile("memory", "memory.high", _render_v2),
    least=0,
)
"""In bytes; None = unlimited."""


def _render_pause(value: Value, files: CgroupFiles) -> str:
    """Pause a pod at its limit, unless the floor has reached the pod's own hard limit, `value`: that is the kernel's
    to enforce."""
    used, cache = _usage_v1(files)
    return "1" if bounded_v1(0, used, cache) < int(value or 0) else "0"


def _shown_pause(text: str, files: CgroupFiles) -> str:
    return "1" if "oom_kill_disable 1" in text.splitlines() else "0"


def _parse_pause(text: str, files: CgroupFiles) -> Value:
    return int(text)


MEMORY_PAUSE = KnobSpec(
    name="memory_pause",
    default=0,
    v1=KernelFile("memory", "memory.oom_control", _render_pause, _parse_pause, _shown_pause),
)
"""1: the kernel pauses the pod at its hard limit instead of ending a process of it. cgroup v1 only."""


def lowest(documents: Sequence[DesiredState], machine: MachineView) -> Mapping[str, int]:
    """The lowest upper level per pod. The limits of a lapsed lease rise every full second by a share of the node's
    memory, and no longer count when they have reached it."""
    merged: dict[str, int] = {}
    for document in sorted(documents, key=lambda document: document.writer):
        lapsed = document.lapsed_seconds(machine.now)
        for throttle in document.memory_throttles:
            limit = eased(throttle.high_bytes, lapsed, machine.capacity_bytes)
            if lapsed < 0 or limit < machine.capacity_bytes:
                merged[throttle.pod_uid] = min(limit, merged.get(throttle.pod_uid, limit))
    return merged


def eased(high_bytes: int, lapsed_seconds: float, capacity_bytes: int) -> int:
    """A limit so long after its lease: one step at once, one more per full second."""
    if lapsed_seconds < 0:
        return high_bytes
    return high_bytes + math.ceil((math.floor(lapsed_seconds) + 1) * RESTORE_STEP * capacity_bytes)


def _bound(merged: Mapping[str, int], pods: Sequence[Pod], machine: MachineView) -> Iterator[tuple[Pod, int]]:
    for pod in pods if merged else ():
        high = merged.get(pod.uid)
        if high is not None and pod.uid not in machine.protected and high < hard_limit(pod, machine.kubelet):
            yield pod, high


def hard_limit(pod: Pod, kubelet: KubeletView | None = None) -> int:
    """The limit with which `slackwater exec` starts a pod, or what a pod of Kubernetes has borrowed, as a number."""
    if kubelet is None:
        return memory_limit_bytes(pod) or UNLIMITED_V1
    share = kubelet.shares.get(pod.uid)
    return (share.memory_bytes if share is not None else None) or UNLIMITED_V1


@dataclass(frozen=True, slots=True)
class MemoryHigh:
    """See Control. Merged requests are upper levels in bytes by pod uid."""

    knob: ClassVar[KnobSpec] = MEMORY_HIGH
    lowers_only: ClassVar[bool] = True
    recheck_ticks: ClassVar[int] = 1

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> Mapping[str, int]:
        return lowest(documents, machine)

    def desired(self, merged: Mapping[str, int], pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        return {pod.uid: high for pod, high in _bound(merged, pods, machine)}


@dataclass(frozen=True, slots=True)
class MemoryPause:
    """See Control. The pods that MemoryHigh limits, each with its own hard limit."""

    knob: ClassVar[KnobSpec] = MEMORY_PAUSE
    lowers_only: ClassVar[bool] = False
    recheck_ticks: ClassVar[int] = 1

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> Mapping[str, int]:
        return lowest(documents, machine)

    def desired(self, merged: Mapping[str, int], pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        return {pod.uid: hard_limit(pod, machine.kubelet) for pod, _ in _bound(merged, pods, machine)}

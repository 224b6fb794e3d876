"""The CPU limit of a pod: the lowest limit that any writer requests, never above the one before us.

A pod of Kubernetes that has borrowed CPU is also limited to what it has borrowed. On cgroup v1 no group may have a
lower limit than a child of it, so the containers that the kubelet has limited are throttled with their pod, before it.

A pod in its grace period writes a checkpoint, so no limit holds it below its part of ENDING_SHARE.

A writer whose lease has run out is not obeyed and not forgotten at once: its limits rise with every full second by a
quarter of the node, until they no longer bind.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import CgroupFiles, ContainerOf, KernelFile, KnobSpec, Target, Value
from slackwater.model.pods import Pod

RESTORE_STEP = 0.25
"""Share of the node's CPU by which the limits of a lapsed lease rise per second."""
ENDING_SHARE = 0.2
"""Share of the node's CPU that all pods in their grace period may use together, whatever limits are requested. A pod
that is held to a few milli-cores cannot write its checkpoint within its grace and is killed without it; more than a
fifth would be felt by prod, for which the pods are evicted."""
MIN_QUOTA_US = 1000
"""The kernel refuses a smaller CFS quota (kernel/sched/core.c: min_cfs_quota_period is 1 ms)."""
PERIOD_FILE = "cpu.cfs_period_us"
_MIN_MILLI = 10


def quota_us(limit_milli: int, period_us: int) -> int:
    """The quota per period of a limit; never below the kernel's minimum."""
    return max(MIN_QUOTA_US, limit_milli * period_us // 1000)


def _milli_of_quota(quota: str, period_us: int) -> int | None:
    """The limit in milli-cores of a quota, rounded to the nearest; None = unlimited."""
    return None if quota in ("max", "-1") else (int(quota) * 1000 + period_us // 2) // period_us


def _render_v1(value: Value, files: CgroupFiles) -> str:
    period_us = int(files.read(PERIOD_FILE))
    return "-1" if value is None else str(quota_us(int(value), period_us))


def _parse_v1(text: str, files: CgroupFiles) -> Value:
    return None if text == "-1" else _milli_of_quota(text, int(files.read(PERIOD_FILE)))


def _render_v2(value: Value, files: CgroupFiles) -> str:
    return cpu_max_text(value, int(files.read("cpu.max").split()[1]))


def _parse_v2(text: str, files: CgroupFiles) -> Value:
    quota, *period_us = text.split()
    return _milli_of_quota(quota, int(period_us[0] if period_us else files.read("cpu.max").split()[1]))


def cpu_max_text(value: Value, period_us: int) -> str:
    """The text of cpu.max on v2."""
    return f"{'max' if value is None else quota_us(int(value), period_us)} {period_us}"


CPU_LIMIT = KnobSpec(
    name="cpu_limit",
    default=None,
    v1=KernelFile("cpu", "cpu.cfs_quota_us", _render_v1, _parse_v1),
    v2=KernelFile("cpu", "cpu.max", _render_v2, _parse_v2),
    least=_MIN_MILLI,
)
"""In milli-cores; None = unlimited."""


@dataclass(frozen=True, slots=True)
class CpuLimit:
    """See Control. Merged requests are limits in milli-cores by pod uid."""

    knob: ClassVar[KnobSpec] = CPU_LIMIT
    lowers_only: ClassVar[bool] = True
    recheck_ticks: ClassVar[int] = 1

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> Mapping[str, int]:
        """The lowest limit wins; one that has risen to the node's capacity after its lease no longer counts."""
        lowest: dict[str, int] = {}
        for document in sorted(documents, key=lambda document: document.writer):
            lapsed = document.lapsed_seconds(machine.now)
            for throttle in document.throttles:
                limit = eased(throttle.limit_milli, lapsed, machine.capacity_milli)
                if lapsed < 0 or limit < machine.capacity_milli:
                    lowest[throttle.pod_uid] = min(limit, lowest.get(throttle.pod_uid, limit))
        return lowest

    def desired(self, merged: Mapping[str, int], pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        """Of live pods that are not protected."""
        kubelet = machine.kubelet
        if not merged and (kubelet is None or not kubelet.shares):
            return {}
        living = {pod.uid for pod in pods} - machine.protected
        values: dict[Target, Value] = {}
        limits = _with_grace(merged, living & machine.ending, machine.capacity_milli)
        for uid, limit in limits.items():
            if uid in living:
                if kubelet is not None and kubelet.is_v1:
                    values.update({ContainerOf(uid, name): limit for name in kubelet.limited.get(uid, ())})
                values[uid] = limit
        for uid, share in kubelet.shares.items() if kubelet is not None else ():
            if share.cpu_milli is not None and uid in living:
                values[uid] = min(share.cpu_milli, limits.get(uid, share.cpu_milli))
        return values


def _with_grace(limits: Mapping[str, int], ending: Collection[str], capacity_milli: int) -> Mapping[str, int]:
    """The limits, none of a pod in its grace period below that pod's part of ENDING_SHARE."""
    limited = [uid for uid in limits if uid in ending]
    least = math.floor(ENDING_SHARE * capacity_milli / max(1, len(limited)))
    return {**limits, **{uid: max(limits[uid], least) for uid in limited}}


def eased(limit_milli: int, lapsed_seconds: float, capacity_milli: int) -> int:
    """A limit so long after its lease: one step at once, one more per full second."""
    if lapsed_seconds < 0:
        return limit_milli
    steps = math.floor(lapsed_seconds) + 1
    return limit_milli + math.ceil(steps * RESTORE_STEP * capacity_milli)


def milli(value: Value) -> int | None:
    """A value of CPU_LIMIT as a number."""
    return None if value is None else int(value)

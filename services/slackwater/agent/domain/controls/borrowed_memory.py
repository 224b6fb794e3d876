"""The hard memory limit of pods of Kubernetes and their containers that have borrowed memory.

On cgroup v1 the file of the pod itself is left to its upper memory level (controls/memory_high), so the limits of its
containers bound it; what no container holds (a volume in memory) is then not limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.controls.memory_high import usage_v2
from slackwater.agent.domain.controls.node_memory import parse_v1
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import CgroupFiles, ContainerOf, KernelFile, KnobSpec, Target, Value
from slackwater.model.errors import Misconfigured
from slackwater.model.pods import Pod

_GRAIN_BYTES = 64 << 10
"""Kernels round limits down to pages, which have at most so many bytes. Rounded here, a limit reads as it was
written."""


def _render(value: Value, unlimited: str) -> str:
    return unlimited if value is None else str(int(value) // _GRAIN_BYTES * _GRAIN_BYTES)


def _render_v1(value: Value, files: CgroupFiles) -> str:
    return _render(value, "-1")


def _render_v2(value: Value, files: CgroupFiles) -> str:
    return _render(value, "max")


def _writes_v2(text: str, files: CgroupFiles) -> Sequence[tuple[str, str]]:
    """Raises Misconfigured where more than the limit is held that cannot be dropped: the kernel would end processes at
    once. What exceeds the limit later is the kernel's to end."""
    if text != "max":
        used, cache = usage_v2(files)
        if used - cache > int(text):
            raise Misconfigured(f"memory.max: more than {text} bytes are held", code="write_refused")
    return (("memory.max", text),)


MEMORY_MAX = KnobSpec(
    name="memory_max",
    default=None,
    v1=KernelFile("memory", "memory.limit_in_bytes", _render_v1, parse_v1),
    v2=KernelFile("memory", "memory.max", _render_v2, writes=_writes_v2),
    least=0,
)
"""In bytes; None = unlimited."""


@dataclass(frozen=True, slots=True)
class BorrowedMemory:
    """See Control. The values come from the specs of the pods; documents have no part in it."""

    knob: ClassVar[KnobSpec] = MEMORY_MAX
    lowers_only: ClassVar[bool] = True
    recheck_ticks: ClassVar[int] = 5

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> None:
        return None

    def desired(self, merged: None, pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        kubelet = machine.kubelet
        if kubelet is None or not kubelet.shares:
            return {}
        values: dict[Target, Value] = {}
        for pod in pods:
            share = kubelet.shares.get(pod.uid)
            if share is None or pod.uid in machine.protected:
                continue
            for name, one in share.containers.items():
                if one.memory_bytes is not None:
                    values[ContainerOf(pod.uid, name)] = one.memory_bytes
            if share.memory_bytes is not None and not kubelet.is_v1:
                values[pod.uid] = share.memory_bytes
        return values

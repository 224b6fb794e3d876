"""An example of a control: memory above a pod's request is reclaimed early while a writer is alive.

One module with the knob and the control; docs/how-to/add-a-control.md is written after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import CgroupFiles, KernelFile, KnobSpec, Target, Value
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier

UNLIMITED_V1 = 1 << 62
"""Above this v1 shows no limit: the largest multiple of a page that fits."""


def render_v1(value: Value, files: CgroupFiles) -> str:
    return "-1" if value is None else str(value)


def parse_v1(text: str, files: CgroupFiles) -> Value:
    return None if int(text) >= UNLIMITED_V1 else int(text)


MEMORY_SOFT = KnobSpec(
    name="memory_soft",
    default=None,
    v1=KernelFile("memory", "memory.soft_limit_in_bytes", render_v1, parse_v1),
    v2=KernelFile("memory", "memory.high"),
)
"""In bytes; None = unlimited."""


@dataclass(frozen=True, slots=True)
class MemorySoft:
    """See Control. The merged request is whether any writer's lease lives."""

    knob: ClassVar[KnobSpec] = MEMORY_SOFT
    lowers_only: ClassVar[bool] = True
    recheck_ticks: ClassVar[int] = 1

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> bool:
        return any(document.alive(machine.now) for document in documents)

    def desired(self, merged: bool, pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        if not merged:
            return {}
        return {
            pod.uid: pod.request.memory_bytes
            for pod in pods
            if pod.tier is Tier.BATCH and pod.uid not in machine.protected
        }

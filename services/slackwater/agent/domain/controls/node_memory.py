"""The hard memory limit of all pods together, where the operator gives the agent a part of the machine.

The kernel then ends processes of these pods, and of no others, when they need more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import CgroupFiles, KernelFile, KnobSpec, Target, Tree, Value
from slackwater.model.errors import Misconfigured
from slackwater.model.pods import Pod

UNLIMITED_V1 = 1 << 62
"""cgroup v1 shows an unlimited value as the largest multiple of the page size below 2^63."""


def render_v1(value: Value, files: CgroupFiles) -> str:
    return "-1" if value is None else str(value)


def parse_v1(text: str, files: CgroupFiles) -> Value:
    return None if int(text) < 0 or int(text) >= UNLIMITED_V1 else int(text)


def _writes_v2(text: str, files: CgroupFiles) -> Sequence[tuple[str, str]]:
    """Raises Misconfigured where the limit is below the usage: v1 refuses such a limit, v2 ends processes for it."""
    if text != "max" and int(files.read("memory.current")) > int(text):
        raise Misconfigured(f"memory.max: the pods hold more than {text} bytes", code="write_refused")
    return (("memory.max", text),)


NODE_MEMORY = KnobSpec(
    name="node_memory",
    default=None,
    v1=KernelFile("memory", "memory.limit_in_bytes", render_v1, parse_v1),
    v2=KernelFile("memory", "memory.max", writes=_writes_v2),
)
"""In bytes; None = unlimited."""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """See Control. The value comes from the settings; documents have no part in it."""

    knob: ClassVar[KnobSpec] = NODE_MEMORY
    lowers_only: ClassVar[bool] = True
    recheck_ticks: ClassVar[int] = 5

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> int | None:
        return machine.memory_limit_bytes

    def desired(self, merged: int | None, pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        return {} if merged is None else {Tree.ROOT: merged}

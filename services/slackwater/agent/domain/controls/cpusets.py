"""The CPUs and memory nodes of pods, where any pod has CPUs of its own (see usecases/place_pods).

cgroup v1 and v2 have files of the same names. A pod that may run anywhere has what it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slackwater.agent.domain.controls.control import Cpuset, MachineView
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import CgroupFiles, KernelFile, KnobSpec, Target, Value
from slackwater.model.pods import Pod


def _render(value: Value, files: CgroupFiles) -> str:
    return str(value or "")


def _parse(text: str, files: CgroupFiles) -> Value:
    return text


def _spec(name: str, file: str) -> KnobSpec:
    kernel = KernelFile("cpuset", file, _render, _parse)
    return KnobSpec(name=name, default=None, v1=kernel, v2=kernel)


CPUSET_CPUS = _spec("cpuset_cpus", "cpuset.cpus")
CPUSET_MEMS = _spec("cpuset_mems", "cpuset.mems")


@dataclass(frozen=True, slots=True)
class CpusetControl:
    """See Control. One per file."""

    knob: KnobSpec
    part: Callable[[Cpuset], str]
    lowers_only: bool = False
    recheck_ticks: int = 3

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> Mapping[str, str]:
        texts = {uid: self.part(cpuset) for uid, cpuset in machine.cpusets.items()}
        return {uid: text for uid, text in texts.items() if text}

    def desired(self, merged: Mapping[str, str], pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        return {pod.uid: merged[pod.uid] for pod in pods if pod.uid in merged}


CPUSETS = (
    CpusetControl(CPUSET_CPUS, lambda cpuset: cpuset.cpus),
    CpusetControl(CPUSET_MEMS, lambda cpuset: cpuset.mems),
)

"""The CPU weights of pods and tiers, by the policy that protects prod most; below every weight, cpu.idle.

On a node of Kubernetes only pods that borrow CPU are weighed, with their containers, whatever the policy: tiers have no
cgroup there, and the kubelet writes the weights of its classes every minute (BestEffort has the smallest).

Weight and cpu.idle are one value here: the kernel refuses a weight while a group is idle, and forgets the weight of
before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import CgroupFiles, ContainerOf, KernelFile, KnobSpec, Target, Value
from slackwater.agent.domain.kubelet import KubeletView
from slackwater.agent.domain.weights import (
    IDLE_SHARES,
    MIN_SHARES,
    SHARES_PER_CPU,
    Policy,
    shares_of_weight,
    weigh,
    weight_of_shares,
)
from slackwater.model.pods import Pod

IDLE = "idle"
"""What a weight file is said to hold while its group is scheduled as idle."""
IDLE_FILE = "cpu.idle"
_SHOWN_WHILE_IDLE = ("3", "0", "1")
"""What kernels show in cpu.shares (3) and cpu.weight (0 or 1) of an idle group: only these are looked at twice."""
_PROTECTION = (Policy.BY_REQUEST, Policy.BY_TIER, Policy.BY_TIER_IDLE)
"""The more prod is protected, the later."""


def _shares(value: Value, files: CgroupFiles) -> int | None:
    """cpu.shares of a value; None for IDLE_SHARES, the smallest weight instead where the kernel has no cpu.idle."""
    if value != IDLE_SHARES:
        return int(value or 0)
    return None if files.exists(IDLE_FILE) else MIN_SHARES


def _render_v1(value: Value, files: CgroupFiles) -> str:
    shares = _shares(value, files)
    return IDLE if shares is None else str(shares)


def _render_v2(value: Value, files: CgroupFiles) -> str:
    shares = _shares(value, files)
    return IDLE if shares is None else str(weight_of_shares(shares))


def _parse_v1(text: str, files: CgroupFiles) -> Value:
    return IDLE_SHARES if text == IDLE else int(text)


def _parse_v2(text: str, files: CgroupFiles) -> Value:
    return IDLE_SHARES if text == IDLE else shares_of_weight(int(text))


def _shown(text: str, files: CgroupFiles) -> str:
    if text not in _SHOWN_WHILE_IDLE or not files.exists(IDLE_FILE):
        return text
    return IDLE if files.read(IDLE_FILE).strip() == "1" else text


def _writes_to(name: str, text: str, files: CgroupFiles) -> Sequence[tuple[str, str]]:
    """A group that stops being idle has the kernel's default weight for a moment, as a tier had before us."""
    if text == IDLE:
        return ((IDLE_FILE, "1"),)
    is_idle = files.exists(IDLE_FILE) and files.read(IDLE_FILE).strip() == "1"
    return ((IDLE_FILE, "0"), (name, text)) if is_idle else ((name, text),)


def _writes_v1(text: str, files: CgroupFiles) -> Sequence[tuple[str, str]]:
    return _writes_to("cpu.shares", text, files)


def _writes_v2(text: str, files: CgroupFiles) -> Sequence[tuple[str, str]]:
    return _writes_to("cpu.weight", text, files)


CPU_WEIGHT = KnobSpec(
    name="cpu_weight",
    default=SHARES_PER_CPU,
    v1=KernelFile("cpu", "cpu.shares", _render_v1, _parse_v1, _shown, _writes_v1),
    v2=KernelFile("cpu", "cpu.weight", _render_v2, _parse_v2, _shown, _writes_v2),
    words=MappingProxyType({IDLE_SHARES: IDLE}),
)
"""In cpu.shares (2..262144); IDLE_SHARES = scheduled as idle."""


@dataclass(frozen=True, slots=True)
class CpuWeight:
    """See Control. The merged request is the weight policy in force."""

    knob: ClassVar[KnobSpec] = CPU_WEIGHT
    lowers_only: ClassVar[bool] = False
    recheck_ticks: ClassVar[int] = 10

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> Policy | None:
        """The policy that protects prod more wins; None if no writer ever declared one.

        A lapsed lease does not change weights: they cost nothing while the machine is idle.
        """
        return max({document.policy for document in documents}, key=_PROTECTION.index, default=None)

    def desired(self, merged: Policy | None, pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        if machine.kubelet is not None:
            return _shares_of_borrowers(machine.kubelet, {pod.uid for pod in pods} - machine.protected)
        if merged is None:
            return {}
        weights = weigh(pods, merged, machine.ending)
        shares: list[tuple[Target, Value]] = [*weights.pods.items(), *weights.tiers.items()]
        return dict(shares)


def _shares_of_borrowers(kubelet: KubeletView, living: AbstractSet[str]) -> Mapping[Target, Value]:
    values: dict[Target, Value] = {}
    for uid, share in kubelet.shares.items():
        if uid in living:
            values[uid] = share.shares
            values.update({ContainerOf(uid, name): one.shares for name, one in share.containers.items()})
    return values

"""The interface of a control. Pure: a control reads no machine and writes nothing.

`usecases/apply_controls` calls `merge` and `desired`, compares the result with the machine and lets the actuator write.
Two controls never set the same kind of knob: several writers are merged by the one control that owns it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import KnobSpec, Target, Value
from slackwater.agent.domain.kubelet import KubeletView
from slackwater.model.pods import Pod

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Cpuset:
    """Lists of CPUs and of memory nodes, as the kernel prints them. Empty memory nodes: any."""

    cpus: str
    mems: str = ""


@dataclass(frozen=True, slots=True)
class MachineView:
    """What a control reads of the machine. `now` is monotonic, as `DesiredState.received` is; `protected` are the uids
    of pods that are never throttled."""

    capacity_milli: int
    now: float
    protected: frozenset[str] = frozenset()
    capacity_bytes: int = 0
    memory_limit_bytes: int | None = None
    """What all pods together may use, if the operator bounds it."""
    ending: frozenset[str] = frozenset()
    """The uids of pods that have been sent SIGTERM and are in their grace period."""
    cpusets: Mapping[str, Cpuset] = field(default_factory=dict)
    """CPUs and memory nodes by uid of a pod, for pods that do not have all of the machine."""
    kubelet: KubeletView | None = None
    """Where the cgroups are a kubelet's. Then tiers have none, and only what its pods borrow is the agent's to say."""


class Control(Protocol[M]):
    """Sets one kind of knob. `lowers_only`: a value that is not below the one before us is not written.
    `recheck_ticks`: an unchanged desired state is compared with the machine every so many samples."""

    @property
    def knob(self) -> KnobSpec: ...

    @property
    def lowers_only(self) -> bool: ...

    @property
    def recheck_ticks(self) -> int: ...

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> M:
        """What all writers together request; decides which one wins where they disagree."""
        ...

    def desired(self, merged: M, pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        """The value by target. Targets that are left out go back to what they held before us."""
        ...


def lowers(value: Value, original: Value) -> bool:
    """Whether a value is below the one before us; None = unlimited."""
    if value is None:
        return False
    return original is None or int(value) < int(original)

"""The requested memory of prod pods, protected from reclaim: memory.low or memory.min of cgroup v2.

The protection of a cgroup counts only within that of its parents, so the tier and the root of all tiers get the sum.
cgroup v1 has no such file; nothing is written there. On a node of Kubernetes the parents are the kubelet's, so nothing
is written there either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.agent.domain.controls.control import MachineView
from slackwater.agent.domain.desired_state import DesiredState
from slackwater.agent.domain.knobs import KernelFile, KnobSpec, Target, Tree, Value
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier

MEMORY_LOW = KnobSpec(name="memory_low", default=0, v2=KernelFile("memory", "memory.low"))
MEMORY_MIN = KnobSpec(name="memory_min", default=0, v2=KernelFile("memory", "memory.min"))
_STRENGTH = ("none", "low", "min")


@dataclass(frozen=True, slots=True)
class RequestProtection:
    """See Control. One per file; the strongest protection that any writer requests is in force. A lapsed lease does not
    end it, as with weights: it costs nothing while there is memory."""

    knob: KnobSpec
    kind: str
    lowers_only: bool = False
    recheck_ticks: int = 10

    def merge(self, documents: Sequence[DesiredState], machine: MachineView) -> bool:
        kinds = [document.memory_protection for document in documents]
        return max(kinds, key=_STRENGTH.index, default="none") == self.kind

    def desired(self, merged: bool, pods: Sequence[Pod], machine: MachineView) -> Mapping[Target, Value]:
        """A file that holds 0 already is not written."""
        if machine.kubelet is not None:
            return {}
        requests = {pod.uid: pod.request.memory_bytes for pod in pods if pod.tier is Tier.PROD} if merged else {}
        total = sum(requests.values())
        if total == 0:
            return {}
        values: dict[Target, Value] = {Tree.ROOT: total, Tier.PROD: total}
        return values | {uid: request for uid, request in requests.items() if request}


PROTECTIONS = (RequestProtection(MEMORY_LOW, "low"), RequestProtection(MEMORY_MIN, "min"))

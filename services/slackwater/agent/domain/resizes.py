"""Which files a kubelet has written anew because it resized a pod in place.

A file that another program changed is left to that program. A resize is no such change: the kubelet owns its pods, and
what it writes is from then on what the pod had before the agent. The kubelet writes the cgroups first and says so in
the pod's status afterwards, so a file may be found changed before or after that is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.knobs import Knob
from slackwater.agent.domain.kubelet import KubeletView, resized

SETTLING_TICKS = 10
"""So many samples after the status has changed, files that are found changed are taken to be part of the resize."""


@dataclass(slots=True)
class Resizes:
    """Keeps what the kubelet said of every pod, and when it said something else."""

    _in_force: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    _revision: int = -1
    _until: dict[str, int] = field(default_factory=dict)

    def update(self, kubelet: KubeletView, tick: int) -> None:
        """Compare with the last view. Pods of which the kubelet says something for the first time are not resized."""
        if self._until:
            self._until = {uid: until for uid, until in self._until.items() if until >= tick}
        if kubelet.revision == self._revision:
            return
        for uid, in_force in kubelet.in_force.items():
            if resized(self._in_force.get(uid, {}), in_force):
                self._until[uid] = tick + SETTLING_TICKS
        self._revision, self._in_force = kubelet.revision, kubelet.in_force

    def of_resized(self, knobs: Iterable[Knob], kubelet: KubeletView) -> set[Knob]:
        """Those of the knobs that lie in the cgroup of a pod that was resized lately."""
        if not self._until:
            return set()
        places = tuple(f"/{kubelet.cgroups[uid]}/" for uid in self._until if uid in kubelet.cgroups)
        return {knob for knob in knobs if any(place in knob.path for place in places)}

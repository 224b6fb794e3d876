"""The cgroups of a kubelet's pods and their containers, looked for in the trees of this machine. It makes none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.linux.knob_files import MOUNTED_FILES, KernelFiles
from slackwater.agent.adapters.linux.places import controller_directory, is_inside
from slackwater.agent.domain.kubelet_cgroups import container_cgroups, is_below_a_pod, kubepods_cgroups, pod_cgroups
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.tiers import Tier

_WRITTEN_V1, _WRITTEN_V2 = ("cpu.shares", "memory.limit_in_bytes"), ("cpu.weight", "memory.max")
"""One file of each controller: all files of a tree have the same owner and mode."""


@dataclass(slots=True)
class KubeletTree:
    """See CgroupPlaces. `cgroup_root` are the names of the kubelet's --cgroup-root. Both cgroup drivers are looked for
    at every look, because a restarted kubelet may use the other one."""

    hierarchy: Hierarchy
    cgroup_root: tuple[str, ...] = ()
    kernel: KernelFiles = MOUNTED_FILES
    _found: dict[str, str] = field(default_factory=dict)
    """The cgroups found last, by the uid that the kubelet uses."""
    _places: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The cgroup of all pods; of the first driver where there is none."""
        candidates = kubepods_cgroups(self.cgroup_root)
        return next((cgroup for cgroup in candidates if self._is_there(cgroup)), candidates[0])

    def require_writable(self) -> None:
        """Raises Misconfigured that says what is missing. The trees themselves need not be writable, because nothing is
        made in them: their roots have no write permission, so that only a capability would allow it."""
        if self.hierarchy.cpu is None:
            raise Misconfigured(self.hierarchy.why_unwritable() or "", code="cgroups_not_writable")
        if not self._is_there(self.root):
            raise Misconfigured(
                f"no cgroup {self.root} below {self.hierarchy.cpu}: is this a node of Kubernetes with its cgroup tree "
                "mounted? A kubelet with --cgroup-root needs SLACKWATER_AGENT_CGROUP_ROOT",
                code="no_kubepods",
            )
        for name in _WRITTEN_V2 if self.hierarchy.pure_v2 else _WRITTEN_V1:
            file = f"{self.directory(name.partition('.')[0], self.root)}/{name}"
            if not self.kernel.is_writable(file):
                raise Misconfigured(
                    f"{file} is not writable for uid {os.geteuid()}: run as root, with the node's cgroup tree mounted "
                    "for writing",
                    code="cgroups_not_writable",
                )

    def find_pod(self, kubelet_uid: str) -> str | None:
        """The cgroup of a pod; None while there is none."""
        known = self._found.get(kubelet_uid)
        if known is not None and self._is_there(known):
            return known
        found = next((cgroup for cgroup in pod_cgroups(kubelet_uid, self.cgroup_root) if self._is_there(cgroup)), None)
        if found is None:
            self._found.pop(kubelet_uid, None)
        else:
            self._found[kubelet_uid] = found
        return found

    def find_container(self, pod_cgroup: str, runtime: str, container_id: str) -> str:
        """Raises NotFound where no name that the runtime may have given it is there."""
        for name in container_cgroups(runtime, container_id):
            if self._is_there(f"{pod_cgroup}/{name}"):
                return f"{pod_cgroup}/{name}"
        raise NotFound(f"container {container_id} has no cgroup below {pod_cgroup}", field="container")

    def place(self, places: Mapping[str, str]) -> None:
        """Set the cgroups of the pods by their uid at the API server."""
        self._places = places

    def group(self, tier: Tier) -> None:
        """None: a kubelet's classes are no tiers."""

    def pod(self, tier: Tier, uid: str) -> str:
        """See CgroupPlaces."""
        try:
            return self._places[uid]
        except KeyError:
            raise NotFound(f"pod {uid} is not (any more) on this machine", field="pod_uid") from None

    def directory(self, controller: str, cgroup: str) -> Path:
        """See CgroupPlaces."""
        return controller_directory(self.hierarchy, controller, cgroup)

    def holds(self, path: str) -> bool:
        """Only below the cgroup of a pod: all above it is the kubelet's."""
        roots = kubepods_cgroups(self.cgroup_root)
        return is_below_a_pod(path) and any(is_inside(self.hierarchy, root, path) for root in roots)

    def _is_there(self, cgroup: str) -> bool:
        return self.hierarchy.cpu is not None and self.kernel.exists(f"{self.hierarchy.cpu}/{cgroup}/cpu.stat")

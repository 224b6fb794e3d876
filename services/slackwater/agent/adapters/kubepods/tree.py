"""The cgroups of a kubelet's pods and their containers, looked for in the trees of this machine. It makes none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.linux.knob_files import MOUNTED_FILES, KernelFiles
from slackwater.agent.adapters.linux.places import controller_directory, is_inside
from slackwater.agent.domain.kubelet_cgroups import container_cgroups, is_below_a_pod, kubepods_cgroups, pod_cgroups
from slackwater.model.errors import NotFound
from slackwater.model.tiers import Tier


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

    def is_there(self) -> bool:
        """Whether a kubelet has made the cgroup of all pods."""
        return self._is_there(self.root)

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

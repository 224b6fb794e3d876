"""Where the cgroups of pods lie: what gauges and knobs need to know of a layout, of whatever origin."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.model.errors import NotFound
from slackwater.model.tiers import Tier


class CgroupPlaces(Protocol):
    """Cgroups are paths below the mount points of a hierarchy."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    @property
    def root(self) -> str:
        """The cgroup that holds all pods."""
        ...

    def group(self, tier: Tier) -> str | None:
        """The cgroup that holds the pods of a tier and no others; None if there is none."""
        ...

    def pod(self, tier: Tier, uid: str) -> str:
        """The cgroup of a pod. Raises NotFound where it would have to be looked for and is not there."""
        ...

    def directory(self, controller: str, cgroup: str) -> Path:
        """The directory of a cgroup in the tree of a controller. Raises NotFound without that controller."""
        ...

    def holds(self, path: str) -> bool:
        """Whether a file is one that the agent may write: a journal is input, too."""
        ...


def controller_directory(hierarchy: Hierarchy, controller: str, cgroup: str) -> Path:
    """Raises NotFound without that controller."""
    tree = hierarchy.tree(controller)
    if tree is None:
        raise NotFound(f"no cgroup tree with a {controller} controller is mounted", field=controller)
    return tree / cgroup


def is_inside(hierarchy: Hierarchy, cgroup: str, path: str) -> bool:
    """Whether a file lies in a cgroup or below it, in any tree."""
    roots = tuple(f"{directory}/" for directory in hierarchy.directories(cgroup))
    return path.startswith(roots) and ".." not in path.split("/")

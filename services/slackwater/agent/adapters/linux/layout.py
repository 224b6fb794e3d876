"""The instance's cgroups: root, tiers, pods. Created on demand by the first user, removed by the last.

    slackwater-<instance>/            weight 1024 x CPUs: all managed pods together weigh like the whole machine
        prod/ mid/ batch/ free/       one per tier
            <pod uid>/                the processes of one managed command

`slackwater exec` and the agent both may create and remove; every step tolerates the other having been faster.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.linux.hierarchy import REQUIRED_V2, Hierarchy, words_of
from slackwater.agent.adapters.linux.places import controller_directory, is_inside
from slackwater.agent.domain.controls.catalog import CONTROLLERS
from slackwater.agent.domain.weights import weight_of_shares
from slackwater.model.errors import Misconfigured
from slackwater.model.json_text import parse_json_text
from slackwater.model.tiers import Tier
from slackwater.runtime.owned_files import write_atomically

_ATTEMPTS = 5
_CONTROLLERS_RECORD = "controllers.json"


@dataclass(frozen=True, slots=True)
class Layout:
    """Names and places of one instance. `agent_dir` is where the instance keeps its state."""

    hierarchy: Hierarchy
    instance: str
    agent_dir: Path
    cpus: int

    @property
    def root(self) -> str:
        return f"slackwater-{self.instance}"

    def tier(self, tier: Tier) -> str:
        return f"{self.root}/{tier.value}"

    def pod(self, tier: Tier, uid: str) -> str:
        return f"{self.root}/{tier.value}/{uid}"

    def cpu_directory(self, cgroup: str) -> Path:
        """Where CPU limit and weight are written. Raises Misconfigured without a cpu controller."""
        if self.hierarchy.cpu is None:
            raise Misconfigured(self.hierarchy.why_unwritable() or "no cpu controller", code="cgroups_not_writable")
        return self.hierarchy.cpu / cgroup

    def directory(self, controller: str, cgroup: str) -> Path:
        """The directory of a cgroup in the tree of a controller. Raises NotFound without that controller."""
        if controller == "cpu":
            return self.cpu_directory(cgroup)
        return controller_directory(self.hierarchy, controller, cgroup)

    def group(self, tier: Tier) -> str:
        """See CgroupPlaces."""
        return self.tier(tier)

    def holds(self, path: str) -> bool:
        """See CgroupPlaces."""
        return is_inside(self.hierarchy, self.root, path)

    def write_weight(self, cgroup: str, shares: int) -> None:
        """The first CPU weight of a cgroup."""
        name, text = ("cpu.weight", weight_of_shares(shares)) if self.hierarchy.pure_v2 else ("cpu.shares", shares)
        (self.cpu_directory(cgroup) / name).write_text(str(text))

    def ensure_tiers(self) -> None:
        """Instance root (with its weight) and all tiers exist afterwards."""
        self.hierarchy.require_writable()
        try:
            if self.hierarchy.pure_v2:
                self._enable_at_mount()
            self._make(self.root)
            self.write_weight(self.root, 1024 * self.cpus)
            for tier in Tier:
                self._make(self.tier(tier))
        except FileNotFoundError:  # another process removed a directory between two steps
            raise
        except OSError as error:
            raise Misconfigured(
                f"cannot create cgroups below {self.hierarchy.cpu}: {error.strerror}; "
                "run as root or delegate a writable cgroup tree",
                code="cgroups_not_writable",
            ) from error

    def make_pod(self, tier: Tier, uid: str) -> tuple[Path, ...]:
        """Create the pod's directories, and its parents if they were just removed; returns them."""
        for _ in range(_ATTEMPTS):
            try:
                self.ensure_tiers()
                for directory in self.hierarchy.directories(self.pod(tier, uid)):
                    self.hierarchy.make_directory(directory)
            except FileNotFoundError:  # the last of the others just removed tier or root
                continue
            return self.hierarchy.directories(self.pod(tier, uid))
        raise Misconfigured(f"cgroups of {self.root} vanish while they are made; is another cleaner at work?")

    def remove_unused(self) -> bool:
        """Remove tiers and root where no pod is left in them; True if the whole instance is gone."""
        for tier in Tier:
            self.hierarchy.remove(self.tier(tier))
        gone = self.hierarchy.remove(self.root)
        if gone:
            self._restore_at_mount()
        return gone

    def _make(self, cgroup: str) -> None:
        for directory in self.hierarchy.directories(cgroup):
            self.hierarchy.make_directory(directory)
            if self.hierarchy.pure_v2:
                _enable(directory, _controllers(directory))

    def _enable_at_mount(self) -> None:
        """Controllers for children of the mount point: a file that is not ours, so what it held is kept on disk."""
        mount = self.cpu_directory("")
        present = (mount / "cgroup.subtree_control").read_text().split()
        missing = [name for name in _controllers(mount) if name not in present]
        if not missing:
            return
        record = self.agent_dir / _CONTROLLERS_RECORD
        added = _added(record)
        further = [name for name in missing if name not in added]
        if further:  # also where a newer version needs more than the one that made the record
            write_atomically(record, json.dumps({"mount": str(mount), "added": [*added, *further]}))
        _enable(mount, tuple(missing))

    def _restore_at_mount(self) -> None:
        record = self.agent_dir / _CONTROLLERS_RECORD
        if not record.exists():
            return
        enabled = parse_json_text(record.read_text())
        for name in enabled["added"]:
            try:
                Path(enabled["mount"], "cgroup.subtree_control").write_text(f"-{name}")
            except OSError as error:
                if error.errno != errno.EBUSY:  # another program relies on it by now
                    raise
        record.unlink(missing_ok=True)


def _added(record: Path) -> list[str]:
    """The controllers that this instance has enabled; none where no record can be read."""
    try:
        return list(parse_json_text(record.read_text())["added"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _controllers(directory: Path) -> tuple[str, ...]:
    """What to enable for children: cpu and memory, and what further knobs need where the kernel offers it."""
    further = [name for name in CONTROLLERS if name not in REQUIRED_V2]
    offered = words_of(directory / "cgroup.controllers") if further else ()
    return (*REQUIRED_V2, *(name for name in further if name in offered))


def _enable(directory: Path, controllers: tuple[str, ...]) -> None:
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))

"""Our cgroups: instance root, tiers, pods. Created on demand by whoever comes first, removed by whoever is last.

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

from slackwater.agent.adapters.linux.hierarchy import CONTROLLERS_V2, Hierarchy
from slackwater.agent.adapters.linux.weight_files import weight_file, weight_text
from slackwater.model.errors import Misconfigured
from slackwater.model.tiers import Tier

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

    def ensure_tiers(self) -> None:
        """Instance root (with its weight) and all tiers exist afterwards."""
        self.hierarchy.require_writable()
        try:
            if self.hierarchy.pure_v2:
                self._enable_at_mount()
            self._make(self.root)
            file = weight_file(self.cpu_directory(self.root), self.hierarchy.pure_v2)
            file.write_text(weight_text(1024 * self.cpus, self.hierarchy.pure_v2))
            for tier in Tier:
                self._make(self.tier(tier))
        except FileNotFoundError:  # somebody removed a directory between two of our steps
            raise
        except OSError as error:
            raise Misconfigured(
                f"cannot create cgroups below {self.hierarchy.cpu}: {error.strerror}; "
                "run as root or delegate a writable cgroup tree",
                code="cgroups_not_writable",
            ) from error

    def make_pod(self, tier: Tier, uid: str) -> tuple[Path, ...]:
        """Create the pod's directories, and its parents if somebody just removed them; returns them."""
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
        """Remove tiers and root where nobody is left in them; True if the whole instance is gone."""
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
                _enable(directory, CONTROLLERS_V2)

    def _enable_at_mount(self) -> None:
        """Controllers for children of the mount point: a file that is not ours, so what it held is kept on disk."""
        mount = self.cpu_directory("")
        present = (mount / "cgroup.subtree_control").read_text().split()
        missing = [name for name in CONTROLLERS_V2 if name not in present]
        if not missing:
            return
        self.agent_dir.mkdir(parents=True, exist_ok=True)
        record = self.agent_dir / _CONTROLLERS_RECORD
        if not record.exists():
            record.write_text(json.dumps({"mount": str(mount), "added": missing}))
        _enable(mount, tuple(missing))

    def _restore_at_mount(self) -> None:
        record = self.agent_dir / _CONTROLLERS_RECORD
        if not record.exists():
            return
        kept = json.loads(record.read_text())
        for name in kept["added"]:
            try:
                Path(kept["mount"], "cgroup.subtree_control").write_text(f"-{name}")
            except OSError as error:
                if error.errno != errno.EBUSY:  # somebody else relies on it by now: not ours any more
                    raise
        record.unlink(missing_ok=True)


def _enable(directory: Path, controllers: tuple[str, ...]) -> None:
    (directory / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))

"""What a kubelet and its container runtime do to cgroups, for the tests of the agent's driver: no kubelet runs here.

Written from the kubelet's sources (pkg/kubelet/cm: qos_container_manager, pod_container_manager, helpers_linux;
kuberuntime_container_linux): it makes the cgroups of classes and pods, writes those of the classes anew every minute,
those of a pod once and at a resize; the runtime makes a container's cgroup and writes it at start and at a resize.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.kubelet.pods import container_id
from tests.world.machine.kernel import FOREIGN, Kernel

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.domain.kubelet_cgroups import SCOPES, cgroupfs_path, systemd_path
from slackwater.agent.domain.weights import shares_of_request, weight_of_shares
from slackwater.apiserver.node_pods import CPU, MEMORY, ContainerRecord, NodePod, parse_node_pod

CLASSES = {"Guaranteed": (), "Burstable": ("burstable",), "BestEffort": ("besteffort",)}
PERIOD_US = 100_000
SETTINGS = (
    *("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_burst_us", "cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle"),
    *("memory.limit_in_bytes", "memory.max", "memory.high", "memory.low", "memory.min", "memory.oom_control"),
)
_ids = itertools.count(1)
Document = dict[str, Any]


class CgroupMachine(Protocol):
    """A machine on which cgroups are made, as a kubelet does it."""

    @property
    def hierarchy(self) -> Hierarchy: ...

    def make(self, cgroup: str) -> None:
        """Its parent is there. One that is there stays."""
        ...

    def remove(self, cgroup: str) -> bool: ...

    def write(self, path: str, text: str) -> None: ...


@dataclass
class MountedMachine:
    """Directories: of this kernel, or fake ones. On cgroup v1 a v2 tree beside it is left alone, as by a kubelet."""

    hierarchy: Hierarchy

    def make(self, cgroup: str) -> None:
        for tree in self.trees():
            directory = tree / cgroup
            if self.hierarchy.pure_v2:
                (directory.parent / "cgroup.subtree_control").write_text("+cpu +memory")
            self.hierarchy.make_directory(directory)

    def remove(self, cgroup: str) -> bool:
        return self.hierarchy.remove(cgroup)

    def write(self, path: str, text: str) -> None:
        Path(path).write_text(text)

    def texts(self, top: str) -> dict[str, str]:
        """Every file that holds a setting, of all cgroups below one."""
        return {
            str(file): file.read_text().strip()
            for tree in self.trees()
            for name in SETTINGS
            for file in sorted((tree / top).glob(f"**/{name}"))
        }

    def trees(self) -> Iterator[Path]:
        for tree in self.hierarchy.trees():
            if tree != self.hierarchy.unified or self.hierarchy.pure_v2:
                yield tree


@dataclass
class KernelMachine:
    """The kernel of the simulated world: writes are those of another program than the agent."""

    kernel: Kernel

    @property
    def hierarchy(self) -> Hierarchy:
        return self.kernel.hierarchy

    def make(self, cgroup: str) -> None:
        self.kernel.make(cgroup)

    def remove(self, cgroup: str) -> bool:
        return self.kernel.remove(cgroup)

    def write(self, path: str, text: str) -> None:
        self.kernel.write_as(FOREIGN, path, text)


@dataclass
class KubeletStandIn:
    """`driver` is the kubelet's cgroupDriver, `runtime` the scheme of container ids, `root` its cgroupRoot."""

    machine: CgroupMachine
    driver: str = "systemd"
    runtime: str = "containerd"
    root: tuple[str, ...] = ()
    node_milli: int = 4000
    pods: dict[str, Document] = field(default_factory=dict)
    containers: dict[tuple[str, str], str] = field(default_factory=dict)
    """The cgroup of each container that runs, by uid and name."""

    @property
    def is_v2(self) -> bool:
        return self.machine.hierarchy.pure_v2

    def start(self) -> None:
        """Make the cgroups of all pods and of the classes; those that are there stay, as at a restart."""
        for names in ((), ("burstable",), ("besteffort",)):
            self._make(self._path("kubepods", *names))
        self.write_classes()

    def write_classes(self) -> None:
        """What the kubelet does every minute."""
        requested = sum(self._pod(uid).record.request.cpu_milli for uid in self.pods)
        self.write_shares(self._path("kubepods"), shares_of_request(self.node_milli))
        self.write_shares(self._path("kubepods", "burstable"), shares_of_request(requested))
        self.write_shares(self._path("kubepods", "besteffort"), 2)

    def run(self, document: Document) -> Document:
        """Make the pod's cgroup and start its containers; returns the pod as its status then says."""
        uid = document["metadata"]["uid"]
        self.pods[uid] = document
        self._make(self.cgroup(uid))
        self.write_pod(uid)
        for one in document["spec"]["containers"]:
            self.start_container(uid, one["name"])
        return document

    def start_container(self, uid: str, name: str) -> str:
        """Start it (again, with another id); returns its cgroup."""
        self.stop_container(uid, name)
        number = container_id(next(_ids))
        prefix = SCOPES[self.runtime]
        in_systemd, in_cgroupfs = f"{prefix}-{number}.scope", f"crio-{number}" if self.runtime == "cri-o" else number
        cgroup = f"{self.cgroup(uid)}/{in_systemd if self.driver == 'systemd' else in_cgroupfs}"
        self._make(cgroup)
        self.containers[uid, name] = cgroup
        self._say(uid, name, f"{self.runtime}://{number}")
        self.write_container(uid, name)
        return cgroup

    def stop_container(self, uid: str, name: str) -> None:
        cgroup = self.containers.pop((uid, name), None)
        if cgroup is not None:
            self.machine.remove(cgroup)

    def stop(self, uid: str) -> None:
        """The pod ends."""
        for _, name in [key for key in self.containers if key[0] == uid]:
            self.stop_container(uid, name)
        assert self.machine.remove(self.cgroup(uid))
        del self.pods[uid]

    def resize(self, uid: str, name: str, resources: Mapping[str, Mapping[str, str]]) -> None:
        """In place: the pod first where its limit grows, the container first where it shrinks; then the status says
        so. Raises OSError where the kernel refuses it."""
        before = sum(one.limits.get(CPU, 0) for one in self._pod(uid).containers)
        for one in self.pods[uid]["spec"]["containers"]:
            if one["name"] == name:
                one["resources"] = {key: {**one["resources"].get(key, {}), **value} for key, value in resources.items()}
        grows = sum(one.limits.get(CPU, 0) for one in self._pod(uid).containers) >= before
        if grows:
            self.write_pod(uid)
        self.write_container(uid, name)
        self.write_pod(uid)
        self._say(uid, name, None)

    def try_resize(self, uid: str, name: str, resources: Mapping[str, Mapping[str, str]]) -> None:
        """As `resize`. Where the kernel refuses it the kubelet would repeat it; here the pod stays as it was."""
        before = copy.deepcopy(self.pods[uid])
        try:
            self.resize(uid, name, resources)
        except OSError:
            self.pods[uid] = before
            with suppress(OSError):
                self.write_pod(uid)
            with suppress(OSError):
                self.write_container(uid, name)

    def try_restart(self, uid: str, name: str) -> None:
        """As `start_container`. On v1 the kernel refuses a container with a higher CPU limit than its throttled pod:
        then it does not run, and the kubelet would try again."""
        before = copy.deepcopy(self.pods[uid])
        try:
            self.start_container(uid, name)
        except OSError:
            self.stop_container(uid, name)
            self.pods[uid] = before

    def remove(self) -> None:
        """Every cgroup that was made."""
        for uid in list(self.pods):
            self.stop(uid)
        places = [("kubepods", "besteffort"), ("kubepods", "burstable"), ("kubepods",)]
        for names in (*places, *((self.root,) if self.root else ())):
            path = systemd_path if self.driver == "systemd" else cgroupfs_path
            self.machine.remove(path(names if names == self.root else [*self.root, *names]))

    def cgroup(self, uid: str) -> str:
        pod = self._pod(uid)
        return self._path("kubepods", *CLASSES[pod.qos_class], f"pod{pod.kubelet_uid}")

    def file(self, cgroup: str, name: str) -> str:
        """The path of a file; its name begins with that of its controller."""
        tree = self.machine.hierarchy.tree(name.partition(".")[0])
        assert tree is not None
        return f"{tree}/{cgroup}/{name}"

    # what it writes

    def write_pod(self, uid: str) -> None:
        pod, cgroup = self._pod(uid), self.cgroup(uid)
        if pod.qos_class == "BestEffort":
            self.write_shares(cgroup, 2)
            return
        containers = pod.containers
        quota = (
            sum(one.limits.get(CPU, 0) for one in containers) if all(one.limits.get(CPU) for one in containers) else 0
        )
        memory = sum(one.limits.get(MEMORY, 0) for one in containers)
        is_limited = all(one.limits.get(MEMORY) for one in containers)
        self._write_limits(cgroup, pod.record.request.cpu_milli, quota, memory if is_limited else 0)

    def write_container(self, uid: str, name: str) -> None:
        if (uid, name) not in self.containers:
            return  # it waits for its next start
        one: ContainerRecord = next(one for one in self._pod(uid).containers if one.name == name)
        limits = one.limits
        self._write_limits(
            self.containers[uid, name], one.requests.get(CPU, 0), limits.get(CPU, 0), limits.get(MEMORY, 0)
        )

    def write_shares(self, cgroup: str, shares: int) -> None:
        name, number = ("cpu.weight", weight_of_shares(shares)) if self.is_v2 else ("cpu.shares", shares)
        self.machine.write(self.file(cgroup, name), str(number))

    def _write_limits(self, cgroup: str, request_milli: int, limit_milli: int, memory_bytes: int) -> None:
        self.write_shares(cgroup, shares_of_request(request_milli))
        if limit_milli:
            quota = limit_milli * PERIOD_US // 1000
            name, text = ("cpu.max", f"{quota} {PERIOD_US}") if self.is_v2 else ("cpu.cfs_quota_us", str(quota))
            self.machine.write(self.file(cgroup, name), text)
        if memory_bytes:
            name = "memory.max" if self.is_v2 else "memory.limit_in_bytes"
            self.machine.write(self.file(cgroup, name), str(memory_bytes))

    def _say(self, uid: str, name: str, run_as: str | None) -> None:
        """The status: the container's id, and what it was given."""
        statuses = self.pods[uid]["status"]["containerStatuses"]
        status = next((one for one in statuses if one["name"] == name), None)
        if status is None:
            statuses.append(status := {"name": name, "state": {"running": {}}})
        spec = next(one for one in self.pods[uid]["spec"]["containers"] if one["name"] == name)
        status["resources"] = {
            part: {key: amount for key, amount in amounts.items() if key in (CPU, MEMORY)}
            for part, amounts in spec["resources"].items()
        }
        if run_as is not None:
            status["containerID"] = run_as

    def _pod(self, uid: str) -> NodePod:
        return parse_node_pod(self.pods[uid])

    def _path(self, *names: str) -> str:
        return (systemd_path if self.driver == "systemd" else cgroupfs_path)([*self.root, *names])

    def _make(self, cgroup: str) -> None:
        parts = cgroup.split("/")
        for depth in range(1, len(parts) + 1):
            self.machine.make("/".join(parts[:depth]))

"""Gives pods CPUs and NUMA nodes of this machine: admits new ones, releases those that ended, and publishes the answer
on which `slackwater exec` waits before it starts a command.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slackwater.agent.domain.controls.control import Cpuset
from slackwater.agent.domain.resource_manager.checkpoint import Entries
from slackwater.agent.domain.resource_manager.cpu_plugin import CPU, CpuPlugin
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import ManagerRules, ResourceManager, drive
from slackwater.agent.domain.resource_manager.memory_plugin import MEMORY, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import QOS_LEVEL, Allocation, PluginCall, QosLevel
from slackwater.agent.domain.resource_manager.plugin import (
    CPU_ENHANCEMENT,
    MEMORY_ENHANCEMENT,
    ResourcePlugin,
    answer_of,
)
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec
from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list
from slackwater.kernels.topology.pools import HolderKind
from slackwater.model.errors import InvalidInput, Misconfigured, NotFound, Unavailable
from slackwater.model.pods import LABEL_CPU_POOL, LABEL_NUMA_BOUND, Pod
from slackwater.model.tiers import QoSClass
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_MAIN = "main"
_RECONCILE_SECONDS = 3.0
LEVELS = {
    QoSClass.LSE: QosLevel.DEDICATED,
    QoSClass.LSR: QosLevel.DEDICATED,
    QoSClass.LS: QosLevel.SHARED,
    QoSClass.BE: QosLevel.RECLAIMED,
    QoSClass.SYSTEM: QosLevel.SYSTEM,
}


class PlacementFiles(Protocol):
    """The checkpoint, and the answer for `slackwater exec`. Writing raises Unavailable."""

    def load(self) -> Entries | None:
        """The allocations before the start; None where there are none, or a damaged file was set aside."""
        ...

    def save(self, entries: Entries) -> None:
        """Durably and atomically."""
        ...

    def publish(self, answer: Mapping[str, Any]) -> None:
        """Atomically."""
        ...


def pod_spec(pod: Pod, level: QosLevel | None = None) -> PodSpec:
    """Returns a managed command as a pod of one container; of another level than its own where one is given."""
    wishes = {"numa_binding": "true"} if pod.labels.get(LABEL_NUMA_BOUND) == "true" else {}
    pool = pod.labels.get(LABEL_CPU_POOL)
    annotations = {
        QOS_LEVEL: (level or LEVELS[pod.qos]).value,
        MEMORY_ENHANCEMENT: json.dumps(wishes),
        CPU_ENHANCEMENT: json.dumps({"cpuset_pool": pool} if pool else {}),
    }
    requests = {CPU: pod.request.cpu_milli / 1000, MEMORY: float(pod.request.memory_bytes)}
    container = ContainerSpec(_MAIN, requests)
    return PodSpec(pod.uid, pod.name, pod.namespace, [container], labels=pod.labels, annotations=annotations)


@dataclass(slots=True)
class PlacePods:
    """`arriving` are pods that are being made; `present` reads the CPUs of a running pod. `off`: why nothing is placed
    here; empty where it is."""

    cpu: CpuPlugin
    memory: MemoryPlugin
    files: PlacementFiles
    clock: Clock
    arriving: Callable[[], Sequence[Pod]] = tuple
    present: Callable[[str], str] = lambda uid: ""
    off: str = ""
    cpusets: Mapping[str, Cpuset] = field(default_factory=dict)
    """What pods are to have; empty while every pod may run anywhere."""
    refused: dict[str, str] = field(default_factory=dict)
    manager: ResourceManager = field(init=False)
    _plugins: Mapping[str, ResourcePlugin] = field(init=False)
    _loaded: bool = False
    _saved: Entries = field(default_factory=dict)
    _published: Mapping[str, Any] | None = None
    _reconciled_at: float | None = None

    def __post_init__(self) -> None:
        self._plugins = {CPU: self.cpu, MEMORY: self.memory}
        endpoints = {name: PluginEndpoint(name, plugin.options) for name, plugin in self._plugins.items()}
        self.manager = ResourceManager(ManagerRules(self.cpu.machine.numa_nodes), endpoints)

    def update(self, pods: Sequence[Pod]) -> None:
        """Place the pods that are new; at once for those, and every three seconds for what else has changed."""
        if self.off:
            return
        now = self.cpu.now = self.clock.monotonic()
        arriving = [pod for pod in self.arriving() if all(pod.uid != other.uid for other in pods)]
        uids = {pod.uid for pod in (*pods, *arriving)}
        if not self._loaded:
            self._load(pods)
        placed = {uid for uid, _ in self.manager.entries}
        due = self._reconciled_at is None or now - self._reconciled_at >= _RECONCILE_SECONDS
        if not due and placed | self.refused.keys() == uids:
            return
        self._reconciled_at = now
        self.refused = {uid: why for uid, why in self.refused.items() if uid in uids}
        for pod in pods:
            if pod.uid not in placed and not self._admit(pod_spec(pod)):
                self._admit(
                    pod_spec(pod, QosLevel.SHARED)
                )  # it runs already: beside the others is better than anywhere
        admitted = [pod for pod in arriving if pod.uid not in placed and self._admit(pod_spec(pod))]
        drive(self.manager.reconcile([pod_spec(pod) for pod in (*pods, *arriving)]), self._answer)
        self._save(admitted)
        self.cpusets = self._cpusets()

    def publish(self) -> None:
        """Publish what is in force now, once the other pods have moved."""
        answer = self.answer()
        if answer != self._published:
            try:
                self.files.publish(answer)
                self._published = answer
            except Unavailable as error:
                _log.warning("placements not published", error=error.message)

    def answer(self) -> dict[str, Any]:
        """Returns the placements as `slackwater exec` and `slackwater get topology` read them."""
        if self.off:
            return {"off": self.off}
        kinds = {HolderKind.SHARED: QoSClass.LS, HolderKind.RECLAIMED: QoSClass.BE, HolderKind.SYSTEM: QoSClass.SYSTEM}
        held = frozenset(cpu for spec in self.cpu.holders.values() for cpu in spec.cpus)
        open_to_all = self.cpu.machine.ids - held - self.cpu.demand.reserved
        return {
            "off": "",
            "pods": {
                uid: {"cpus": allocated[CPU].result, "mems": self._mems(allocated), "kind": self._kind(uid)}
                for (uid, _), allocated in sorted(self.manager.entries.items())
                if CPU in allocated
            },
            "refused": dict(self.refused),
            "others": dict.fromkeys(sorted(kinds.values()), cpu_list_text(open_to_all)) if self.cpusets else {},
            "pools": [decision.sentence() for decision in self.cpu.decisions],
            "machine": [[cpu.id, cpu.core, cpu.cache, cpu.numa, cpu.socket] for cpu in self.cpu.machine.cpus],
        }

    def _kind(self, uid: str) -> str:
        spec = self.cpu.holders.get((uid, _MAIN))
        return "" if spec is None else spec.kind.value

    def _admit(self, spec: PodSpec) -> bool:
        admission = drive(self.manager.admit(spec), self._answer)
        for why in admission.without.values():
            _log.warning("pod placed without a resource", pod=spec.uid, name=spec.name, why=why)
        if not admission.is_admitted:
            self.refused[spec.uid] = admission.message
            _log.warning("pod not placed", pod=spec.uid, name=spec.name, why=admission.message)
        return admission.is_admitted

    def _answer(self, call: PluginCall) -> Any:
        return answer_of(self._plugins[call.resource], call)

    def _load(self, pods: Sequence[Pod]) -> None:
        """Continue with the checkpoint; what it lacks of dedicated pods is what their cgroups hold."""
        self._loaded = True
        entries = self.files.load() or {}
        self.manager.load({key: allocated for key, allocated in entries.items() if key[0] in {pod.uid for pod in pods}})
        for pod in pods:
            spec = pod_spec(pod)
            if spec.level is QosLevel.DEDICATED and not self.manager.allocated(pod.uid):
                self._rebuild(pod)
            for name, allocation in self.manager.entries.get((pod.uid, _MAIN), {}).items():
                request = spec.request_of(spec.containers[0], name, {name: spec.containers[0].requests[name]})
                try:
                    self._plugins[name].adopt(request, allocation)
                except InvalidInput as error:
                    _log.warning("placement not readable", pod=pod.uid, error=error.message)

    def _rebuild(self, pod: Pod) -> None:
        try:
            cpus = parse_cpu_list(self.present(pod.uid)) & self.cpu.machine.ids
        except (NotFound, Misconfigured, InvalidInput):
            return
        if cpus and len(cpus) * 1000 < pod.request.cpu_milli + 1000 and cpus != self.cpu.machine.ids:
            allocation = Allocation("CpusetCpus", float(len(cpus)), cpu_list_text(cpus))
            self.manager.entries[pod.uid, _MAIN] = {CPU: allocation}

    def _save(self, admitted: Sequence[Pod]) -> None:
        """Pods that arrive are refused where the disk does not take the checkpoint: they would be lost at a restart."""
        if self.manager.entries == self._saved:
            return
        try:
            self.files.save(self.manager.entries)
            self._saved = {key: dict(allocated) for key, allocated in self.manager.entries.items()}
        except Unavailable as error:
            _log.error("placements not saved", error=error.message)
            for pod in admitted:
                drive(self.manager.release(pod.uid), self._answer)
                self.refused[pod.uid] = error.message

    def _cpusets(self) -> Mapping[str, Cpuset]:
        """Nothing while no pod has anything of its own."""
        is_special = any(spec.kind is HolderKind.DEDICATED or spec.nodes for spec in self.cpu.holders.values())
        if not is_special:
            return {}
        return {
            uid: Cpuset(allocated[CPU].result, self._mems(allocated))
            for (uid, _), allocated in self.manager.entries.items()
            if CPU in allocated
        }

    def _mems(self, allocated: Mapping[str, Allocation]) -> str:
        """The memory nodes, where they are not all."""
        everywhere = cpu_list_text(node.node for node in self.memory.nodes)
        mems = allocated[MEMORY].result if MEMORY in allocated else ""
        return "" if mems == everywhere else mems

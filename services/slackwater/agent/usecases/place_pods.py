"""Gives pods CPUs and NUMA nodes of this machine: admits new ones, releases those that ended, and publishes the answer
on which `slackwater exec` waits before it starts a command.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from slackwater.agent.domain.controls.control import Cpuset
from slackwater.agent.domain.resource_manager.checkpoint import Entries
from slackwater.agent.domain.resource_manager.cpu_plugin import CPU, CpuPlugin
from slackwater.agent.domain.resource_manager.endpoints import Endpoints, PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import (
    ManagerRules,
    PluginCalls,
    ResourceManager,
    resources_of,
)
from slackwater.agent.domain.resource_manager.memory_plugin import MEMORY, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import QOS_LEVEL, Allocation, PluginCall, QosLevel
from slackwater.agent.domain.resource_manager.placement_record import MachinePlacement
from slackwater.agent.domain.resource_manager.plugin import (
    CPU_ENHANCEMENT,
    MEMORY_ENHANCEMENT,
    ResourcePlugin,
    answer_of,
)
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec
from slackwater.agent.domain.resource_manager.run_options import run_options
from slackwater.agent.usecases.plugin_capacity import PluginCapacity
from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list
from slackwater.kernels.topology.plan_replay import basis_document
from slackwater.kernels.topology.pools import SHARED_POOL, HolderKind, HolderSpec
from slackwater.model.errors import InvalidInput, Misconfigured, NotFound, Unavailable
from slackwater.model.pods import LABEL_CPU_POOL, LABEL_NUMA_BOUND, RESOURCE_LABEL, Pod
from slackwater.model.tiers import QoSClass
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_MAIN = "main"
_RECONCILE_SECONDS = 3.0
_MOST_OF_A_RESOURCE = float(1 << 53)
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


class PlacementRecorder(Protocol):
    """Records what is decided here."""

    def resume(self, placement: MachinePlacement) -> None:
        """Continue with what an earlier run has decided and recorded."""
        ...

    def record(self, placement: MachinePlacement) -> None:
        """Record a placement where it is another decision than the one before."""
        ...


class RemotePlugins(Protocol):
    """The plugins of other processes on this machine."""

    endpoints: Endpoints
    """Of all plugins; those in this process are there from the start."""

    async def run(self) -> None:
        """Find and watch them until cancelled."""
        ...

    def expect(self, resources: set[str]) -> None:
        """Keep a place for the plugins that a checkpoint names."""
        ...

    async def answer(self, call: PluginCall) -> Any:
        """Returns the answer, or PluginFailure; always in time."""
        ...


def requested_of_plugins(pod: Pod, resources: Sequence[str]) -> dict[str, float]:
    """Returns what a pod asks for of these resources, by its labels. Raises InvalidInput for what is no amount."""
    requests: dict[str, float] = {}
    for resource in resources:
        label = RESOURCE_LABEL + resource.replace("/", ".")
        text = pod.labels.get(label)
        if text is not None:
            try:
                amount = float(text)
            except ValueError:
                amount = -1.0
            if not 0 <= amount <= _MOST_OF_A_RESOURCE or not math.isfinite(amount):
                raise InvalidInput(f"{label}: {text[:40]!r} is no amount of a resource", field=label)
            requests[resource] = amount
    return requests


def pod_spec(pod: Pod, level: QosLevel | None = None, more: Mapping[str, float] | None = None) -> PodSpec:
    """Returns a managed command as a pod of one container; of another level than its own where one is given. `more`:
    what it asks for beside CPU and memory."""
    wishes = {"numa_binding": "true"} if pod.labels.get(LABEL_NUMA_BOUND) == "true" else {}
    pool = pod.labels.get(LABEL_CPU_POOL)
    annotations = {
        QOS_LEVEL: (level or LEVELS[pod.qos]).value,
        MEMORY_ENHANCEMENT: json.dumps(wishes),
        CPU_ENHANCEMENT: json.dumps({"cpuset_pool": pool} if pool else {}),
    }
    requests = {CPU: pod.request.cpu_milli / 1000, MEMORY: float(pod.request.memory_bytes)}
    container = ContainerSpec(_MAIN, {**requests, **(more or {})})
    return PodSpec(pod.uid, pod.name, pod.namespace, [container], labels=pod.labels, annotations=annotations)


def _is_apart(spec: HolderSpec) -> bool:
    """Returns whether a pod does not simply run where all may: it owns CPUs, is bound, or is in a pool by name."""
    is_named = spec.kind is HolderKind.SHARED and spec.pool != SHARED_POOL
    return spec.kind is HolderKind.DEDICATED or bool(spec.nodes) or is_named


@dataclass(slots=True)
class PlacePods:
    """`arriving` are pods that are being made; `present` reads the CPUs of a running pod. `off`: why nothing is placed
    here; empty where it is. While a plugin of another process is asked, nothing else is placed: sampling goes on."""

    cpu: CpuPlugin
    memory: MemoryPlugin
    files: PlacementFiles
    clock: Clock
    arriving: Callable[[], Sequence[Pod]] = tuple
    present: Callable[[str], str] = lambda uid: ""
    off: str = ""
    remote: RemotePlugins | None = None
    spawn: Callable[[Coroutine[Any, Any, None]], None] = lambda coroutine: coroutine.close()
    """Runs what waits for plugins beside the loop."""
    recorder: PlacementRecorder | None = None
    cpusets: Mapping[str, Cpuset] = field(default_factory=dict)
    """What pods are to have; empty while every pod may run anywhere."""
    refused: dict[str, str] = field(default_factory=dict)
    placed: Mapping[str, Pod] = field(default_factory=dict)
    """The pods that were placed last, by uid."""
    capacity: PluginCapacity = field(default_factory=PluginCapacity)
    manager: ResourceManager = field(init=False)
    _plugins: Mapping[str, ResourcePlugin] = field(init=False)
    _loaded: bool = False
    _saved: Entries = field(default_factory=dict)
    _published: Mapping[str, Any] | None = None
    _is_published: bool = False
    """Whether nothing was placed since."""
    _reconciled_at: float | None = None
    _is_placing: bool = False
    _own: Endpoints = field(init=False)

    def __post_init__(self) -> None:
        self._plugins = {CPU: self.cpu, MEMORY: self.memory}
        self._own = {name: PluginEndpoint(name, plugin.options) for name, plugin in self._plugins.items()}
        self.manager = ResourceManager(ManagerRules(self.cpu.machine.numa_nodes), self._own)

    def update(self, pods: Sequence[Pod]) -> None:
        """Place the pods that are new; at once for those and for plugins that came or went, and every three seconds for
        what else has changed."""
        if self.off or self._is_placing:
            return
        now = self.clock.monotonic()
        self.cpu.begin(now)
        arriving = [pod for pod in self.arriving() if all(pod.uid != other.uid for other in pods)]
        uids = {pod.uid for pod in (*pods, *arriving)}
        if not self._loaded:
            self._load(pods)
        placed = {uid for uid, _ in self.manager.entries}
        endpoints = self._own if self.remote is None else {**self.remote.endpoints, **self._own}
        due = self._reconciled_at is None or now - self._reconciled_at >= _RECONCILE_SECONDS
        due = due or endpoints != self.manager.endpoints
        if not due and placed | self.refused.keys() == uids:
            return
        self._reconciled_at, self._is_published = now, False
        self.refused = {uid: why for uid, why in self.refused.items() if uid in uids}
        self.manager.endpoints = endpoints
        self._begin(self._place(pods, arriving, placed))

    def _place(self, pods: Sequence[Pod], arriving: Sequence[Pod], placed: set[str]) -> PluginCalls[None]:
        """Pods that ended give back first: one that arrives may need it."""
        for uid in sorted(placed - {pod.uid for pod in (*pods, *arriving)}):
            yield from self.manager.release(uid)
        for pod in pods:
            if pod.uid not in placed and not (yield from self._admit(self._spec(pod))):
                beside = self._spec(pod, QosLevel.SHARED)
                yield from self._admit(beside)  # it runs already: beside the others is better than anywhere
        admitted: list[Pod] = []
        for pod in arriving:
            if pod.uid not in placed and self._is_readable(pod):
                admitted += [pod] if (yield from self._admit(self._spec(pod))) else []
        yield from self.manager.reconcile([self._spec(pod) for pod in (*pods, *arriving)])
        yield from self.capacity.ask(
            {name: endpoint for name, endpoint in self.manager.endpoints.items() if name not in self._own},
            self.cpu.now,
        )
        yield from self._save(admitted)
        self.cpusets, self.placed = self._cpusets(), {pod.uid: pod for pod in (*pods, *arriving)}
        if self.recorder is not None and self.cpu.planned is not None:
            self.recorder.record(self._placement((*pods, *arriving)))

    def _placement(self, pods: Sequence[Pod]) -> MachinePlacement:
        return MachinePlacement(
            self.cpu.basis,
            self.cpu.planned or self.cpu.plan(),
            {pod.uid: pod for pod in pods},
            {uid: spec for (uid, _), spec in self.cpu.holders.items()},
            self.cpusets,
            dict(self.refused),
        )

    def _begin(self, calls: PluginCalls[None]) -> None:
        """Place at once what the plugins of this process answer; what waits for another one goes on beside the loop."""
        try:
            call = next(calls)
            while call.resource in self._plugins:
                call = calls.send(self._answer(call))
        except StopIteration:
            return
        self._is_placing = True
        self.spawn(self._continue(calls, call))

    async def _continue(self, calls: PluginCalls[None], call: PluginCall) -> None:
        try:
            while True:
                call = calls.send(await self._remote_answer(call))
        except StopIteration:
            pass
        finally:
            self._is_placing = False

    async def _remote_answer(self, call: PluginCall) -> Any:
        if call.resource in self._plugins or self.remote is None:
            return self._answer(call)
        return await self.remote.answer(call)

    def _spec(self, pod: Pod, level: QosLevel | None = None) -> PodSpec:
        """Without what it asks of plugins where that cannot be read."""
        try:
            return pod_spec(pod, level, requested_of_plugins(pod, self._foreign()))
        except InvalidInput:
            return pod_spec(pod, level)

    def _is_readable(self, pod: Pod) -> bool:
        try:
            requested_of_plugins(pod, self._foreign())
        except InvalidInput as error:
            self.refused[pod.uid] = error.message
            return False
        return True

    def _foreign(self) -> Sequence[str]:
        return [name for name in self.manager.endpoints if name not in self._own]

    def node_resources(self) -> dict[str, int]:
        """Returns what plugins of other processes have on this node, by resource."""
        endpoints = {} if self.remote is None else self.remote.endpoints
        foreign = {name: endpoint for name, endpoint in endpoints.items() if name not in self._own}
        return self.capacity.resources(foreign, self.clock.monotonic())

    def publish(self) -> None:
        """Publish what is in force now, once the other pods have moved."""
        if self._is_placing or self._is_published:
            return
        answer = self.answer()
        try:
            if answer != self._published:
                self.files.publish(answer)
            self._published, self._is_published = answer, True
        except Unavailable as error:
            _log.warning("placements not published", error=error.message)

    def answer(self) -> dict[str, Any]:
        """Returns the placements as `slackwater exec` and `slackwater get topology` read them."""
        if self.off:
            return {"off": self.off}
        kinds = {HolderKind.SHARED: QoSClass.LS, HolderKind.RECLAIMED: QoSClass.BE, HolderKind.SYSTEM: QoSClass.SYSTEM}
        held = frozenset(cpu for spec in self.cpu.holders.values() for cpu in spec.cpus)
        named = {spec.pool for spec in self.cpu.holders.values() if spec.kind is HolderKind.SHARED} - {SHARED_POOL}
        pools = {} if self.cpu.planned is None else self.cpu.planned.pools
        apart = frozenset(cpu for name in named for cpu in pools.get(name, ()))
        usable = self.cpu.machine.ids - held - self.cpu.demand.reserved
        open_to_all = usable - apart or usable
        return {
            "off": "",
            "pods": {
                uid: {
                    "cpus": allocated[CPU].result,
                    "mems": self._mems(allocated),
                    "kind": self._kind(uid),
                    "envs": self._envs(allocated),
                }
                for (uid, _), allocated in sorted(self.manager.entries.items())
                if CPU in allocated
            },
            "refused": dict(self.refused),
            "others": dict.fromkeys(sorted(kinds.values()), cpu_list_text(open_to_all)) if self.cpusets else {},
            "pools": [decision.sentence() for decision in self.cpu.decisions],
            **basis_document(replace(self.cpu.basis, demand=self.cpu.demand, now=0.0)),
        }

    def _kind(self, uid: str) -> str:
        spec = self.cpu.holders.get((uid, _MAIN))
        return "" if spec is None else spec.kind.value

    def _admit(self, spec: PodSpec) -> PluginCalls[bool]:
        admission = yield from self.manager.admit(spec)
        for why in admission.without.values():
            _log.warning("pod placed without a resource", pod=spec.uid, name=spec.name, why=why)
        for container, allocated in admission.allocated.items():
            for conflict in run_options(allocated).conflicts:
                _log.warning("resources contradict", pod=spec.uid, container=container, conflict=conflict)
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
        if self.remote is not None:
            self.remote.expect(set(resources_of(self.manager.entries)) - self._own.keys())
        for pod in pods:
            spec = pod_spec(pod)
            if spec.level is QosLevel.DEDICATED and not self.manager.allocated(pod.uid):
                self._rebuild(pod)
            for name, allocation in self.manager.entries.get((pod.uid, _MAIN), {}).items():
                if name not in self._plugins:
                    continue  # a plugin of another process keeps its own
                request = spec.request_of(spec.containers[0], name, {name: spec.containers[0].requests[name]})
                try:
                    self._plugins[name].adopt(request, allocation)
                except InvalidInput as error:
                    _log.warning("placement not readable", pod=pod.uid, error=error.message)
        self.cpusets = self._cpusets()
        if self.recorder is not None and self.cpusets:
            self.recorder.resume(self._placement(pods))

    def _rebuild(self, pod: Pod) -> None:
        try:
            cpus = parse_cpu_list(self.present(pod.uid)) & self.cpu.machine.ids
        except (NotFound, Misconfigured, InvalidInput):
            return
        if cpus and len(cpus) * 1000 < pod.request.cpu_milli + 1000 and cpus != self.cpu.machine.ids:
            allocation = Allocation("CpusetCpus", float(len(cpus)), cpu_list_text(cpus))
            self.manager.entries[pod.uid, _MAIN] = {CPU: allocation}

    def _save(self, admitted: Sequence[Pod]) -> PluginCalls[None]:
        """Pods that arrive are refused where the disk does not take the checkpoint: they would be lost at a restart."""
        if self.manager.entries == self._saved:
            return
        try:
            self.files.save(self.manager.entries)
            self._saved = {key: dict(allocated) for key, allocated in self.manager.entries.items()}
        except Unavailable as error:
            _log.error("placements not saved", error=error.message)
            for pod in admitted:
                yield from self.manager.release(pod.uid)
                self.refused[pod.uid] = error.message

    def _cpusets(self) -> Mapping[str, Cpuset]:
        """Nothing while no pod has anything of its own, or shares it with a few."""
        if not any(_is_apart(spec) for spec in self.cpu.holders.values()):
            return {}
        return {
            uid: Cpuset(allocated[CPU].result, self._mems(allocated))
            for (uid, _), allocated in self.manager.entries.items()
            if CPU in allocated
        }

    @staticmethod
    def _envs(allocated: Mapping[str, Allocation]) -> dict[str, str]:
        """The environment that plugins add to the command."""
        try:
            return dict(run_options(allocated).envs)
        except InvalidInput as error:  # of a checkpoint that another version has written
            _log.warning("environment of a placement not readable", error=error.message)
            return {}

    def _mems(self, allocated: Mapping[str, Allocation]) -> str:
        """The memory nodes, where they are not all."""
        everywhere = cpu_list_text(node.node for node in self.memory.nodes)
        mems = allocated[MEMORY].result if MEMORY in allocated else ""
        return "" if mems == everywhere else mems

"""The driver `kubernetes`: measures a kubelet's pods and writes files of their cgroups; starts and ends none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from slackwater.agent.adapters.kubepods.node_source import NodeSource, with_node
from slackwater.agent.adapters.kubepods.pod_source import PodSource
from slackwater.agent.adapters.kubepods.tree import KubeletTree
from slackwater.agent.adapters.linux.files import raise_descriptor_limit
from slackwater.agent.adapters.linux.gauges import Gauges
from slackwater.agent.adapters.linux.knob_files import KnobFiles
from slackwater.agent.adapters.linux.machine import machine_facts
from slackwater.agent.adapters.linux.processes import members_of
from slackwater.agent.domain.controls.catalog import KNOBS
from slackwater.agent.domain.host_apps import HostApplication
from slackwater.agent.domain.knobs import ContainerOf, Knob, KnobSpec, Target, Value
from slackwater.agent.domain.kubelet import KubeletView, in_force, limited_containers, pod_of, share_of
from slackwater.agent.domain.protected_pods import protection_reason
from slackwater.agent.ports import RawSample
from slackwater.apiserver.node_pods import NodePod
from slackwater.model.errors import NotFound
from slackwater.model.nodes import NodeFacts, PodDetail
from slackwater.model.pods import FAILED, Pod
from slackwater.model.time import Clock

_ENDED = frozenset({"Succeeded", FAILED})
MOST_FAILED = 100
"""Failed pods in a report, the newest: the API server keeps thousands until they are cleaned up."""
_REPORTS = (PodDetail.READINESS, PodDetail.RESTARTS, PodDetail.FAILED_PODS, PodDetail.PLACEMENT_RULES)


@dataclass(slots=True)
class KubernetesDriver:
    """See `slackwater.agent.ports.Driver` for what each method promises.

    A pod is there while the API server has it and its cgroup exists. `own_uid`: the pod that the agent runs in.
    `limits_cpu`: whether what a pod has borrowed of CPU also limits it.
    """

    source: PodSource
    tree: KubeletTree
    clock: Clock
    own_uid: str | None = None
    limits_cpu: bool = True
    host_apps: tuple[HostApplication, ...] = ()
    knobs: tuple[KnobSpec, ...] = KNOBS
    node_source: NodeSource | None = None
    """The node itself; None: its labels and taints are not known."""
    _files: KnobFiles = field(init=False)
    _gauges: Gauges = field(init=False)
    _pods: tuple[Pod, ...] = ()
    _failed: tuple[Pod, ...] = ()
    _specs: Mapping[str, NodePod] = field(default_factory=dict)
    """Of the pods that are there, by uid."""
    _places: Mapping[str, str] = field(default_factory=dict)
    _view: KubeletView = field(init=False)
    _described: dict[str, tuple[NodePod, Pod]] = field(default_factory=dict)
    """What was made of which state of a pod, so that the same pod is the same object."""
    _revisions: Iterator[int] = field(default_factory=lambda: count(1))
    _seen: int = -1

    def __post_init__(self) -> None:
        self._files = KnobFiles(self.tree, self.knobs, self.tree.kernel)
        self._gauges = Gauges(self.tree, host_apps=self.host_apps)
        self._view = KubeletView(0, not self.tree.hierarchy.pure_v2)

    def open(self) -> None:
        self.tree.require_writable()
        self._gauges.keep_at_most(raise_descriptor_limit() // 2)

    def close(self) -> None:
        """The cgroups are the kubelet's: nothing is removed."""
        self._gauges.close()

    def facts(self) -> NodeFacts:
        facts = replace(
            machine_facts(self.tree.hierarchy.version), name=self.source.node, driver="kubernetes", reports=_REPORTS
        )
        node = None if self.node_source is None else self.node_source.record
        return facts if node is None else with_node(facts, node)

    def pods(self) -> tuple[Pod, ...]:
        self._refresh()
        return self._pods

    def kubelet(self) -> KubeletView:
        return self._view

    def sample(self) -> RawSample:
        self._refresh()
        sample = self._gauges.read(self._pods, RawSample(self.clock.monotonic(), self.clock.now()))
        return replace(sample, failed_pods=self._failed) if self._failed else sample

    def glance(self) -> RawSample:
        return self._gauges.glance(RawSample(self.clock.monotonic(), self.clock.now()), self._pods)

    def knob(self, spec: KnobSpec, target: Target) -> Knob:
        if isinstance(target, ContainerOf):
            return self._files.knob(spec, self._container(target))
        if not isinstance(target, str):
            raise NotFound(f"a kubelet has no cgroup of {target}", field=spec.name)
        return self._files.knob(spec, self._cgroup(target))

    def render(self, knob: Knob, value: Value) -> str:
        return self._files.render(knob, value)

    def parse(self, knob: Knob, text: str) -> Value:
        return self._files.parse(knob, text)

    def read(self, knob: Knob) -> str:
        return self._files.read(knob)

    def write(self, knob: Knob, text: str) -> None:
        self._files.write(knob, text)

    def alive(self, pod_uid: str) -> bool:
        try:
            return bool(members_of(self.tree.hierarchy.directories(self._cgroup(pod_uid))))
        except NotFound:
            return False

    def terminate(self, pod_uid: str, signal: int) -> None:
        """Nothing: pods are evicted through the API server, and a kubelet starts anew what was killed."""

    def protected(self, pod_uid: str) -> str | None:
        pod = next((pod for pod in self._pods if pod.uid == pod_uid), None)
        if pod is None:
            return None
        if os.getpid() in members_of(self.tree.hierarchy.directories(self._cgroup(pod_uid))):
            return "the agent itself runs in this pod"
        return protection_reason(pod)

    def _refresh(self) -> None:
        """Bring pods and view up to date with the API server and the cgroups; cheap where nothing changed."""
        places = {
            pod.uid: cgroup
            for pod in self.source.pods.values()
            if pod.record.phase not in _ENDED and (cgroup := self.tree.find_pod(pod.kubelet_uid)) is not None
        }
        if self.source.revision == self._seen and places == self._places:
            return
        for uid, cgroup in self._places.items():
            if places.get(uid) != cgroup:
                self._gauges.close_pod(uid)
        self._seen, self._places = self.source.revision, places
        self.tree.place(places)
        self._specs = {pod.uid: pod for pod in self.source.pods.values() if pod.uid in places}
        self._described = {uid: self._pod(spec) for uid, spec in self._specs.items()}
        self._pods = tuple(self._described[uid][1] for uid in sorted(self._described))
        failed = [pod_of(pod, self.own_uid) for pod in self.source.pods.values() if pod.record.phase == FAILED]
        self._failed = tuple(sorted(failed, key=lambda pod: (pod.started_at, pod.uid))[-MOST_FAILED:])
        self._view = self._viewed()

    def _pod(self, spec: NodePod) -> tuple[NodePod, Pod]:
        known = self._described.get(spec.uid)
        if known is not None and known[0] is spec:
            return known
        pod = pod_of(spec, self.own_uid)
        return spec, known[1] if known is not None and known[1] == pod else pod

    def _viewed(self) -> KubeletView:
        specs, is_v1 = self._specs, not self.tree.hierarchy.pure_v2
        shares = {uid: share_of(specs[uid], self.limits_cpu) for uid in sorted(specs)}
        return KubeletView(
            next(self._revisions),
            is_v1,
            {uid: share for uid, share in shares.items() if share is not None},
            {uid: limited_containers(spec) for uid, spec in specs.items()},
            {uid: in_force(spec) for uid, spec in specs.items()},
            self._places,
        )

    def _spec(self, pod_uid: str) -> NodePod | None:
        if pod_uid not in self._specs:
            self._refresh()
        return self._specs.get(pod_uid)

    def _cgroup(self, pod_uid: str) -> str:
        spec = self._spec(pod_uid)
        cgroup = None if spec is None else self.tree.find_pod(spec.kubelet_uid)
        if cgroup is None:
            raise NotFound(f"pod {pod_uid} is not (any more) on this machine", field="pod_uid")
        return cgroup

    def _container(self, target: ContainerOf) -> str:
        spec = self._spec(target.pod_uid)
        container = (
            None
            if spec is None
            else next((container for container in spec.containers if container.name == target.name), None)
        )
        if container is None or not container.id:
            raise NotFound(f"container {target.name} of pod {target.pod_uid} does not run", field="container")
        return self.tree.find_container(self._cgroup(target.pod_uid), container.runtime, container.id)

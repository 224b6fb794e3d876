"""The linux driver: managed commands in cgroups of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slackwater.agent.adapters.linux.files import raise_descriptor_limit
from slackwater.agent.adapters.linux.gauges import Gauges
from slackwater.agent.adapters.linux.hierarchy import Hierarchy, find_hierarchy
from slackwater.agent.adapters.linux.knob_files import KnobFiles
from slackwater.agent.adapters.linux.layout import Layout
from slackwater.agent.adapters.linux.machine import machine_facts, online_cpus
from slackwater.agent.adapters.linux.processes import kill_all, members_of, send
from slackwater.agent.adapters.linux.registry import Entry, PodRegistry
from slackwater.agent.adapters.linux.zones import Zones, zones_of
from slackwater.agent.domain.controls.catalog import KNOBS
from slackwater.agent.domain.host_apps import HostApplication
from slackwater.agent.domain.knobs import ContainerOf, Knob, KnobSpec, Target, Tree, Value
from slackwater.agent.ports import RawSample
from slackwater.model.errors import NotFound
from slackwater.model.nodes import NodeFacts, PodDetail
from slackwater.model.pods import LABEL_NUMA, Pod
from slackwater.model.tiers import QoSClass, Tier
from slackwater.model.time import Clock
from slackwater.telemetry.logs import get_logger
from slackwater.waterline.facts.eviction_marks import AGENT, PROTECTED

_log = get_logger(__name__)
_REAP_EVERY_TICKS = 5
_REAP_SECONDS = 0.1
"""For all pods together, within a sample: samples and leases do not wait for a process that cannot be killed."""
_LOOK_AT_ZONES_EVERY_TICKS = 30


@dataclass(slots=True)
class LinuxDriver:
    """See `slackwater.agent.ports.Driver` for what each method promises."""

    layout: Layout
    clock: Clock
    host_apps: tuple[HostApplication, ...] = ()
    knobs: tuple[KnobSpec, ...] = KNOBS
    _registry: PodRegistry = field(init=False)
    _files: KnobFiles = field(init=False)
    _gauges: Gauges = field(init=False)
    _ticks: int = 0
    _looked_at: int = -1
    _own: dict[str, Pod] = field(default_factory=dict)
    """The pod that the agent itself runs in, marked as such, if it runs in one."""
    zones: Zones = field(default_factory=zones_of)
    _bound: dict[str, tuple[Pod, Pod]] = field(default_factory=dict)
    """By uid the pod as registered, and as reported: with the zone it is bound to."""

    def __post_init__(self) -> None:
        self._registry = PodRegistry(self.layout.agent_dir / "pods")
        self._gauges = Gauges(self.layout, host_apps=self.host_apps)
        self._files = KnobFiles(self.layout, self.knobs)

    def measure_own_tree(self, is_bounded: bool) -> None:
        """Whether the node's memory is that of its pods (True) or of the machine."""
        self._gauges.is_bounded = is_bounded

    def open(self) -> None:
        self.layout.hierarchy.require_writable()
        self._gauges.keep_at_most(raise_descriptor_limit() // 2)
        self.reap()
        self._remove_strays()
        self.layout.ensure_tiers()
        self._own = self._pod_of_our_own()

    def close(self) -> None:
        self._gauges.close()
        self.reap()
        self.layout.remove_unused()

    def facts(self) -> NodeFacts:
        return replace(machine_facts(self.layout.hierarchy.version), reports=(PodDetail.READINESS,))

    def pods(self) -> tuple[Pod, ...]:
        pods = {uid: self._own.get(uid, entry.pod) for uid, entry in self._entries().items()}
        return tuple(pods.values()) if not self.zones.cpus else tuple(self._with_zones(pods))

    def _with_zones(self, pods: Mapping[str, Pod]) -> Iterator[Pod]:
        """Zones are read when a pod is new, and now and then: the same description until its zone changes."""
        anew = self._ticks % _LOOK_AT_ZONES_EVERY_TICKS == 0 and self._ticks != self._looked_at
        if anew:
            self._looked_at = self._ticks
        for uid in self._bound.keys() - pods.keys():
            del self._bound[uid]
        for uid, pod in pods.items():
            known = self._bound.get(uid)
            if anew or known is None or known[0] is not pod:
                known = self._bound[uid] = (pod, self._described(pod, known))
            yield known[1]

    def _described(self, pod: Pod, before: tuple[Pod, Pod] | None) -> Pod:
        if LABEL_NUMA in pod.labels:  # set at its start, which has precedence
            return pod
        try:
            zone = self.zones.of(members_of(self._directories(pod.uid)))
        except NotFound:  # it ended meanwhile
            return pod
        now = pod if zone is None else replace(pod, labels={**pod.labels, LABEL_NUMA: zone})
        return before[1] if before is not None and before[1] == now else now

    def arriving(self) -> tuple[Pod, ...]:
        """Pods that are being made by `slackwater exec`, and wait for their CPUs."""
        pending = self._registry.pending().values()
        return tuple(
            entry.pod for entry in pending if entry.instance == self.layout.instance and entry.supervisor.alive()
        )

    def kubelet(self) -> None:
        """None: the cgroups are the agent's own."""

    def sample(self) -> RawSample:
        self._ticks += 1
        if self._ticks % _REAP_EVERY_TICKS == 0:
            self.reap(_REAP_SECONDS)
        return self._gauges.read(self.pods(), RawSample(self.clock.monotonic(), self.clock.now()))

    def glance(self) -> RawSample:
        return self._gauges.glance(RawSample(self.clock.monotonic(), self.clock.now()))

    def knob(self, spec: KnobSpec, target: Target) -> Knob:
        if isinstance(target, ContainerOf):
            raise NotFound("a managed command has no containers", field=target.name)
        if isinstance(target, Tree):
            return self._files.knob(spec, self.layout.root)
        return self._files.knob(spec, self.layout.tier(target) if isinstance(target, Tier) else self._cgroup(target))

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
            return bool(members_of(self._directories(pod_uid)))
        except NotFound:
            return False

    def terminate(self, pod_uid: str, signal: int) -> None:
        try:
            send(self._directories(pod_uid), signal)
        except NotFound:
            return

    def protected(self, pod_uid: str) -> str | None:
        entry = self._entries().get(pod_uid)
        if entry is None:
            return None
        if entry.pod.qos is QoSClass.SYSTEM:
            return "pods of QoS class SYSTEM are never evicted"
        if os.getpid() in members_of(self._directories(pod_uid)):
            return "the agent itself runs in this pod"
        return None

    def reap(self, within_seconds: float = 3.0) -> None:
        """Pods whose supervisor died without cleaning up: kill what is left of them, remove their cgroups. A process
        that outlives the time (frozen, or in uninterruptible sleep) is killed again the next time."""
        deadline = time.monotonic() + within_seconds
        for uid, entry in {**self._registry.entries(), **self._registry.pending()}.items():
            if entry.supervisor.alive():
                continue
            cgroup = self.layout.pod(entry.pod.tier, uid)
            self._gauges.close_pod(uid)
            ended = kill_all(self.layout.hierarchy.directories(cgroup), max(0.0, deadline - time.monotonic()))
            if ended and self.layout.hierarchy.remove(cgroup, with_children=True):
                self._registry.remove(uid)

    def _remove_strays(self) -> None:
        """Remove cgroups of this instance that no registry file explains: a run died half way. A pod whose file cannot
        be read (truncated, or of a newer version) runs on."""
        known = self._registry.names()
        for uid in sorted(known - self._registry.entries().keys() - self._registry.pending().keys()):
            hint = (
                "it is neither measured nor managed, and runs on; start it anew, or remove the file when it has ended"
            )
            _log.warning("pod not readable", pod=uid, directory=str(self._registry.directory), hint=hint)
        for tree in self.layout.hierarchy.trees():
            for directory in sorted(tree.glob(f"{self.layout.root}/*/*/")):
                if directory.name not in known:
                    cgroup = str(directory.relative_to(tree))
                    kill_all(self.layout.hierarchy.directories(cgroup))
                    self.layout.hierarchy.remove(cgroup, with_children=True)

    def _entries(self) -> dict[str, Entry]:
        return {
            uid: entry
            for uid, entry in self._registry.entries().items()
            if entry.instance == self.layout.instance
            and self.layout.cpu_directory(self.layout.pod(entry.pod.tier, uid)).is_dir()
        }

    def _pod_of_our_own(self) -> dict[str, Pod]:
        """The pod that holds the agent, by uid, with a label that only the agent sets: planners must not touch it."""
        return {
            uid: replace(entry.pod, labels={**entry.pod.labels, PROTECTED[0]: AGENT})
            for uid, entry in self._entries().items()
            if os.getpid() in members_of(self._directories(uid))
        }

    def _cgroup(self, pod_uid: str) -> str:
        entry = self._registry.entries().get(pod_uid)
        if entry is None:
            raise NotFound(f"pod {pod_uid} is not (any more) on this machine", field="pod_uid")
        return self.layout.pod(entry.pod.tier, pod_uid)

    def _directories(self, pod_uid: str) -> tuple[Path, ...]:
        return self.layout.hierarchy.directories(self._cgroup(pod_uid))


def linux_driver(
    state_dir: Path,
    instance: str,
    clock: Clock,
    hierarchy: Hierarchy | None = None,
    host_apps: tuple[HostApplication, ...] = (),
) -> LinuxDriver:
    """The driver of this machine; raises Misconfigured (one line, with the cure) on `open` where it cannot work."""
    layout = Layout(hierarchy or find_hierarchy(), instance, state_dir / "agent", len(online_cpus()))
    return LinuxDriver(layout, clock, host_apps)

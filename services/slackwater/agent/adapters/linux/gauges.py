"""One tick of reading: node, tiers and pods through kept descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from slackwater.agent.adapters.linux import meters
from slackwater.agent.adapters.linux.devices import Devices
from slackwater.agent.adapters.linux.files import KeptFiles
from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.linux.places import CgroupPlaces
from slackwater.agent.adapters.linux.tier_totals import TierTotals
from slackwater.agent.domain.controls.node_memory import UNLIMITED_V1
from slackwater.agent.domain.host_apps import HostApplication
from slackwater.agent.domain.samples import HostSample
from slackwater.agent.ports import PodSample, PsiTotals, RawSample
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier


@dataclass(frozen=True, slots=True)
class PodFiles:
    """The paths of one pod, put together once and not every second."""

    cpu_usage: str
    cpu_stat: str
    memory_stat: str
    pressures: tuple[str, str, str] | None

    def all(self) -> tuple[str, ...]:
        return (self.cpu_usage, self.cpu_stat, self.memory_stat, *(self.pressures or ()))


def _pressures(hierarchy: Hierarchy, cgroup: str) -> tuple[str, str, str] | None:
    if hierarchy.unified is None:
        return None
    place = f"{hierarchy.unified}/{cgroup}"
    return (f"{place}/cpu.pressure", f"{place}/memory.pressure", f"{place}/io.pressure")


def pod_files(hierarchy: Hierarchy, cgroup: str) -> PodFiles:
    """Where v1 and v2 keep what we read. A missing tree gives a path that is not there, hence None, not zero."""
    cpu = hierarchy.cpu or Path("/nonexistent")
    usage = f"{cpu}/{cgroup}/cpu.stat" if hierarchy.pure_v2 else f"{hierarchy.cpuacct}/{cgroup}/cpuacct.usage"
    return PodFiles(
        usage, f"{cpu}/{cgroup}/cpu.stat", f"{hierarchy.memory}/{cgroup}/memory.stat", _pressures(hierarchy, cgroup)
    )


@dataclass(slots=True)
class Gauges:
    """Keeps descriptors between ticks; `close_pod` closes those of a pod that is gone."""

    layout: CgroupPlaces
    proc: Path = Path("/proc")
    devices: Devices = field(default_factory=Devices)
    host_apps: tuple[HostApplication, ...] = ()
    is_bounded: bool = False
    """Whether the node's memory is what its pods use, because they have a hard limit together."""
    _files: KeptFiles = field(default_factory=KeptFiles)
    _prod: TierTotals = field(default_factory=TierTotals)
    """Of prod pods that have no cgroup in common."""
    _kept_free: int | None = None
    """What the kernel keeps free, read once."""
    _pods: dict[str, PodFiles] = field(default_factory=dict)
    _apps: tuple[tuple[HostApplication, PodFiles], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._apps = tuple((app, pod_files(self.layout.hierarchy, app.cgroup)) for app in self.host_apps)

    def read(self, pods: tuple[Pod, ...], stamp: RawSample) -> RawSample:
        """Fill a sample that so far holds only its times."""
        for uid in self._pods.keys() - {pod.uid for pod in pods}:
            self.close_pod(uid)
        proc = str(self.proc)
        disks, links = self.devices.read()
        in_use, free = self._node_memory()
        samples = tuple(self._pod(pod) for pod in pods)
        if self.layout.group(Tier.PROD) is None:
            self._prod.add(self._totals_of(pods, samples))
        return RawSample(
            stamp.monotonic,
            stamp.at,
            node_cpu_busy_ns=meters.busy_ns(self._files.read(f"{proc}/stat")),
            node_memory_bytes=in_use,
            node_free_bytes=free,
            node_psi=self._psi((f"{proc}/pressure/cpu", self._node_pressure(), f"{proc}/pressure/io")),
            tier_psi={Tier.PROD: self._prod_psi()},
            pods=samples,
            disks=disks,
            links=links,
            host_apps=tuple(self._host_apps()) if self._apps else (),
            prod_refault_bytes=self._prod_refaults(),
        )

    def glance(self, stamp: RawSample, pods: tuple[Pod, ...] = ()) -> RawSample:
        """The node's CPU and memory and the pressure of prod alone. `pods` are read where prod has no cgroup of its
        own."""
        psi = self._prod_psi()
        if self.layout.group(Tier.PROD) is None:
            read = {pod.uid: self._psi(self._pod_files(pod).pressures) for pod in pods if pod.tier is Tier.PROD}
            psi = self._prod.after({uid: (of_pod, None) for uid, of_pod in read.items()})
        return replace(
            stamp,
            node_cpu_busy_ns=meters.busy_ns(self._files.read(f"{self.proc}/stat")),
            node_memory_bytes=self._node_memory()[0],
            tier_psi={Tier.PROD: psi},
        )

    def keep_at_most(self, descriptors: int) -> None:
        """How many files of pods and of the node may stay open; the devices have a bound of their own."""
        self._files.at_most = descriptors

    def close_pod(self, uid: str) -> None:
        """Close the descriptors of one pod."""
        files = self._pods.pop(uid, None)
        for path in files.all() if files is not None else ():
            self._files.close_file(path)

    def close(self) -> None:
        self._files.close()
        self.devices.close()
        self._pods.clear()

    def open_descriptors(self) -> int:
        return len(self._files) + self.devices.open_descriptors()

    def _prod_psi(self) -> PsiTotals:
        """The pressure of prod: the only tier whose pressure is reported, because no consumer uses the others yet."""
        group = self.layout.group(Tier.PROD)
        return self._prod.psi if group is None else self._psi(_pressures(self.layout.hierarchy, group))

    def _totals_of(
        self, pods: tuple[Pod, ...], samples: tuple[PodSample, ...]
    ) -> Mapping[str, tuple[PsiTotals, int | None]]:
        """Pressure and pages read again of each prod pod."""
        prefix = b"" if self.layout.hierarchy.pure_v2 else b"total_"
        return {
            pod.uid: (
                sample.psi,
                meters.refault_bytes(self._files.read(self._pod_files(pod).memory_stat), prefix),
            )
            for pod, sample in zip(pods, samples, strict=True)
            if pod.tier is Tier.PROD
        }

    def _psi(self, paths: tuple[str, str, str] | None) -> PsiTotals:
        return meters.psi(self._files, *paths) if paths is not None else PsiTotals()

    def _node_memory(self) -> tuple[int | None, int | None]:
        """What is in use and cannot be dropped, and what is free: of the machine, or of all pods where they have a
        limit together."""
        if not self.is_bounded:
            meminfo = self._files.read(f"{self.proc}/meminfo")
            return meters.memory_in_use(meminfo), self._free_of_machine(meminfo)
        hierarchy = self.layout.hierarchy
        tree, pure_v2 = f"{hierarchy.memory}/{self.layout.root}", hierarchy.pure_v2
        used = self._files.read(f"{tree}/{'memory.current' if pure_v2 else 'memory.usage_in_bytes'}")
        stat = self._files.read(f"{tree}/memory.stat")
        whole = meters.whole_number(used)
        limit = meters.whole_number(self._files.read(f"{tree}/{'memory.max' if pure_v2 else 'memory.limit_in_bytes'}"))
        is_known = whole is not None and limit is not None and limit < UNLIMITED_V1
        free = max(0, (limit or 0) - (whole or 0)) if is_known else None
        return meters.tree_memory(used, stat, b"" if pure_v2 else b"total_"), free

    def _free_of_machine(self, meminfo: bytes | None) -> int | None:
        """MemFree beyond what the kernel keeps free for itself."""
        if self._kept_free is None:
            self._kept_free = meters.kept_free_bytes(self._zoneinfo())
        free = meters.free_memory(meminfo)
        return None if free is None else max(0, free - self._kept_free)

    def _zoneinfo(self) -> bytes | None:
        try:
            return (self.proc / "zoneinfo").read_bytes()
        except OSError:
            return None

    def _prod_refaults(self) -> int | None:
        hierarchy, group = self.layout.hierarchy, self.layout.group(Tier.PROD)
        if group is None:
            return self._prod.refault_bytes
        stat = self._files.read(f"{hierarchy.memory}/{group}/memory.stat")
        return meters.refault_bytes(stat, b"" if hierarchy.pure_v2 else b"total_")

    def _node_pressure(self) -> str:
        own = _pressures(self.layout.hierarchy, self.layout.root) if self.is_bounded else None
        return f"{self.proc}/pressure/memory" if own is None else own[1]

    def _host_apps(self) -> Iterator[HostSample]:
        """Those that can be read whole; a cgroup that is not there is no application that uses nothing."""
        pure_v2 = self.layout.hierarchy.pure_v2
        for app, files in self._apps:
            if pure_v2:
                [usage_us] = meters.flat(self._files.read(files.cpu_stat), b"usage_usec")
                cpu_ns = None if usage_us is None else usage_us * 1000
            else:
                cpu_ns = meters.whole_number(self._files.read(files.cpu_usage))
            memory = meters.anonymous_bytes(self._files.read(files.memory_stat), b"" if pure_v2 else b"total_")
            if cpu_ns is not None and memory is not None:
                yield HostSample(app.name, app.tier, cpu_ns, memory)

    def _pod_files(self, pod: Pod) -> PodFiles:
        files = self._pods.get(pod.uid)
        if files is None:
            files = self._pods[pod.uid] = pod_files(self.layout.hierarchy, self.layout.pod(pod.tier, pod.uid))
        return files

    def _pod(self, pod: Pod) -> PodSample:
        files = self._pod_files(pod)
        pure_v2 = self.layout.hierarchy.pure_v2
        stat = self._files.read(files.cpu_stat)
        periods, throttled, usage_us = meters.flat(stat, b"nr_periods", b"nr_throttled", b"usage_usec")
        if pure_v2:
            cpu_ns = None if usage_us is None else usage_us * 1000
        else:
            cpu_ns = meters.whole_number(self._files.read(files.cpu_usage))
        held, cache = meters.memory_parts(self._files.read(files.memory_stat), b"" if pure_v2 else b"total_")
        return PodSample(
            pod.uid,
            cpu_ns=cpu_ns,
            memory_bytes=held,
            psi=self._psi(files.pressures),
            periods=periods,
            throttled_periods=throttled,
            cache_bytes=cache,
        )

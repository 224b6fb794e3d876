"""Machines for the agent's tests: one in memory behind the Driver port, and fake cgroup trees in a directory."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from tests.support.clock import EPOCH, FakeClock

from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.domain.controls.catalog import KNOBS
from slackwater.agent.domain.knobs import ContainerOf, Knob, KnobSpec, Target, Tree, Value
from slackwater.agent.domain.kubelet import KubeletView
from slackwater.agent.ports import PodSample, PsiTotals, RawSample
from slackwater.events.intent_observed import READ_REFUSED
from slackwater.model.errors import Misconfigured, NotFound
from slackwater.model.nodes import CpuTopology, NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import DEFAULT_PRIORITY, QoSClass, Tier, default_qos

NODE = "node-1"
CAPACITY_MILLI = 4000


FACTS = NodeFacts(
    NODE, "default", Resources(CAPACITY_MILLI, 8 << 30), Resources(), CpuTopology(4, 4, 1, 1), "6.1", "v2", "fake", "0"
)


def pod(uid: str, tier: Tier = Tier.BATCH, request_milli: int = 1000, qos: QoSClass | None = None) -> Pod:
    return Pod(
        uid=uid,
        name=uid,
        namespace="default",
        workload=f"w-{uid}",
        tier=tier,
        qos=qos or default_qos(tier),
        priority=DEFAULT_PRIORITY[tier],
        request=Resources(request_milli, 1 << 30),
        started_at=EPOCH,
    )


class Crash(Exception):
    """The process ends here, as kill -9 would end it."""


@dataclass
class FakeDriver:
    """A machine of knobs in a dict. `rates` are milli-cores per pod, `pressure` the share of time prod waits."""

    clock: FakeClock
    living: dict[str, Pod] = field(default_factory=dict)
    knobs: dict[Knob, str] = field(default_factory=dict)
    rates: dict[str, int] = field(default_factory=dict)
    system_milli: int = 0
    pressure: float = 0.0
    memory_pressure: float = 0.0
    memory_bytes: int = 1 << 30
    """Of the node."""
    stubborn: set[str] = field(default_factory=set)
    """Pods that ignore SIGTERM."""
    immortal: set[str] = field(default_factory=set)
    refused: set[Knob] = field(default_factory=set)
    unread: set[Knob] = field(default_factory=set)
    """Files that cannot be read now."""
    guarded: dict[str, str] = field(default_factory=dict)
    signals: list[tuple[str, int]] = field(default_factory=list)
    writes: list[tuple[Knob, str]] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    glances: list[float] = field(default_factory=list)
    crash_after: int | None = None
    closed: bool = False
    facts_now: NodeFacts = field(default_factory=lambda: FACTS)
    specs: tuple[KnobSpec, ...] = KNOBS
    view: KubeletView | None = None
    """Of a node of Kubernetes."""
    _cpu_ns: dict[str, int] = field(default_factory=dict)
    _waited_us: int = 0
    _paged_us: int = 0
    _node_ns: int = 0
    _last: float | None = None

    def add(self, *pods: Pod, limit: str = "max") -> None:
        for item in pods:
            self.living[item.uid] = item
            for spec in self.specs:
                self.knobs[Knob(item.uid, spec.name)] = spec.plain_text(spec.default)
            self.knobs[Knob(item.uid, "cpu_limit")] = limit
        for tier in Tier:
            self.knobs.setdefault(Knob(f"tier-{tier}", "cpu_weight"), "1024")
        self.knobs.setdefault(Knob("root", "node_memory"), "max")

    def remove(self, uid: str) -> None:
        self.living.pop(uid, None)
        for spec in self.specs:
            self.knobs.pop(Knob(uid, spec.name), None)

    @property
    def _specs(self) -> dict[str, KnobSpec]:
        return {spec.name: spec for spec in self.specs}

    def open(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def facts(self) -> NodeFacts:
        return self.facts_now

    def pods(self) -> tuple[Pod, ...]:
        return tuple(self.living.values())

    def kubelet(self) -> KubeletView | None:
        return self.view

    def sample(self) -> RawSample:
        now = self.clock.monotonic()
        self.samples.append(now)
        seconds = 0.0 if self._last is None else now - self._last
        self._last = now
        for uid in self.living:
            self._cpu_ns[uid] = self._cpu_ns.get(uid, 0) + int(self.rates.get(uid, 0) * seconds * 1_000_000)
        total = self.system_milli + sum(self.rates.get(uid, 0) for uid in self.living)
        self._node_ns += int(total * seconds * 1_000_000)
        self._waited_us += int(self.pressure * seconds * 1_000_000)
        self._paged_us += int(self.memory_pressure * seconds * 1_000_000)
        return RawSample(
            now,
            self.clock.now(),
            node_cpu_busy_ns=self._node_ns,
            node_memory_bytes=self.memory_bytes,
            tier_psi={Tier.PROD: PsiTotals(self._waited_us, self._paged_us, 0)},
            pods=tuple(PodSample(uid, self._cpu_ns[uid], 1 << 20, PsiTotals(0, 0, 0), 0, 0) for uid in self.living),
        )

    def glance(self) -> RawSample:
        now = self.clock.monotonic()
        seconds = 0.0 if self._last is None else now - self._last
        total = self.system_milli + sum(self.rates.get(uid, 0) for uid in self.living)
        self.glances.append(now)
        return RawSample(
            now,
            self.clock.now(),
            node_cpu_busy_ns=self._node_ns + int(total * seconds * 1_000_000),
            node_memory_bytes=self.memory_bytes,
            tier_psi={Tier.PROD: PsiTotals(self._waited_us + int(self.pressure * seconds * 1_000_000), 0, 0)},
        )

    def knob(self, spec: KnobSpec, target: Target) -> Knob:
        return self._existing(Knob(_place(target), spec.name))

    def render(self, knob: Knob, value: Value) -> str:
        return self._specs[knob.field].plain_text(value)

    def parse(self, knob: Knob, text: str) -> Value:
        return self._specs[knob.field].plain_value(text)

    def read(self, knob: Knob) -> str:
        if self._existing(knob) in self.unread:
            raise Misconfigured("unreadable", code=READ_REFUSED)
        return self.knobs[knob]

    def write(self, knob: Knob, text: str) -> None:
        self._existing(knob)
        if knob in self.refused:
            raise Misconfigured("refused", code="write_refused")
        if self.crash_after is not None and len(self.writes) >= self.crash_after:
            raise Crash
        self.knobs[knob] = text
        self.writes.append((knob, text))

    def alive(self, pod_uid: str) -> bool:
        return pod_uid in self.living

    def terminate(self, pod_uid: str, signal_: int) -> None:
        self.signals.append((pod_uid, signal_))
        dies = signal_ == signal.SIGKILL or pod_uid not in self.stubborn
        if dies and pod_uid not in self.immortal:
            self.remove(pod_uid)

    def protected(self, pod_uid: str) -> str | None:
        return self.guarded.get(pod_uid)

    def limit(self, uid: str) -> str:
        return self.knobs[Knob(uid, "cpu_limit")]

    def _existing(self, knob: Knob) -> Knob:
        if knob not in self.knobs:
            raise NotFound(f"{knob.path} is gone")
        return knob


_V1 = {
    "cpu": {"cpu.shares": "1024", "cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000",
            "cpu.cfs_burst_us": "0", "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0"},
    "cpuacct": {"cpuacct.usage": "0"},
    "memory": {"memory.limit_in_bytes": "9223372036854771712",
               "memory.soft_limit_in_bytes": "9223372036854771712", "memory.usage_in_bytes": "0",
               "memory.stat": "cache 0\ntotal_inactive_anon 4096\ntotal_active_anon 8192\ntotal_unevictable 0"},
}  # fmt: skip
_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0"
_UNIFIED = {"cpu.pressure": _PRESSURE, "memory.pressure": _PRESSURE, "io.pressure": _PRESSURE, "cgroup.kill": ""}
_V2 = {
    **_UNIFIED, "cpu.weight": "100", "cpu.max": "max 100000", "cpu.max.burst": "0", "memory.max": "max",
    "memory.high": "max", "memory.current": "0",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0",
    "memory.stat": "anon 0\nfile 0\ninactive_anon 4096\nactive_anon 8192\nunevictable 0",
    "cgroup.subtree_control": "", "cgroup.controllers": "cpu io memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FakeHierarchy(Hierarchy):
    """Trees in a temporary directory; new directories get the files that the kernel would put there."""

    def make_directory(self, directory: Path) -> None:
        if directory.exists():
            return
        directory.mkdir()
        for name, text in self.files_of(directory).items():
            (directory / name).write_text(text + "\n")

    def remove_directory(self, directory: Path) -> bool:
        if not directory.exists():
            return True
        if any(path.is_dir() for path in directory.iterdir()) or (directory / "cgroup.procs").read_text().strip():
            return False
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        return True

    def files_of(self, directory: Path) -> dict[str, str]:
        if self.pure_v2:
            return {**_V2, "cgroup.procs": ""}
        files = {"cgroup.procs": ""}
        for name, tree in (("cpu", self.cpu), ("cpuacct", self.cpuacct), ("memory", self.memory)):
            if tree is not None and tree in directory.parents:
                files |= _V1[name]
        if self.unified is not None and self.unified in directory.parents:
            files |= _UNIFIED
        return files


def fake_hierarchy(root: Path, version: str) -> FakeHierarchy:
    """`v1`, `v1-comounted`, `hybrid` or `v2`."""

    def tree(name: str) -> Path:
        path = root / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.subtree_control").write_text("")
        return path

    if version == "v2":
        whole = tree("cgroup")
        return FakeHierarchy(whole, whole, whole, whole, pure_v2=True)
    if version == "v1-comounted":
        both = tree("cpu,cpuacct")
        return FakeHierarchy(both, both, tree("memory"))
    found = FakeHierarchy(tree("cpu"), tree("cpuacct"), tree("memory"))
    return replace(found, unified=tree("unified")) if version == "hybrid" else found


def at(clock: FakeClock, seconds: float) -> datetime:
    return clock.now() + timedelta(seconds=seconds)


def texts(driver: FakeDriver, knobs: Iterable[Knob]) -> dict[Knob, str | None]:
    return {knob: driver.knobs.get(knob) for knob in knobs}


def _place(target: Target) -> str:
    if isinstance(target, Tier):
        return f"tier-{target}"
    if isinstance(target, ContainerOf):
        return f"{target.pod_uid}/{target.name}"
    return "root" if isinstance(target, Tree) else target

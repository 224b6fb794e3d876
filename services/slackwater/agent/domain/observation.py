"""The open window: every sample is added, a summary is made when a report is due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from slackwater.agent.domain.devices import disk_uses, link_uses
from slackwater.agent.domain.rates import PressureWindow, ShareWindow, delta, milli_of, per_second, remainder
from slackwater.agent.domain.samples import HostSample, PodSample, PsiTotals, RawSample
from slackwater.agent.domain.windows import Ring, Summary
from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier

_STARTED_SLACK = timedelta(seconds=1)
"""A pod that started this long before the previous sample may still count as new in this one."""


@dataclass(frozen=True, slots=True)
class Instant:
    """The last interval, for waterlines: CPU of the node in milli-cores, CPU pressure of prod as a share of time,
    memory in bytes, CPU and memory by pod uid, disks and links. Pressures of memory and of I/O are those of the window
    so far, as reports have them."""

    node_cpu_milli: int | None = None
    prod_cpu_pressure: float | None = None
    node_memory_bytes: int | None = None
    pods: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    prod_memory_pressure: float | None = None
    node_memory_pressure: float | None = None
    node_io_pressure: float | None = None
    disks: tuple[DiskUse, ...] = ()
    links: tuple[LinkUse, ...] = ()
    prod_refaults: float | None = None
    """Bytes per second that prod read again in the last interval."""
    cache_bytes: Mapping[str, int] = field(default_factory=dict)
    """Page cache by pod uid."""


@dataclass(frozen=True, slots=True)
class PodWindow:
    """One pod's window. `throttled_ratio` is the share of CFS periods in which it was stopped."""

    pod: Pod
    cpu: Summary
    memory: Summary
    pressure: PressureWindow
    throttled_ratio: float | None
    cache_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class HostWindow:
    """One host application's window."""

    name: str
    tier: Tier
    cpu: Summary
    memory: Summary


@dataclass(frozen=True, slots=True)
class ObservedWindow:
    """Everything measured since the last window was closed."""

    sampled_at: datetime
    seconds: float
    node_cpu: Summary
    node_memory: Summary
    system_cpu: Summary
    system_memory: Summary
    node_pressure: PressureWindow
    prod_pressure: PressureWindow
    pods: tuple[PodWindow, ...]
    disks: tuple[DiskUse, ...] = ()
    links: tuple[LinkUse, ...] = ()
    host_apps: tuple[HostWindow, ...] = ()
    prod_refaults: float | None = None
    node_free_bytes: int | None = None
    failed_pods: tuple[Pod, ...] = ()


class _Series:
    """CPU, memory and pressure of one place, over one window."""

    __slots__ = ("cpu", "memory", "periods", "pressure", "throttled")

    def __init__(self, capacity: int) -> None:
        self.cpu = Ring(capacity)
        self.memory = Ring(capacity)
        self.clear()

    def clear(self) -> None:
        self.cpu.clear()
        self.memory.clear()
        self.pressure = PressureWindow()
        self.periods: int | None = None
        self.throttled = 0

    def count_periods(self, before: PodSample, after: PodSample) -> None:
        periods = delta(before.periods, after.periods)
        throttled = delta(before.throttled_periods, after.throttled_periods)
        if periods is not None and throttled is not None:
            self.periods = (self.periods or 0) + periods
            self.throttled += throttled

    def throttled_ratio(self) -> float | None:
        if self.periods is None:
            return None
        return min(1.0, self.throttled / self.periods) if self.periods else 0.0


@dataclass(slots=True)
class _AppSeries:
    """CPU and memory of one host application, over one window; `tier` as it was sampled last."""

    tier: Tier
    cpu: Ring
    memory: Ring


@dataclass(slots=True)
class Observation:
    """Holds the previous sample and the series. `capacity` bounds the samples kept of one window."""

    capacity: int = 600
    _previous: RawSample | None = None
    _previous_pods: Mapping[str, PodSample] = field(default_factory=dict)
    _opened: RawSample | None = None
    _node: _Series = field(init=False)
    _system: _Series = field(init=False)
    _prod: PressureWindow = field(default_factory=PressureWindow)
    _pods: dict[str, _Series] = field(default_factory=dict)
    _apps: dict[str, _AppSeries] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._node = _Series(self.capacity)
        self._system = _Series(self.capacity)

    def add(self, sample: RawSample, pods: Sequence[Pod]) -> Instant:
        """Fold one sample; the first one only gives memory, rates need two."""
        previous, known = self._previous, self._previous_pods
        self._previous = sample
        self._previous_pods = {pod.uid: pod for pod in sample.pods}
        for uid in self._pods.keys() - self._previous_pods.keys():
            del self._pods[uid]
        seconds = 0.0 if previous is None else sample.monotonic - previous.monotonic
        apps = self._add_apps(previous, sample, seconds) if previous is not None and sample.host_apps else []
        self._add_memory(sample, [memory for _, memory in apps])
        if previous is None:
            self._opened = sample
            return Instant()
        rates = [self._add_pod(pod, known.get(pod.uid), previous, seconds, pods) for pod in sample.pods]
        vanished: list[int | None] = [None for uid in known if uid not in self._previous_pods]
        node_milli = milli_of(previous.node_cpu_busy_ns, sample.node_cpu_busy_ns, seconds)
        _add(self._node.cpu, node_milli)
        _add(self._system.cpu, remainder(node_milli, rates + vanished + [rate for rate, _ in apps]))
        self._node.pressure.add(previous.node_psi, sample.node_psi, seconds)
        nothing = PsiTotals()
        self._prod.add(previous.tier_psi.get(Tier.PROD, nothing), sample.tier_psi.get(Tier.PROD, nothing), seconds)
        used = {pod.uid: (rate, pod.memory_bytes) for pod, rate in zip(sample.pods, rates, strict=True)}
        node = self._node.pressure
        return Instant(
            node_milli,
            self._prod.cpu.last,
            sample.node_memory_bytes,
            used,
            self._prod.memory.average,
            node.memory.average,
            node.io.average,
            disk_uses(previous.disks, sample.disks, seconds),
            link_uses(previous.links, sample.links, seconds),
            per_second(previous.prod_refault_bytes, sample.prod_refault_bytes, seconds),
            {pod.uid: pod.cache_bytes for pod in sample.pods if pod.cache_bytes is not None},
        )

    def since(self, glance: RawSample) -> Instant:
        """What the node did since the last sample, without taking it in."""
        before = self._previous
        if before is None:
            return Instant()
        seconds, pressure = glance.monotonic - before.monotonic, ShareWindow()
        nothing = PsiTotals()
        psi = before.tier_psi.get(Tier.PROD, nothing), glance.tier_psi.get(Tier.PROD, nothing)
        pressure.add(psi[0].cpu_some_us, psi[1].cpu_some_us, seconds)
        node_milli = milli_of(before.node_cpu_busy_ns, glance.node_cpu_busy_ns, seconds)
        return Instant(node_milli, pressure.last, glance.node_memory_bytes)

    def sampled(self, pods: Sequence[Pod]) -> list[Pod]:
        """Returns those of the pods that the last sample has: what the next report counts."""
        return [pod for pod in pods if pod.uid in self._pods]

    def close(self, pods: Sequence[Pod]) -> ObservedWindow | None:
        """The window since the last close, and begin the next; None before the first interval is over."""
        last, opened = self._previous, self._opened
        if last is None or opened is None or last.monotonic <= opened.monotonic:
            return None
        seconds = last.monotonic - opened.monotonic
        window = ObservedWindow(
            sampled_at=last.at,
            seconds=seconds,
            node_cpu=self._node.cpu.summary(),
            node_memory=self._node.memory.summary(),
            system_cpu=self._system.cpu.summary(),
            system_memory=self._system.memory.summary(),
            node_pressure=self._node.pressure,
            prod_pressure=self._prod,
            pods=tuple(
                _pod_window(pod, self._pods[pod.uid], self._previous_pods[pod.uid]) for pod in self.sampled(pods)
            ),
            node_free_bytes=last.node_free_bytes,
            failed_pods=last.failed_pods,
            prod_refaults=per_second(opened.prod_refault_bytes, last.prod_refault_bytes, seconds),
            disks=disk_uses(opened.disks, last.disks, seconds),
            links=link_uses(opened.links, last.links, seconds),
            host_apps=tuple(_app_window(name, self._apps[name]) for name in sorted(self._apps)) if self._apps else (),
        )
        self._opened = last
        self._prod = PressureWindow()
        for series in (self._node, self._system, *self._pods.values()):
            series.clear()
        self._apps = {}
        return window

    def _add_memory(self, sample: RawSample, apps: list[int]) -> None:
        _add(self._node.memory, sample.node_memory_bytes)
        held = [*(pod.memory_bytes for pod in sample.pods), *apps]
        _add(self._system.memory, remainder(sample.node_memory_bytes, held))
        for pod in sample.pods:
            series = self._pods.setdefault(pod.uid, _Series(self.capacity))
            _add(series.memory, pod.memory_bytes)

    def _add_apps(self, previous: RawSample, sample: RawSample, seconds: float) -> list[tuple[int, int]]:
        """CPU and memory of the host applications. Where a rate is not known (new, or its counter was reset) both count
        as system, as they would without the setting."""
        known = {app.name: app for app in previous.host_apps}
        used: list[tuple[int, int]] = []
        for app in sample.host_apps:
            before = known.get(app.name)
            rate = milli_of(before.cpu_ns, app.cpu_ns, seconds) if before is not None else None
            if rate is not None:
                series = self._app(app)
                series.cpu.add(rate)
                series.memory.add(app.memory_bytes)
                used.append((rate, app.memory_bytes))
        return used

    def _app(self, app: HostSample) -> _AppSeries:
        series = self._apps.get(app.name)
        if series is None:
            series = self._apps[app.name] = _AppSeries(app.tier, Ring(self.capacity), Ring(self.capacity))
        series.tier = app.tier
        return series

    def _add_pod(
        self, now: PodSample, before: PodSample | None, previous: RawSample, seconds: float, pods: Sequence[Pod]
    ) -> int | None:
        if before is None:
            # Counters of a new cgroup start at zero; those of one we merely had not seen before do not.
            started = next((pod.started_at for pod in pods if pod.uid == now.uid), None)
            if started is None or started < previous.at - _STARTED_SLACK:
                return None
            before = PodSample(now.uid, 0, None, PsiTotals(0, 0, 0), 0, 0)
        series = self._pods[now.uid]
        rate = milli_of(before.cpu_ns, now.cpu_ns, seconds)
        _add(series.cpu, rate)
        series.pressure.add(before.psi, now.psi, seconds)
        series.count_periods(before, now)
        return rate


def _add(ring: Ring, value: int | None) -> None:
    if value is not None:
        ring.add(value)


def _app_window(name: str, series: _AppSeries) -> HostWindow:
    return HostWindow(name, series.tier, series.cpu.summary(), series.memory.summary())


def _pod_window(pod: Pod, series: _Series, last: PodSample) -> PodWindow:
    cpu, memory = series.cpu.summary(), series.memory.summary()
    return PodWindow(pod, cpu, memory, series.pressure, series.throttled_ratio(), last.cache_bytes)

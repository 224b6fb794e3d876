"""The fold of slackwater.cluster in plain Python: keeps the newest event of each source and joins them on request.

It is the reference for the correctness and the speed of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from slackwater.events.envelope import Event
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.measures import Usage
from slackwater.events.node_described import NodeDescribed
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.node_scheduling_changed import NodeSchedulingChanged
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.events.pods_rostered import PodsRostered
from slackwater.events.resources_offered import ResourcesOffered
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedUsage
from slackwater.model.nodes import NodeFacts
from slackwater.model.pods import Pod
from slackwater.model.tiers import Tier

Amount = tuple[int | None, int | None]
NOTHING: Amount = (None, None)


@dataclass(frozen=True, slots=True)
class PlainPod:
    """A running pod. None: unknown."""

    described: Pod
    usage: Amount = NOTHING
    cpu_limit: int | str | None = None
    """`unlimited` if the report says so."""
    window_p95: Amount = NOTHING
    peak: Amount = NOTHING
    cold_start: bool = False
    wanted_cpu_limit: int | None = None
    limit_failed: bool = False
    evicting: bool = False


@dataclass(frozen=True, slots=True)
class PlainNode:
    """A node that any event named. None: unknown."""

    facts: NodeFacts | None
    ages: Mapping[str, float]
    usage: Amount
    system_usage: Amount
    prod_pressure: float | None
    window_p95: Amount
    node_peak: Amount
    system_peak: Amount
    prod_peak: Amount
    prod_reclaimable: Amount
    tier_peaks: Mapping[Tier, Amount]
    confidence: float | None
    cold_start_share: float | None
    batch: Amount
    mid: Amount
    offer_generation: int | None
    offer_degraded: bool
    liveness: str
    cordoned: bool
    intent_pending: bool
    pods: Mapping[str, PlainPod]


T = TypeVar("T")


@dataclass(slots=True)
class _Known:
    """The newest events of one node, by type and writer."""

    newest: dict[tuple[type, str], Any] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)

    def last(self, kind: type[T]) -> T | None:
        return self.newest.get((kind, ""))

    def by_writer(self, kind: type[T]) -> Mapping[str, T]:
        return {writer: data for (type_, writer), data in self.newest.items() if type_ is kind}


_ORDER: Mapping[type, Callable[[Any], Any]] = {
    NodeDescribed: lambda data: (data.described_at, data.boot_epoch),
    UsageWindowed: lambda data: (data.window_start, data.window_seconds),
    PeakPredicted: lambda data: (data.predicted_at, data.window_number),
    ResourcesOffered: lambda data: (data.offered_at, data.generation),
    NodeLivenessChanged: lambda data: (data.changed_at, data.liveness),
    NodeSchedulingChanged: lambda data: (data.told_at, data.closed),
    IntentDeclared: lambda data: (data.epoch, data.generation),
    IntentObserved: lambda data: (data.generation, data.observed_at),
}


@dataclass(slots=True)
class PlainCluster:
    """Keeps the newest events unchanged."""

    known: dict[str, _Known] = field(default_factory=dict)
    removed: dict[str, datetime] = field(default_factory=dict)

    def apply(self, event: Event[Any]) -> None:
        data = event.data
        name = data.facts.name if isinstance(data, NodeDescribed) else data.node
        if name in self.removed and _time(data) <= self.removed[name]:
            return
        node = self.known.setdefault(name, _Known())
        if isinstance(data, EvictionCompleted):
            node.completed.add(data.id)
            return
        if isinstance(data, UsageReported | PodsRostered):
            self._run(node, data)
            return
        key = type(data), getattr(data, "writer", "")
        last = node.newest.get(key)
        if last is None or _is_newer(data, last):
            node.newest[key] = data

    def _run(self, node: _Known, data: UsageReported | PodsRostered) -> None:
        """Of rosters and reports together the newest says what runs."""
        last = node.last(PodsRostered)
        if last is not None and not _is_newer(data, last):
            return
        node.newest[PodsRostered, ""] = data
        if isinstance(data, UsageReported):
            node.newest[UsageReported, ""] = data

    def remove(self, name: str, at: datetime) -> None:
        self.removed[name] = at
        self.known.pop(name, None)

    def view(self, now: datetime) -> Mapping[str, PlainNode]:
        """Returns all nodes by name."""
        return {name: _node(known, now) for name, known in self.known.items()}


def _node(known: _Known, now: datetime) -> PlainNode:
    report, window = known.last(UsageReported), known.last(UsageWindowed)
    by_window = _by_window(report, window)
    peak, offer = known.last(PeakPredicted), known.last(ResourcesOffered)
    described, liveness = known.last(NodeDescribed), known.last(NodeLivenessChanged)
    scheduling = known.last(NodeSchedulingChanged)
    documents, answers = known.by_writer(IntentDeclared), known.by_writer(IntentObserved)
    return PlainNode(
        facts=described.facts if described else None,
        ages=_ages(known, now),
        usage=_measured(
            report.node_usage if report else None, window.node_usage if window else None, by_window=by_window
        ),
        system_usage=_measured(
            report.system_usage if report else None, window.system_usage if window else None, by_window=by_window
        ),
        prod_pressure=report.prod_pressure.cpu_some_avg if report else None,
        window_p95=_p95(window.node_usage if window else None),
        node_peak=_amount(peak and peak.node_peak),
        system_peak=_amount(peak and peak.system_peak),
        prod_peak=_amount(peak and peak.prod_peak),
        prod_reclaimable=_amount(peak and peak.prod_reclaimable),
        tier_peaks={tier: _amount(peak and peak.tier_peaks.get(tier)) for tier in Tier},
        confidence=peak.confidence if peak else None,
        cold_start_share=peak.cold_start_share if peak else None,
        batch=_amount(offer and offer.batch),
        mid=_amount(offer and offer.mid),
        offer_generation=offer.generation if offer else None,
        offer_degraded=offer is not None and offer.degraded is not None,
        liveness=liveness.liveness if liveness else "unknown",
        cordoned=bool(scheduling and scheduling.closed and scheduling.valid_until and scheduling.valid_until > now),
        intent_pending=any(
            writer not in answers or answers[writer].generation < document.generation
            for writer, document in documents.items()
        ),
        pods=_pods(known, now),
    )


def _pods(known: _Known, now: datetime) -> Mapping[str, PlainPod]:
    report, window, prediction = known.last(UsageReported), known.last(UsageWindowed), known.last(PeakPredicted)
    documents, answers = known.by_writer(IntentDeclared), known.by_writer(IntentObserved)
    reported = {pod.pod.uid: pod for pod in report.pods} if report else {}
    windowed = {pod.pod.uid: pod for pod in window.pods} if window else {}
    peaks = {pod.uid: pod for pod in prediction.pods} if prediction else {}
    by_window = _by_window(report, window)
    pods = {}
    for uid, described in _running(known.last(PodsRostered)).items():
        measured, peak = reported.get(uid), peaks.get(uid)
        window_usage = windowed[uid].usage if uid in windowed else None
        limit = measured.cpu_limit_milli if measured else None
        limits_wanted = [
            throttle.cpu_limit_milli
            for document in documents.values()
            for throttle in document.throttles
            if throttle.pod_uid == uid
        ]
        pods[uid] = PlainPod(
            described=described,
            usage=_measured(measured.usage if measured else None, window_usage, by_window=by_window),
            cpu_limit="unlimited" if measured and limit is None else limit,
            window_p95=_p95(window_usage),
            peak=_amount(peak and peak.peak),
            cold_start=peak is not None and peak.cold_start,
            wanted_cpu_limit=min(limits_wanted, default=None),
            limit_failed=any(
                limit.pod_uid == uid and limit.error is not None
                for writer, answer in answers.items()
                if writer in documents and documents[writer].generation == answer.generation
                for limit in answer.limits
            ),
            evicting=any(
                eviction.pod_uid == uid and eviction.id not in known.completed and eviction.deadline > now
                for document in documents.values()
                for eviction in document.evictions
            ),
        )
    return pods


def _running(newest: UsageReported | PodsRostered | None) -> Mapping[str, Pod]:
    """The pods that run by the last roster or report."""
    if newest is None:
        return {}
    pods = newest.roster.pods if isinstance(newest, PodsRostered) else [usage.pod for usage in newest.pods]
    return {pod.uid: pod for pod in pods}


def _by_window(report: UsageReported | None, window: UsageWindowed | None) -> bool:
    return window is not None and (report is None or _time(window) > report.sampled_at)


def _measured(report: Usage | None, window: WindowedUsage | None, *, by_window: bool) -> Amount:
    if not by_window:
        return _average(report)
    return NOTHING if window is None or not window.samples else (window.cpu_avg_milli, window.memory_avg_bytes)


_SOURCES: Mapping[type, str] = {
    NodeDescribed: "described",
    PodsRostered: "rostered",
    UsageReported: "reported",
    UsageWindowed: "windowed",
    PeakPredicted: "predicted",
    ResourcesOffered: "offered",
    IntentDeclared: "declared",
    IntentObserved: "observed",
    NodeLivenessChanged: "liveness",
    NodeSchedulingChanged: "scheduling",
}


def _ages(known: _Known, now: datetime) -> Mapping[str, float]:
    """Ages in seconds; a missing source has none."""
    ages: dict[str, float] = {}
    for (kind, _), data in known.newest.items():
        age = (now - _time(data)).total_seconds()
        source = _SOURCES[kind]
        ages[source] = min(age, ages.get(source, age))
    return ages


def _is_newer(data: Any, last: Any) -> bool:
    if isinstance(data, UsageReported | PodsRostered):
        if data.boot_epoch != last.boot_epoch:
            return bool(_time(data) > _time(last))
        is_later = data.sequence == last.sequence and isinstance(last, PodsRostered) and isinstance(data, UsageReported)
        return data.sequence > last.sequence or is_later
    order = _ORDER[type(data)]
    return bool(order(data) > order(last))


def _time(data: Any) -> datetime:
    if isinstance(data, UsageWindowed):
        return data.window_start + timedelta(seconds=data.window_seconds)
    fields = (
        *("described_at", "sampled_at", "predicted_at", "offered_at", "changed_at", "told_at"),
        *("declared_at", "observed_at", "completed_at", "rostered_at"),
    )
    at: datetime = next(getattr(data, name) for name in fields if hasattr(data, name))
    return at


def _average(usage: Usage | None) -> Amount:
    if usage is None:
        return NOTHING
    cpu, memory = usage.cpu_milli, usage.memory_bytes
    return cpu.avg if cpu.count else None, memory.avg if memory.count else None


def _p95(usage: WindowedUsage | None) -> Amount:
    if usage is None or not usage.samples:
        return NOTHING
    return usage.cpu_p95_milli, usage.memory_p95_bytes


def _amount(resources: Any) -> Amount:
    return NOTHING if resources is None else (resources.cpu_milli, resources.memory_bytes)

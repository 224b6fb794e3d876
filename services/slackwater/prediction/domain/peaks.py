"""Peaks of a node's owners, from what the models say: the pod view and the tier view, and the safer of both.

    peak(q)       = trunc(q x (100 + margin) / 100)          q: p95 of CPU, p98 of memory
    pod view        peak = sum of pods' peaks; reclaimable = sum of max(request - peak, 0), at most allocatable - peak
    tier view       peak = peak of tier prod; reclaimable = max(requests - peak(prod + system), 0), likewise capped
    combined        the larger peak, the smaller reclaimable

A model is cold until it has seen `min_windows` windows, however old the pod is; until then the request stands in,
or what was already seen if that is more. CPU of LSE pods (and of LSR pods, if so set) owns its cores: its unused
request is not reclaimable in either view. A system that was never measured makes nothing reclaimable, because
unknown is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.decisions.record import Term
from slackwater.model.quantities import Resources

MODEL = "histogram"
RESOURCES = ("cpu", "memory")


@dataclass(frozen=True, slots=True)
class PeakSettings:
    """`safety_margin_percent` on top of each percentile; `min_windows` before a model is believed."""

    safety_margin_percent: int = 10
    min_windows: int = 60
    protect_lsr: bool = False


@dataclass(frozen=True, slots=True)
class Learned:
    """What a model says before the margin, in milli-cores and bytes, and how many windows it has seen."""

    cpu: int
    memory: int
    windows: int


@dataclass(frozen=True, slots=True)
class PodSeries:
    """A pod of the node; `learned` is None when no model knows it."""

    uid: str
    workload: str
    tier: str
    qos: str
    request: Resources
    learned: Learned | None


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """Everything that peaks are made of. `allocatable` None: the node has not been described yet."""

    node: str
    allocatable: Resources | None
    pods: tuple[PodSeries, ...]
    tiers: Mapping[str, Learned]
    system: Learned | None
    whole: Learned | None


@dataclass(frozen=True, slots=True)
class Peak:
    """A predicted peak; `cold` says that the request stands in for a prediction."""

    amount: Resources
    cold: bool


@dataclass(frozen=True, slots=True)
class View:
    """One way to see prod: its peak, and how much of its requests it will not need."""

    peak: int
    reclaimable: int


@dataclass(frozen=True, slots=True)
class Explained:
    """The prod peak of one resource, as terms that add up to it, and both views."""

    result: int
    terms: tuple[Term, ...]
    pod_view: View
    tier_view: View

    @property
    def reclaimable(self) -> int:
        return min(self.pod_view.reclaimable, self.tier_view.reclaimable)


@dataclass(frozen=True, slots=True)
class NodePeaks:
    """The answer for one node; `pods` by uid, `tiers` only those that have pods."""

    cpu: Explained
    memory: Explained
    pods: Mapping[str, Peak]
    tiers: Mapping[str, Resources]
    system: Resources
    whole: Resources
    cold_start_share: float

    @property
    def prod_peak(self) -> Resources:
        return Resources(self.cpu.result, self.memory.result)

    @property
    def prod_reclaimable(self) -> Resources:
        return Resources(self.cpu.reclaimable, self.memory.reclaimable)


def with_margin(amount: int, settings: PeakSettings) -> int:
    """A percentile plus the safety margin, cut to a whole unit."""
    return amount * (100 + settings.safety_margin_percent) // 100


def pod_peak(pod: PodSeries, settings: PeakSettings) -> Peak:
    """The peak of one pod, or its request while the model is cold."""
    seen = margin_of(pod.learned, settings)
    cold = pod.learned is None or pod.learned.windows < settings.min_windows
    return Peak(pod.request.larger_of(seen) if cold else seen, cold)


def margin_of(learned: Learned | None, settings: PeakSettings) -> Resources:
    """Both percentiles with their margin; nothing for a model that knows nothing."""
    if learned is None:
        return Resources()
    return Resources(with_margin(learned.cpu, settings), with_margin(learned.memory, settings))


def owns_cores(pod: PodSeries, resource: str, settings: PeakSettings) -> bool:
    """Whether the pod's unused request must stay unused."""
    return resource == "cpu" and (pod.qos == "LSE" or (settings.protect_lsr and pod.qos == "LSR"))


def amount_of(resources: Resources, resource: str) -> int:
    return resources.cpu_milli if resource == "cpu" else resources.memory_bytes


def pod_view(series: NodeSeries, resource: str, settings: PeakSettings) -> View:
    """Prod as the sum of its pods; cold pods lend nothing."""
    total = kept = slack = 0
    for pod in _prod(series):
        peak = pod_peak(pod, settings)
        amount, request = amount_of(peak.amount, resource), amount_of(pod.request, resource)
        total += amount
        if peak.cold:
            continue
        if owns_cores(pod, resource, settings):
            kept += max(amount, request)
        else:
            kept += amount
            slack += max(request - amount, 0)
    return View(total, min(_room(series, resource, kept), slack))


def tier_view(series: NodeSeries, resource: str, settings: PeakSettings) -> View:
    """Prod as one series: smoother than the sum of its pods, and beside what the system takes."""
    pods = _prod(series)
    prod = series.tiers.get("prod")
    if not pods or prod is None:
        return View(0, 0)
    peak = with_margin(_learned(prod, resource), settings)
    if series.system is None or prod.windows < settings.min_windows:
        return View(peak, 0)
    used = with_margin(_learned(prod, resource) + _learned(series.system, resource), settings)
    lendable = sum(amount_of(pod.request, resource) for pod in pods if not owns_cores(pod, resource, settings))
    return View(peak, min(_room(series, resource, used), max(lendable - used, 0)))


def explain(series: NodeSeries, resource: str, settings: PeakSettings) -> Explained:
    """The prod peak of `cpu` (milli-cores) or `memory` (bytes) with its terms."""
    seen = margin = stand_in = 0
    warm = cold = 0
    for pod in _prod(series):
        peak = pod_peak(pod, settings)
        if peak.cold or pod.learned is None:
            stand_in += amount_of(peak.amount, resource)
            cold += 1
        else:
            seen += _learned(pod.learned, resource)
            margin += amount_of(peak.amount, resource) - _learned(pod.learned, resource)
            warm += 1
    by_pods, by_tier = pod_view(series, resource, settings), tier_view(series, resource, settings)
    above = max(by_tier.peak - by_pods.peak, 0)
    terms = (
        Term(name="pods_percentile", value=seen, note=f"{'p95' if resource == 'cpu' else 'p98'} of {warm} pods"),
        Term(name="safety_margin", value=margin, note=f"{settings.safety_margin_percent} %"),
        Term(
            name="cold_start_requests", value=stand_in, note=f"{cold} pods seen in under {settings.min_windows} windows"
        ),
        Term(name="tier_above_pods", value=above, note="the tier as a whole peaks higher than its pods' sum"),
    )
    return Explained(by_pods.peak + above, terms, by_pods, by_tier)


def node_peaks(series: NodeSeries, settings: PeakSettings) -> NodePeaks:
    """All peaks of one node."""
    return NodePeaks(
        cpu=explain(series, "cpu", settings),
        memory=explain(series, "memory", settings),
        pods={pod.uid: pod_peak(pod, settings) for pod in series.pods},
        tiers={tier: margin_of(learned, settings) for tier, learned in series.tiers.items()},
        system=margin_of(series.system, settings),
        whole=margin_of(series.whole, settings),
        cold_start_share=cold_start_share(_prod(series), settings),
    )


def cold_start_share(pods: Sequence[PodSeries], settings: PeakSettings) -> float:
    """Share (0..1) of the prod requests that stand in for a prediction, for the resource where it is larger."""
    cold = [pod for pod in pods if pod_peak(pod, settings).cold]
    shares = [0.0]
    for resource in RESOURCES:
        whole = sum(amount_of(pod.request, resource) for pod in pods)
        if whole > 0:
            shares.append(sum(amount_of(pod.request, resource) for pod in cold) / whole)
    if len(shares) == 1 and pods:  # nobody requested anything: count heads
        return len(cold) / len(pods)
    return max(shares)


def decide(resource: str, series: dict[str, Any], settings: dict[str, Any]) -> int:
    """Repeat a recorded decision from the JSON of its record."""
    return explain(series_from_json(series), resource, PeakSettings(**settings)).result


def series_to_json(series: NodeSeries) -> dict[str, Any]:
    """Only what the prod peaks depend on: pods of other tiers and the node's own peak are left out."""
    return {
        "node": series.node,
        "allocatable": _resources_to_json(series.allocatable) if series.allocatable else None,
        "pods": [_pod_to_json(pod) for pod in _prod(series)],
        "tiers": {tier: _learned_to_json(learned) for tier, learned in series.tiers.items() if tier == "prod"},
        "system": _learned_to_json(series.system),
    }


def _pod_to_json(pod: PodSeries) -> dict[str, Any]:
    """Written out: `dataclasses.asdict` copies every value deeply, which was half the cost of a prediction."""
    return {
        "uid": pod.uid,
        "workload": pod.workload,
        "tier": pod.tier,
        "qos": pod.qos,
        "request": _resources_to_json(pod.request),
        "learned": _learned_to_json(pod.learned),
    }


def _resources_to_json(amount: Resources) -> dict[str, int]:
    return {"cpu_milli": amount.cpu_milli, "memory_bytes": amount.memory_bytes}


def _learned_to_json(learned: Learned | None) -> dict[str, int] | None:
    if learned is None:
        return None
    return {"cpu": learned.cpu, "memory": learned.memory, "windows": learned.windows}


def series_from_json(document: dict[str, Any]) -> NodeSeries:
    """The inverse of `series_to_json`, as far as the prod peaks depend on it."""
    return NodeSeries(
        node=document["node"],
        allocatable=Resources(**document["allocatable"]) if document["allocatable"] else None,
        pods=tuple(
            PodSeries(**{**pod, "request": Resources(**pod["request"]), "learned": _learned_from(pod["learned"])})
            for pod in document["pods"]
        ),
        tiers={tier: Learned(**learned) for tier, learned in document["tiers"].items()},
        system=_learned_from(document["system"]),
        whole=None,
    )


def _learned_from(document: dict[str, int] | None) -> Learned | None:
    return Learned(**document) if document else None


def _prod(series: NodeSeries) -> list[PodSeries]:
    return [pod for pod in series.pods if pod.tier == "prod"]


def _learned(learned: Learned, resource: str) -> int:
    return learned.cpu if resource == "cpu" else learned.memory


def _room(series: NodeSeries, resource: str, kept: int) -> int:
    """What allocatable leaves beside `kept`; nothing while the node is unknown."""
    if series.allocatable is None:
        return 0
    return max(amount_of(series.allocatable, resource) - kept, 0)

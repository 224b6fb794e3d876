"""The two views of prod that the field's node agent combines, mended: from percentiles of pods and of the tier.

The service predicts groups by a model and lends of their common peak (`forecast`); the vectors ask for the views one by
one, so they are here, beside the adaptors. test_peer_views.py holds them against what runs.

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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slackwater.model.quantities import Resources
from slackwater.prediction.domain.forecast import protected
from slackwater.prediction.domain.pod_table import QOS


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
    return (
        bool(protected(np.array([QOS.index(pod.qos)]), resource, settings.protect_lsr)[0]) if pod.qos in QOS else False
    )


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


def _prod(series: NodeSeries) -> list[PodSeries]:
    return [pod for pod in series.pods if pod.tier == "prod"]


def _learned(learned: Learned, resource: str) -> int:
    return learned.cpu if resource == "cpu" else learned.memory


def _room(series: NodeSeries, resource: str, kept: int) -> int:
    """What allocatable leaves beside `kept`; nothing while the node is unknown."""
    if series.allocatable is None:
        return 0
    return max(amount_of(series.allocatable, resource) - kept, 0)

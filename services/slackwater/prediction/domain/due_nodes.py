"""What a pool's check publishes: the nodes that are due, with what their pods and models contribute. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slackwater.model.records import record
from slackwater.peaks.port import (
    ByClass,
    Calibrated,
    Floats,
    KeptModel,
    ModelCalibration,
    ReportsProblems,
    RolloutAware,
)
from slackwater.prediction.domain.cadence import Cause
from slackwater.prediction.domain.forecast import Forecast
from slackwater.prediction.domain.pod_peaks import PodPeaks, pod_peaks
from slackwater.prediction.domain.pod_table import QOS, RESOURCES, TIERS, PodModels, kind_of
from slackwater.prediction.domain.policy import PoolPolicy
from slackwater.prediction.domain.row_ids import parts_of
from slackwater.prediction.domain.state import LastWindow, Node, PoolModels

_NAMED = 3
"""Number of changing workloads of a node that are named."""


@record(frozen=True, slots=True)
class PredictedPod:
    """A pod and its share of the peak of its group; `cold`: its limit is used."""

    uid: str
    workload: str
    tier: str
    cpu_milli: int
    memory_bytes: int
    cold: bool


@record(frozen=True, slots=True)
class UsedModel:
    """A model and its calibration."""

    name: str
    version: str
    standing: ModelCalibration
    fallback: str = ""
    """What unknown pods count with, as text."""
    problem: str = ""
    """What the model could not do; the limits are used there."""


@record(frozen=True, slots=True)
class DueNodes:
    """Nodes of one pool that are due, with their causes; columns of `forecast` are by node number."""

    pool: str
    policy: PoolPolicy
    forecast: Forecast
    nodes: Sequence[tuple[Node, LastWindow, Cause]]
    models: Mapping[str, UsedModel]
    pods: Mapping[int, Sequence[PredictedPod]]
    """By node number."""
    unknown: tuple[int, float]
    """Number of the pool's nodes with prod pods, and the mean ratio (0..1) of their pods that are not known yet."""
    rollouts: Mapping[str, Mapping[int, str]]
    """By resource and node number: the changing workloads of the node, with the cause."""
    cold: Floats
    """(nodes due, 2) ratio of prod's requests, and of prod's limits, that belongs to unknown pods."""


def due_nodes(
    pool: PoolModels,
    name: str,
    policy: PoolPolicy,
    pool_forecast: Forecast,
    nodes: Sequence[tuple[Node, LastWindow, Cause]],
) -> DueNodes:
    """Returns the nodes that are to be published, with what their events need. `nodes` ascend by number."""
    numbers = [node.number for node, _, _ in nodes]
    peaks = pod_peaks(pool, policy, pool_forecast, numbers)
    models = {resource: _used(pool, resource) for resource in RESOURCES}
    rollouts = {resource: _rollouts(pool, resource, peaks, pool_forecast) for resource in RESOURCES}
    pods, unknown, cold = _predicted_pods(pool, peaks, numbers), _unknown(pool_forecast), _cold(pool, peaks, numbers)
    return DueNodes(name, policy, pool_forecast, nodes, models, pods, unknown, rollouts, cold)


def _predicted_pods(pool: PoolModels, peaks: PodPeaks, numbers: Sequence[int]) -> Mapping[int, Sequence[PredictedPod]]:
    by_node: dict[int, list[PredictedPod]] = {number: [] for number in numbers}
    pods = pool.pods
    workloads = pods.members["workload"][peaks.rows]
    tiers = pods.places["tier"][pods.members["group"][peaks.rows]]
    columns = (peaks.rows, peaks.node, workloads, tiers, peaks.peaks.astype(np.int64), peaks.held.any(axis=1))
    for row, number, workload, tier, peak, cold in zip(*(column.tolist() for column in columns), strict=True):
        uid = parts_of(pods.series.name(row))[1]
        by_node[number].append(PredictedPod(uid, pods.workloads.name(workload), TIERS[tier], peak[0], peak[1], cold))
    return by_node


def _rollouts(pool: PoolModels, resource: str, peaks: PodPeaks, pool_forecast: Forecast) -> Mapping[int, str]:
    """Returns the rollouts of prod workloads by node, for nodes whose knob is raised by one."""
    model, pods = pool.pods.models[resource], pool.pods
    if not isinstance(model, RolloutAware):
        return {}
    workloads = pods.members["workload"][peaks.rows].astype(np.intp)
    prod = pods.places["tier"][pods.members["group"][peaks.rows]] == 0
    changing = np.flatnonzero(prod & model.changing(pool_forecast.at_seconds, workloads))
    by_node: dict[int, dict[int, None]] = {}
    for node, workload in zip(peaks.node[changing].tolist(), workloads[changing].tolist(), strict=True):
        by_node.setdefault(node, {})[workload] = None
    return {node: _reasons(pods, list(by_workload)) for node, by_workload in by_node.items()}


def _reasons(pods: PodModels, workloads: Sequence[int]) -> str:
    named = [
        f"{pods.workloads.name(workload)} {pods.rollouts.reason_text(workload)}" for workload in workloads[:_NAMED]
    ]
    more = len(workloads) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _unknown(pool_forecast: Forecast) -> tuple[int, float]:
    groups = pool_forecast.seen["cpu"].group
    groups = groups[groups >= 0]
    shares = np.maximum(*(forecast_of.peaks.cold_share[groups] for forecast_of in pool_forecast.seen.values()))
    return len(groups), float(shares.mean()) if len(groups) else 0.0


def _used(pool: PoolModels, resource: str) -> UsedModel:
    model = pool.pods.models[resource]
    standing = model.standing() if isinstance(model, Calibrated) else ModelCalibration()
    problem = model.problem if isinstance(model, ReportsProblems) else ""
    return UsedModel(model.name, model.version, standing, _fallback(model), problem)


def _fallback(model: KeptModel) -> str:
    """Renders what prod pods that are not known count with."""
    if not (isinstance(model, ByClass) and model.by_class):
        return "the limits of unknown pods"
    priors = {qos: model.prior(int(kind_of(0, number))) for number, qos in enumerate(QOS) if qos}
    shares = [f"prod/{qos}: {share:.2f} ({known} known)" for qos, (share, known) in priors.items() if known]
    return f"class priors, shares of the limit: {', '.join(shares) or 'none known yet: the limit'}"


def _cold(pool: PoolModels, peaks: PodPeaks, numbers: Sequence[int]) -> Floats:
    """Returns the ratio (0..1) of prod's requests, and of its limits, that belongs to unknown pods, of the resource
    with the larger ratio. Without any requests, pods are counted. `numbers` of nodes ascend.
    """
    pods = pool.pods
    prod = np.flatnonzero(pods.places["tier"][pods.members["group"][peaks.rows]] == 0)
    place = np.searchsorted(numbers, peaks.node[prod])
    ratios = np.zeros((len(numbers), 2))
    for number, resource in enumerate(RESOURCES):
        cold = peaks.cold[prod, number]
        for column, weight in enumerate(
            (pods.members[f"request_{resource}"][peaks.rows[prod]], peaks.limits[prod, number])
        ):
            weights = np.where(np.bincount(place, weight, len(numbers))[place] > 0, weight, 1.0)
            whole = np.bincount(place, weights, len(numbers))
            share = np.bincount(place, np.where(cold, weights, 0.0), len(numbers))
            share = np.divide(share, whole, out=np.zeros(len(numbers)), where=whole > 0)
            ratios[:, column] = np.maximum(ratios[:, column], share)
    return ratios

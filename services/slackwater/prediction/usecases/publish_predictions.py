"""Checks all nodes of a partition on a timer and publishes those whose prediction is due (see domain/cadence).

Due predictions are computed in one pass and written in transactions of a few nodes each, while folding continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from slackwater.events.envelope import Event
from slackwater.model.errors import Fenced, InvalidInput, Unavailable
from slackwater.model.identifiers import PARTITIONS
from slackwater.model.records import record
from slackwater.model.time import Clock
from slackwater.peaks.port import (
    ByClass,
    Calibrated,
    Floats,
    KeptModel,
    ModelCalibration,
    ReportsProblems,
    RolloutAware,
)
from slackwater.prediction.domain.cadence import Cause, Published, causes
from slackwater.prediction.domain.forecast import Forecast, forecast
from slackwater.prediction.domain.pod_peaks import PodPeaks, pod_peaks
from slackwater.prediction.domain.pod_table import QOS, RESOURCES, TIERS, PodModels, kind_of
from slackwater.prediction.domain.policy import PoolPolicy
from slackwater.prediction.domain.row_ids import parts_of
from slackwater.prediction.domain.state import LastWindow, Node, PoolModels
from slackwater.prediction.ports import MeasuredRisk, PredictionMeter
from slackwater.prediction.usecases.partition_store import LivingState, PoolCheck
from slackwater.prediction.usecases.prediction_events import NodePrediction, PredictedPod, UsedModel, events_of
from slackwater.store.quarantine import Item, partition_of_node

_AT_ONCE = 64
"""Nodes in one transaction."""
PUBLISHED = "published_windows"
"""The table of the published predictions."""
POOLS = "pools"
"""The quarantine's name for the models of a pool in a partition, which belong to no table."""
_NAMED = 3
"""Number of changing workloads of a node that are named."""


@record(frozen=True, slots=True)
class Due:
    """Nodes of one pool that are due, with their causes; columns of `forecast` are by node number."""

    pool: str
    policy: PoolPolicy
    forecast: Forecast
    nodes: Sequence[tuple[Node, LastWindow, Cause]]
    models: Mapping[str, UsedModel]
    parts: Mapping[int, Sequence[PredictedPod]]
    unknown: tuple[int, float]
    """Number of the pool's nodes with prod pods, and the mean ratio (0..1) of their pods that are not known yet."""
    rollouts: Mapping[str, Mapping[int, str]]
    """By resource and node number: the changing workloads of the node, with the cause."""
    cold: Floats
    """(nodes due, 2) ratio of prod's requests, and of prod's limits, that belongs to unknown pods."""


async def publish_predictions(
    living: LivingState, clock: Clock, meter: PredictionMeter | None = None
) -> Mapping[Cause, int]:
    """Publishes what is due in the pools whose check is due. Returns the number of nodes by cause.

    Raises Unavailable or Fenced; unpublished nodes are checked again in the next check.
    """
    published: Counter[Cause] = Counter()
    async with living.looking:
        async with living.lock:
            due = [
                pool_due
                for name in sorted(living.models.pools)
                if (pool_due := _check_or_quarantine(living, name, clock))
            ]
        try:
            for pool_due in due:
                for first in range(0, len(pool_due.nodes), _AT_ONCE):
                    some = range(first, min(first + _AT_ONCE, len(pool_due.nodes)))
                    now = clock.now()
                    causes_now = await _publish_or_split(living, pool_due, some, now)
                    published += causes_now
                    if meter is not None:
                        _record_metrics(meter, living.partition, pool_due, causes_now, now)
        except (Fenced, Unavailable):
            living.check_again()
            raise
    return published


def _record_metrics(
    meter: PredictionMeter, partition: int, due: Due, published: Mapping[Cause, int], now: datetime
) -> None:
    for cause, nodes in published.items():
        meter.published(cause, nodes, now)
    for resource, used in due.models.items():
        standing = used.standing
        measured = MeasuredRisk(standing.stated_rate, standing.measured_rate, standing.machine_days, standing.knob)
        meter.measured(partition, due.pool, resource, measured)
    meter.cold(partition, due.pool, *due.unknown)


def last_due(partition: int, now: float, check_seconds: float) -> float:
    """Returns when the present check of a partition was due, in the seconds of `now`: partitions take turns.

    Simultaneous checks would publish a burst: with 2,000 nodes an offer then waited up to 2 s behind it in the console.
    """
    turn = check_seconds * partition / PARTITIONS
    return (now - turn) // check_seconds * check_seconds + turn


def next_check(living: LivingState, clock: Clock) -> float:
    """Returns the seconds until the next check of a pool."""
    now = clock.monotonic()
    waits = [
        living.looked[name].at + living.policies.of(name).cadence.check_seconds - now if name in living.looked else 0.0
        for name in living.models.pools
    ]
    return max(min(waits, default=1.0), 0.0)


def check_pool(living: LivingState, name: str, clock: Clock) -> Due | None:
    """Returns what is due in a pool; None before its next check, or if nothing can have changed since the last one."""
    pool, policy, cadence = living.models.pools[name], living.policies.of(name), living.policies.of(name).cadence
    before = living.looked.get(name)
    if before is not None and clock.monotonic() < before.at + cadence.check_seconds:
        return None
    unchanged = before is not None and before.folds == pool.folds and clock.now().timestamp() < before.due_at
    due_at = before.due_at if before is not None and unchanged else float("inf")
    at = last_due(living.partition, clock.monotonic(), cadence.check_seconds)
    living.looked[name] = PoolCheck(at, pool.folds, due_at)
    if unchanged:
        return None
    silent = (
        living.models.latest_seconds - living.models.keeping.pod_seconds
    )  # pods of nodes silent for longer are deleted
    known = (node for node in living.models.nodes.values() if node.pool == name and node.taken.end >= silent)
    nodes = [node for node in known if node.folded is not None and not living.quarantine.holds_node(node.name)]
    if not nodes:
        return None
    nodes.sort(key=lambda node: node.number)
    pool_forecast = forecast(pool, policy, _allocatable(living), float(living.models.latest_seconds))
    numbers = np.array([node.number for node in nodes])
    now = clock.now().timestamp()
    last = [living.published.get(node.name) for node in nodes]
    until = [node.folded.end for node in nodes if node.folded is not None]
    why = causes(last, until, pool_forecast.values[numbers], now, cadence)
    waiting = [
        published.at + cadence.reporting_seconds - cadence.check_seconds / 2
        for published, end, cause in zip(last, until, why, strict=True)
        if cause is None and published is not None and end > published.until
    ]
    living.looked[name] = PoolCheck(at, pool.folds, min(waiting, default=float("inf")))
    chosen = [(node, node.folded, cause) for node, cause in zip(nodes, why, strict=True) if cause and node.folded]
    return _due(pool, name, policy, pool_forecast, chosen) if chosen else None


def _check_or_quarantine(living: LivingState, name: str, clock: Clock) -> Due | None:
    """Checks one pool. A pool that fails is set aside until it is released, and the others of the partition go on."""
    row = f"{living.partition}/{name}"
    if living.quarantine.holds(POOLS, row):
        return None
    return living.quarantine.attempt(POOLS, row, lambda: check_pool(living, name, clock))


def partition_of_item(item: Item) -> int | None:
    """The partition whose owner may retry a quarantined item: of its node, or of the pool's models. None: of neither,
    such as a snapshot, which the next restore tries.
    """
    partition, _, pool = item.row.partition("/")
    if item.table == POOLS and pool and partition.isdecimal():
        return int(partition)
    return partition_of_node(item)


def _allocatable(living: LivingState) -> Floats:
    allocatable = np.full((len(living.models.by_number), 2), np.nan)
    for node in living.models.nodes.values():
        described = living.nodes.get(node.name)
        if described is not None:
            allocatable[node.number] = (described.allocatable.cpu_milli, described.allocatable.memory_bytes)
    return allocatable


def _due(
    pool: PoolModels,
    name: str,
    policy: PoolPolicy,
    pool_forecast: Forecast,
    nodes: Sequence[tuple[Node, LastWindow, Cause]],
) -> Due:
    numbers = [node.number for node, _, _ in nodes]
    seen = pod_peaks(pool, policy, pool_forecast, numbers)
    parts: dict[int, list[PredictedPod]] = {number: [] for number in numbers}
    pods = pool.pods
    groups = pods.members["group"][seen.rows]
    workloads = pods.members["workload"][seen.rows]
    tiers = pods.places["tier"][groups]
    columns = (seen.rows, seen.node, workloads, tiers, seen.peaks.astype(np.int64), seen.held.any(axis=1))
    for row, number, workload, tier, peak, cold in zip(*(column.tolist() for column in columns), strict=True):
        uid = parts_of(pods.series.name(row))[1]
        parts[number].append(PredictedPod(uid, pods.workloads.name(workload), TIERS[tier], peak[0], peak[1], cold))
    models = {resource: _used(pool, resource) for resource in RESOURCES}
    changes = {resource: _rollouts(pool, resource, seen, pool_forecast) for resource in RESOURCES}
    return Due(
        name, policy, pool_forecast, nodes, models, parts, _unknown(pool_forecast), changes, _cold(pool, seen, numbers)
    )


def _rollouts(pool: PoolModels, resource: str, seen: PodPeaks, pool_forecast: Forecast) -> Mapping[int, str]:
    """Returns the rollouts of prod workloads by node, for nodes whose knob is raised by one."""
    model, pods = pool.pods.models[resource], pool.pods
    if not isinstance(model, RolloutAware):
        return {}
    workloads = pods.members["workload"][seen.rows].astype(np.intp)
    prod = pods.places["tier"][pods.members["group"][seen.rows]] == 0
    changing = np.flatnonzero(prod & model.changing(pool_forecast.at_seconds, workloads))
    by_node: dict[int, dict[int, None]] = {}
    for node, workload in zip(seen.node[changing].tolist(), workloads[changing].tolist(), strict=True):
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
    shares_ = np.maximum(*(forecast_of.peaks.cold_share[groups] for forecast_of in pool_forecast.seen.values()))
    return len(groups), float(shares_.mean()) if len(groups) else 0.0


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
    shares = [f"prod/{qos}: {share:.2f} ({workloads} known)" for qos, (share, workloads) in priors.items() if workloads]
    return f"class priors, shares of the limit: {', '.join(shares) or 'none known yet: the limit'}"


def _cold(pool: PoolModels, seen: PodPeaks, numbers: Sequence[int]) -> Floats:
    """Returns the ratio (0..1) of prod's requests, and of its limits, that belongs to unknown pods, of the resource
    with the larger ratio. Without any requests, pods are counted. `numbers` of nodes ascend.
    """
    pods = pool.pods
    prod = np.flatnonzero(pods.places["tier"][pods.members["group"][seen.rows]] == 0)
    place = np.searchsorted(numbers, seen.node[prod])
    ratios = np.zeros((len(numbers), 2))
    for number, resource in enumerate(RESOURCES):
        cold = seen.cold[prod, number]
        for column, weight in enumerate(
            (pods.members[f"request_{resource}"][seen.rows[prod]], seen.limits[prod, number])
        ):
            weights = np.where(np.bincount(place, weight, len(numbers))[place] > 0, weight, 1.0)
            whole = np.bincount(place, weights, len(numbers))
            share = np.bincount(place, np.where(cold, weights, 0.0), len(numbers))
            share = np.divide(share, whole, out=np.zeros(len(numbers)), where=whole > 0)
            ratios[:, column] = np.maximum(ratios[:, column], share)
    return ratios


async def _publish_or_split(living: LivingState, due: Due, places: range, now: datetime) -> Counter[Cause]:
    """Publishes nodes together. If a node cannot be stored, publishes one by one and sets aside those that fail."""
    try:
        return await _publish(living, due, places, now)
    except InvalidInput:
        counts: Counter[Cause] = Counter()
        for place in places:
            node = due.nodes[place][0].name
            with living.quarantine.isolating(PUBLISHED, node, node=node):
                counts += await _publish(living, due, range(place, place + 1), now)
        return counts


async def _publish(living: LivingState, due: Due, places: range, now: datetime) -> Counter[Cause]:
    events: list[Event[Any]] = []
    published: dict[str, Published] = {}
    causes: Counter[Cause] = Counter()
    for place in places:
        node, _, cause = due.nodes[place]
        prediction = living.quarantine.attempt(
            PUBLISHED, node.name, partial(_prediction, living, due, place, now), node=node.name
        )
        if prediction is not None:
            events += prediction[0]
            published[node.name] = prediction[1]
            causes[cause] += 1
    await living.publish(events, published)
    return causes


def _prediction(living: LivingState, due: Due, place: int, now: datetime) -> tuple[Sequence[Event[Any]], Published]:
    """Returns the events of one node, and the row that records them."""
    node, window, cause = due.nodes[place]
    last = living.published.get(node.name)
    edition = last.next_edition(window.end, due.policy.name, due.policy.generation) if last else 0
    prediction = NodePrediction(
        node=node.name,
        pool=due.pool,
        number=node.number,
        window=window,
        cause=cause,
        edition=edition,
        forecast=due.forecast,
        policy=due.policy,
        models=due.models,
        pods=due.parts[node.number],
        rollouts={resource: due.rollouts[resource].get(node.number, "") for resource in RESOURCES},
        cold_of_requests=float(due.cold[place, 0]),
        cold_of_limits=float(due.cold[place, 1]),
    )
    values = tuple(int(value) for value in due.forecast.values[node.number])
    remembered = Published(window.end, now.timestamp(), due.policy.name, due.policy.generation, edition, values)
    return events_of(prediction, now), remembered

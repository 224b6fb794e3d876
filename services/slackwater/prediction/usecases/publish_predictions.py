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
from slackwater.model.time import Clock
from slackwater.peaks.port import Floats
from slackwater.prediction.domain.cadence import Cause, Published, causes
from slackwater.prediction.domain.due_nodes import DueNodes, due_nodes
from slackwater.prediction.domain.forecast import forecast
from slackwater.prediction.domain.pod_table import RESOURCES
from slackwater.prediction.domain.state import Node
from slackwater.prediction.metrics import CalibrationMetrics
from slackwater.prediction.ports import MeasuredRisk
from slackwater.prediction.usecases.partition_store import LivingState, PoolCheck
from slackwater.prediction.usecases.prediction_events import NodePrediction, events_of
from slackwater.store.quarantine import Item, partition_of_node

_AT_ONCE = 64
"""Nodes in one transaction."""
PUBLISHED = "published_windows"
"""The table of the published predictions."""
POOLS = "pools"
"""The quarantine's name for the models of a pool in a partition, which belong to no table."""


async def publish_predictions(
    living: LivingState, clock: Clock, meter: CalibrationMetrics | None = None
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
    meter: CalibrationMetrics, partition: int, due: DueNodes, published: Mapping[Cause, int], now: datetime
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


def check_pool(living: LivingState, name: str, clock: Clock) -> DueNodes | None:
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
    nodes = _reporting_nodes(living, name)
    if not nodes:
        return None
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
    return due_nodes(pool, name, policy, pool_forecast, chosen) if chosen else None


def _reporting_nodes(living: LivingState, pool: str) -> Sequence[Node]:
    """Returns the nodes of a pool by number; without those that have been silent for so long that their pods go."""
    silent_since = living.models.latest_seconds - living.models.keeping.pod_seconds
    nodes = [
        node
        for node in living.models.nodes.values()
        if node.pool == pool
        and node.taken.end >= silent_since
        and node.folded is not None
        and not living.quarantine.holds_node(node.name)
    ]
    return sorted(nodes, key=lambda node: node.number)


def _check_or_quarantine(living: LivingState, name: str, clock: Clock) -> DueNodes | None:
    """Checks one pool. A pool that fails is set aside until it is released, and the others of the partition go on."""
    row = f"{living.partition}/{name}"
    if living.quarantine.holds(POOLS, row):
        return None
    return living.quarantine.attempt(POOLS, row, lambda: check_pool(living, name, clock))


def partition_of_item(item: Item) -> int | None:
    """Returns the partition whose owner may retry a quarantined item: of its node, or of the pool's models. None: of
    neither, such as a snapshot, which the next restore tries.
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


async def _publish_or_split(living: LivingState, due: DueNodes, places: range, now: datetime) -> Counter[Cause]:
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


async def _publish(living: LivingState, due: DueNodes, places: range, now: datetime) -> Counter[Cause]:
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


def _prediction(
    living: LivingState, due: DueNodes, place: int, now: datetime
) -> tuple[Sequence[Event[Any]], Published]:
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
        pods=due.pods[node.number],
        rollouts={resource: due.rollouts[resource].get(node.number, "") for resource in RESOURCES},
        cold_of_requests=float(due.cold[place, 0]),
        cold_of_limits=float(due.cold[place, 1]),
    )
    values = tuple(int(value) for value in due.forecast.values[node.number])
    remembered = Published(window.end, now.timestamp(), due.policy.name, due.policy.generation, edition, values)
    return events_of(prediction, now), remembered

"""On a clock: look at all nodes of a partition at once, and publish those whose prediction is due (see domain/cadence).

What is due is computed in one go and then written node by node, a few in each transaction, while folding goes on.
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
from slackwater.prediction.domain.cadence import Cause, Published, causes
from slackwater.prediction.domain.crowd import QOS, RESOURCES, TIERS, Crowd, kind_of
from slackwater.prediction.domain.forecast import Forecast, forecast
from slackwater.prediction.domain.models.port import (
    ByClass,
    Calibrated,
    Faltering,
    Floats,
    KeptModel,
    Listening,
    Standing,
)
from slackwater.prediction.domain.numbers import parts_of
from slackwater.prediction.domain.policy import PoolPolicy
from slackwater.prediction.domain.shares import Shares, shares
from slackwater.prediction.domain.state import Heard, Node, Pool
from slackwater.prediction.ports import Measured, PredictionMeter
from slackwater.prediction.usecases.state import LivingState, Look
from slackwater.prediction.usecases.tell_prediction import NodePrediction, PodPart, UsedModel, events_of

_AT_ONCE = 64
"""Nodes in one transaction."""
PUBLISHED = "published_windows"
"""The table of what was published of each node."""
POOLS = "pools"
"""The models of a pool in a partition, as the quarantine names what no table holds alone."""
_NAMED = 3
"""Workloads that are named when many on a node change."""


@record(frozen=True, slots=True)
class Due:
    """Nodes of one pool that are to be published, and why; columns of `found` are by node number."""

    pool: str
    policy: PoolPolicy
    found: Forecast
    nodes: Sequence[tuple[Node, Heard, Cause]]
    models: Mapping[str, UsedModel]
    parts: Mapping[int, Sequence[PodPart]]
    unknown: tuple[int, float]
    """How many nodes of the pool have prod, and the mean share (0..1) of its pods that are not known yet."""
    rollouts: Mapping[str, Mapping[int, str]]
    """By resource and number of a node: which workloads on it change, and why that is thought."""
    cold: Floats
    """(nodes due, 2) share of prod's requests, and of prod's limits, that is not known yet."""


async def publish_predictions(
    living: LivingState, clock: Clock, meter: PredictionMeter | None = None
) -> Mapping[Cause, int]:
    """Look at the pools whose check is due and publish what is. Returns how many nodes, by cause.

    Raises Unavailable or Fenced; what was not published by then is looked at again in the next check.
    """
    told: Counter[Cause] = Counter()
    async with living.looking:
        async with living.lock:
            due = [one for name in sorted(living.models.pools) if (one := _look_or_note(living, name, clock))]
        try:
            for one in due:
                for first in range(0, len(one.nodes), _AT_ONCE):
                    some = range(first, min(first + _AT_ONCE, len(one.nodes)))
                    now = clock.now()
                    causes_now = await _publish_or_split(living, one, some, now)
                    told += causes_now
                    if meter is not None:
                        _tell_meter(meter, living.partition, one, causes_now, now)
        except (Fenced, Unavailable):
            living.look_again()
            raise
    return told


def _tell_meter(meter: PredictionMeter, partition: int, due: Due, told: Mapping[Cause, int], now: datetime) -> None:
    for cause, nodes in told.items():
        meter.published(cause, nodes, now)
    for each, used in due.models.items():
        standing = used.standing
        measured = Measured(standing.stated_rate, standing.measured_rate, standing.machine_days, standing.knob)
        meter.measured(partition, due.pool, each, measured)
    meter.cold(partition, due.pool, *due.unknown)


def last_due(partition: int, now: float, check_seconds: float) -> float:
    """When the check of a partition that is just due was due, in the seconds of `now`: partitions take turns.

    All of them at once would be a burst for everyone who reads predictions: with 2,000 nodes an offer then waited up to
    2 s behind them in the console.
    """
    turn = check_seconds * partition / PARTITIONS
    return (now - turn) // check_seconds * check_seconds + turn


def next_check(living: LivingState, clock: Clock) -> float:
    """Seconds until the next pool is to be looked at."""
    now = clock.monotonic()
    waits = [
        living.looked[name].at + living.policies.of(name).cadence.check_seconds - now if name in living.looked else 0.0
        for name in living.models.pools
    ]
    return max(min(waits, default=1.0), 0.0)


def look(living: LivingState, name: str, clock: Clock) -> Due | None:
    """What is due in a pool; None before its next check, and where nothing can have changed since the last one."""
    pool, policy, cadence = living.models.pools[name], living.policies.of(name), living.policies.of(name).cadence
    before = living.looked.get(name)
    if before is not None and clock.monotonic() < before.at + cadence.check_seconds:
        return None
    unchanged = before is not None and before.folds == pool.folds and clock.now().timestamp() < before.due_at
    due_at = before.due_at if before is not None and unchanged else float("inf")
    at = last_due(living.partition, clock.monotonic(), cadence.check_seconds)
    living.looked[name] = Look(at, pool.folds, due_at)
    if unchanged:
        return None
    silent = living.models.latest_seconds - living.models.keeping.pod_seconds  # from then on its pods are forgotten
    known = (node for node in living.models.nodes.values() if node.pool == name and node.taken.end >= silent)
    nodes = [node for node in known if node.folded is not None and not living.quarantine.holds_node(node.name)]
    if not nodes:
        return None
    nodes.sort(key=lambda node: node.number)
    found = forecast(pool, policy, _allocatable(living), float(living.models.latest_seconds))
    numbers = np.array([node.number for node in nodes])
    now = clock.now().timestamp()
    last = [living.published.get(node.name) for node in nodes]
    until = [node.folded.end for node in nodes if node.folded is not None]
    why = causes(last, until, found.values[numbers], now, cadence)
    waiting = [
        one.at + cadence.reporting_seconds - cadence.check_seconds / 2
        for one, end, cause in zip(last, until, why, strict=True)
        if cause is None and one is not None and end > one.until
    ]
    living.looked[name] = Look(at, pool.folds, min(waiting, default=float("inf")))
    chosen = [(node, node.folded, cause) for node, cause in zip(nodes, why, strict=True) if cause and node.folded]
    return _due(pool, name, policy, found, chosen) if chosen else None


def _look_or_note(living: LivingState, name: str, clock: Clock) -> Due | None:
    """One pool; where it fails, the others of the partition go on, and it is tried again when it is released."""
    row = f"{living.partition}/{name}"
    if living.quarantine.holds(POOLS, row):
        return None
    return living.quarantine.attempt(POOLS, row, lambda: look(living, name, clock))


def _allocatable(living: LivingState) -> Floats:
    found = np.full((len(living.models.by_number), 2), np.nan)
    for node in living.models.nodes.values():
        known = living.nodes.get(node.name)
        if known is not None:
            found[node.number] = (known.allocatable.cpu_milli, known.allocatable.memory_bytes)
    return found


def _due(pool: Pool, name: str, policy: PoolPolicy, found: Forecast, nodes: Sequence[tuple[Node, Heard, Cause]]) -> Due:
    numbers = [node.number for node, _, _ in nodes]
    seen = shares(pool, policy, found, numbers)
    parts: dict[int, list[PodPart]] = {number: [] for number in numbers}
    pods = pool.pods
    groups = pods.members["group"][seen.rows]
    workloads = pods.members["workload"][seen.rows]
    tiers = pods.places["tier"][groups]
    columns = (seen.rows, seen.node, workloads, tiers, seen.peaks.astype(np.int64), seen.held.any(axis=1))
    for row, number, workload, tier, peak, cold in zip(*(column.tolist() for column in columns), strict=True):
        uid = parts_of(pods.series.name(row))[1]
        parts[number].append(PodPart(uid, pods.workloads.name(workload), TIERS[tier], peak[0], peak[1], cold))
    models = {each: _used(pool, each) for each in RESOURCES}
    changes = {each: _rollouts(pool, each, seen, found) for each in RESOURCES}
    return Due(name, policy, found, nodes, models, parts, _unknown(found), changes, _cold(pool, seen, numbers))


def _rollouts(pool: Pool, resource: str, seen: Shares, found: Forecast) -> Mapping[int, str]:
    """Of prod, for nodes of which the knob is raised by a rollout."""
    model, pods = pool.pods.models[resource], pool.pods
    if not isinstance(model, Listening):
        return {}
    workloads = pods.members["workload"][seen.rows].astype(np.intp)
    prod = pods.places["tier"][pods.members["group"][seen.rows]] == 0
    changing = np.flatnonzero(prod & model.changing(found.at_seconds, workloads))
    by_node: dict[int, dict[int, None]] = {}
    for node, workload in zip(seen.node[changing].tolist(), workloads[changing].tolist(), strict=True):
        by_node.setdefault(node, {})[workload] = None
    return {node: _said(pods, list(one)) for node, one in by_node.items()}


def _said(pods: Crowd, workloads: Sequence[int]) -> str:
    named = [f"{pods.workloads.name(one)} {pods.rollouts.said(one)}" for one in workloads[:_NAMED]]
    more = len(workloads) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _unknown(found: Forecast) -> tuple[int, float]:
    groups = found.seen["cpu"].group
    groups = groups[groups >= 0]
    shares_ = np.maximum(*(each.peaks.cold_share[groups] for each in found.seen.values()))
    return len(groups), float(shares_.mean()) if len(groups) else 0.0


def _used(pool: Pool, resource: str) -> UsedModel:
    model = pool.pods.models[resource]
    standing = model.standing() if isinstance(model, Calibrated) else Standing()
    problem = model.problem if isinstance(model, Faltering) else ""
    return UsedModel(model.name, model.version, standing, _fallback(model), problem)


def _fallback(model: KeptModel) -> str:
    """What stands in for those of prod who are not known."""
    if not (isinstance(model, ByClass) and model.by_class):
        return "the limits of those who are not known"
    priors = {qos: model.prior(int(kind_of(0, number))) for number, qos in enumerate(QOS) if qos}
    said = [f"prod/{qos}: {share:.2f} ({known} known)" for qos, (share, known) in priors.items() if known]
    return f"class priors, shares of the limit: {', '.join(said) or 'none known yet: the limit'}"


def _cold(pool: Pool, seen: Shares, numbers: Sequence[int]) -> Floats:
    """Share (0..1) of prod's requests, and of its limits, that are of pods not known yet: of the resource where it is
    larger. Where nobody asks for anything, heads count. `numbers` of nodes ascend."""
    pods = pool.pods
    prod = np.flatnonzero(pods.places["tier"][pods.members["group"][seen.rows]] == 0)
    place = np.searchsorted(numbers, seen.node[prod])
    found = np.zeros((len(numbers), 2))
    for number, each in enumerate(RESOURCES):
        cold = seen.cold[prod, number]
        for column, weight in enumerate((pods.members[f"request_{each}"][seen.rows[prod]], seen.limits[prod, number])):
            weights = np.where(np.bincount(place, weight, len(numbers))[place] > 0, weight, 1.0)
            whole = np.bincount(place, weights, len(numbers))
            share = np.bincount(place, np.where(cold, weights, 0.0), len(numbers))
            share = np.divide(share, whole, out=np.zeros(len(numbers)), where=whole > 0)
            found[:, column] = np.maximum(found[:, column], share)
    return found


async def _publish_or_split(living: LivingState, due: Due, places: range, now: datetime) -> Counter[Cause]:
    """Together; where something cannot be stored, one by one, and what fails then is set aside."""
    try:
        return await _publish(living, due, places, now)
    except InvalidInput:
        told: Counter[Cause] = Counter()
        for place in places:
            node = due.nodes[place][0].name
            with living.quarantine.isolating(PUBLISHED, node, node=node):
                told += await _publish(living, due, range(place, place + 1), now)
        return told


async def _publish(living: LivingState, due: Due, places: range, now: datetime) -> Counter[Cause]:
    events: list[Event[Any]] = []
    published: dict[str, Published] = {}
    told: Counter[Cause] = Counter()
    for place in places:
        node, _, cause = due.nodes[place]
        found = living.quarantine.attempt(
            PUBLISHED, node.name, partial(_prediction, living, due, place, now), node=node.name
        )
        if found is not None:
            events += found[0]
            published[node.name] = found[1]
            told[cause] += 1
    await living.publish(events, published)
    return told


def _prediction(living: LivingState, due: Due, place: int, now: datetime) -> tuple[Sequence[Event[Any]], Published]:
    """The events of one node, and what is remembered of them."""
    node, heard, cause = due.nodes[place]
    last = living.published.get(node.name)
    edition = last.next_edition(heard.end, due.policy.name, due.policy.generation) if last else 0
    prediction = NodePrediction(
        node=node.name,
        pool=due.pool,
        number=node.number,
        heard=heard,
        cause=cause,
        edition=edition,
        found=due.found,
        policy=due.policy,
        models=due.models,
        pods=due.parts[node.number],
        rollouts={each: due.rollouts[each].get(node.number, "") for each in RESOURCES},
        cold_of_requests=float(due.cold[place, 0]),
        cold_of_limits=float(due.cold[place, 1]),
    )
    values = tuple(int(value) for value in due.found.values[node.number])
    remembered = Published(heard.end, now.timestamp(), due.policy.name, due.policy.generation, edition, values)
    return events_of(prediction, now), remembered

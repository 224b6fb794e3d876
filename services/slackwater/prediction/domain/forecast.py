"""Predicts the peaks of every node of a pool in one pass, as columns by node number.

    prod peak        = peak of the lending prod pods (by the model) + limits of prod pods that never lend
    prod reclaimable = min(requests of lending pods - their peak, allocatable - prod peak - system peak), at least 0

LSE pods own their CPU, and LSR pods do if the policy says so: owned CPU is not part of the model's input and is never
lent. If the system was never measured or the node never described, nothing is reclaimable, because unknown is not zero.
Peaks are rounded up to whole units.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from slackwater.model.records import record
from slackwater.peaks.port import Floats, Peaks, Rows
from slackwater.prediction.domain.pod_table import QOS, RESOURCES, TIERS, Flags, PodModels
from slackwater.prediction.domain.policy import PoolPolicy
from slackwater.prediction.domain.state import PoolModels

LENT_TIERS = TIERS[:4]
_PROD = 0
_LEAST = 1e-6
"""A peak this far above a whole unit, in units, is still rounded down to it."""


@record(frozen=True, slots=True)
class Seen:
    """The forecast of one resource of a pool. Columns are by node number, except those of groups."""

    peaks: Peaks
    """By group of pods."""
    group: Rows
    """By node: the group of its prod pods, -1 if it has none."""
    limits: Floats
    """By group: sum of the limits of the members in the model's input."""
    tiers: Floats
    """(tiers, nodes) peaks, including owned CPU."""
    owned: Floats
    """Limits of prod pods that never lend."""
    node: Floats
    system: Floats
    reclaimable: Floats


@record(frozen=True, slots=True)
class Forecast:
    """The forecast of a pool at one time. `values` (nodes, …) are the whole units that checks compare."""

    at_seconds: float
    seen: Mapping[str, Seen]
    allocatable: Floats
    """(nodes, 2), NaN for a node that was not described."""
    has_system: Flags
    has_tier: Flags
    """(tiers, nodes)"""
    values: Floats


def forecast(pool: PoolModels, policy: PoolPolicy, allocatable: Floats, at_seconds: float) -> Forecast:
    """Returns the forecast of a pool. `allocatable` (nodes, 2) is by node number, NaN if unknown."""
    nodes = len(allocatable)
    present = pool.pods.present()
    has_system, has_tier = np.zeros(nodes, dtype=bool), np.zeros((len(LENT_TIERS), nodes), dtype=bool)
    group = pool.pods.members["group"][present]
    tier, place = pool.pods.places["tier"][group], pool.pods.places["node"][group]
    ours = tier < len(LENT_TIERS)
    has_tier[tier[ours], place[ours]] = True
    whole = pool.whole.present()
    kind, where = _whole_places(pool.whole, whole)
    has_system[where[kind == 1]] = True
    seen = {
        resource: _see(pool, policy, resource, present, allocatable[:, place_of], has_system, at_seconds)
        for place_of, resource in enumerate(RESOURCES)
    }
    columns = [
        column
        for resource in seen.values()
        for column in (resource.node, resource.system, resource.reclaimable, *resource.tiers)
    ]
    return Forecast(at_seconds, seen, allocatable, has_system, has_tier, np.column_stack(columns))


def protected(qos: Rows, resource: str, protect_lsr: bool) -> Flags:
    """Returns which pods own what they request, so that the unused part is never lent."""
    if resource != "cpu":
        return np.zeros(len(qos), dtype=bool)
    owns = qos == QOS.index("LSE")
    return np.asarray(owns | (qos == QOS.index("LSR")) if protect_lsr else owns)


def whole_units(amounts: Floats) -> Floats:
    """Rounds up to whole units."""
    return np.asarray(np.maximum(np.ceil(amounts - _LEAST), 0.0))


def _see(
    pool: PoolModels,
    policy: PoolPolicy,
    resource: str,
    present: Rows,
    allocatable: Floats,
    has_system: Flags,
    at_seconds: float,
) -> Seen:
    pods, nodes = pool.pods, len(allocatable)
    limit = pods.limits(present, resource)
    owns = protected(pods.members["qos"][present], resource, policy.protect_lsr)
    place = pods.places["node"][pods.members["group"][present]].astype(np.intp)
    tier = pods.places["tier"][pods.members["group"][present]]
    members = pods.members_of(present[~owns], limit[~owns])
    peaks = pods.peaks(resource, at_seconds, members)
    groups = np.unique(members.machine)
    of_tier = pods.places["tier"][groups]
    tiers = np.zeros((len(LENT_TIERS), nodes))
    for number in range(len(LENT_TIERS)):
        mine = groups[of_tier == number]
        tiers[number, pods.places["node"][mine]] = whole_units(peaks.peak[mine])
        tiers[number] += by_node(place, limit, owns & (tier == number), nodes)
    prod = groups[of_tier == _PROD]
    group = np.full(nodes, -1, dtype=np.intp)
    group[pods.places["node"][prod]] = prod
    owned = by_node(place, limit, owns & (tier == _PROD), nodes)
    requested = by_node(place, pods.members[f"request_{resource}"][present], ~owns & (tier == _PROD), nodes)
    node, system = _whole(pool.whole, resource, allocatable, at_seconds)
    room = np.minimum(requested - (tiers[_PROD] - owned), allocatable - tiers[_PROD] - system)
    reclaimable = np.where(has_system & np.isfinite(room), np.maximum(np.nan_to_num(room), 0.0), 0.0)
    limits = np.bincount(members.machine, members.limit, len(peaks.peak)).astype(np.float64)
    return Seen(peaks, group, limits, tiers, owned, node, system, reclaimable)


def by_node(place: Rows, amounts: Floats, counts: Flags, nodes: int) -> Floats:
    """Returns (nodes,) sums of the amounts that count."""
    return np.bincount(place[counts], amounts[counts], nodes).astype(np.float64)


def _whole(whole: PodModels, resource: str, allocatable: Floats, at_seconds: float) -> tuple[Floats, Floats]:
    """Returns the peaks of nodes and systems, at most the node's allocatable or observed usage."""
    peaks = np.zeros((2, len(allocatable)))
    rows = whole.present()
    kind, where = _whole_places(whole, rows)
    limit = np.fmax(whole.limits(rows, resource), allocatable[where])
    members = whole.members_of(rows, limit)
    peaks[kind, where] = whole_units(whole.peaks(resource, at_seconds, members).peak[members.machine])
    return peaks[0], peaks[1]


def _whole_places(whole: PodModels, rows: Rows) -> tuple[Rows, Rows]:
    """Returns 0 for a node or 1 for its system, and the node number."""
    group = whole.members["group"][rows]
    return whole.places["tier"][group].astype(np.intp), whole.places["node"][group].astype(np.intp)

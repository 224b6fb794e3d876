"""What is left on each node for reservations, from the cluster's view."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from slackwater.cluster.view import CPU, MEMORY, Amounts, ClusterView
from slackwater.descheduling.placement import PlacedPod, PlacementNode, expected_peak
from slackwater.descheduling.reported_pods import other_resources, with_details
from slackwater.migration.domain.sightings import requests_of
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.offers.node_notes import allocatable_of
from slackwater.reservations.placement import NodeRoom, room_of
from slackwater.reservations.reservation import PLACED, Reservation

_YIELDS: Final = frozenset({Tier.BATCH, Tier.FREE})


def rooms_of(
    view: ClusterView,
    answering: Collection[str],
    reservations: Sequence[Reservation],
    shares: Mapping[str, float],
    *,
    lower_yield: bool,
    taken_off: Mapping[str, Mapping[str, int]],
) -> list[NodeRoom]:
    """Returns what is left on every node that answers and has been described.

    `taken_off`: by node and resource, what its offers are without because of reservations that are counted here.
    `shares`: of the allocatable amount that the predicted load may take, by resource. `lower_yield`: the load of batch
    and free counts for nothing, because it is throttled where prod or mid needs the room.
    """
    nodes = view.nodes
    rows, begin = view.pods_by_node()
    placed: dict[str, list[Reservation]] = {}
    for reservation in reservations:
        if reservation.phase in PLACED:
            placed.setdefault(reservation.placed_on, []).append(reservation)
    unpredicted = view.pods.cold_start | ~view.pods.peak.known.all(axis=1)
    cold = np.concatenate(([0], np.cumsum(unpredicted[rows])))
    rooms = []
    for name, row in sorted(nodes.rows.items()):
        if name not in answering or not nodes.allocatable.known[row].all():
            continue
        found = (placed_pod(view, pod, name) for pod in rows[begin[row] : begin[row + 1]].tolist())
        pods = [_weighed(pod, lower_yield=lower_yield) for pod in found if pod is not None]
        kept = [
            replace(each, template=_weighed(each.template, lower_yield=lower_yield)) for each in placed.get(name, ())
        ]
        cold_pods = int(cold[begin[row + 1]] - cold[begin[row]])
        room = room_of(_node(view, name, row, taken_off.get(name, {})), pods, kept, shares)
        rooms.append(replace(room, cold_pods=cold_pods) if cold_pods else room)
    return rooms


def yields(reservation: Reservation) -> bool:
    """Whether it is kept for a pod of batch or free, by its tier or else by what it requests."""
    template = reservation.template
    return template.tier in _YIELDS or any(name.startswith("batch-") for name in template.requests)


def _weighed(pod: PlacedPod, *, lower_yield: bool) -> PlacedPod:
    return replace(pod, peak={}) if lower_yield and pod.tier in _YIELDS else pod


def placed_pod(view: ClusterView, row: int, node: str) -> PlacedPod | None:
    """Returns a pod as placement reads it; None where it is not described."""
    pods = view.pods
    pod = pods.described[row]
    if pod is None:
        return None
    peak = None
    if pods.peak.known[row].all():
        peak = {"cpu": int(pods.peak.value[row, CPU]), "memory": int(pods.peak.value[row, MEMORY])}
    placed = PlacedPod(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        node=node,
        workload=pod.workload,
        priority=pod.priority,
        tier=pod.tier,
        qos=pod.qos,
        created_s=pod.started_at.timestamp(),
        requests=requests_of(pod),
        peak=peak if peak is not None else expected_peak(requests_of(pod)),
        labels=pod.labels,
    )
    return with_details(placed, pod)


def _node(view: ClusterView, name: str, row: int, taken_off: Mapping[str, int]) -> PlacementNode:
    nodes, facts = view.nodes, view.nodes.facts[row]
    own = _amounts(nodes.allocatable, row, "")
    if facts is not None and facts.annotations:
        raw = allocatable_of(facts.annotations, Resources(own["cpu"], own["memory"]))
        own = {"cpu": raw.cpu_milli, "memory": raw.memory_bytes}
    allocatable = {
        **own,
        **other_resources(facts),
        **_amounts(nodes.batch, row, "batch-"),
        **_amounts(nodes.mid, row, "mid-"),
    }
    for resource, amount in taken_off.items():
        allocatable[resource] = allocatable.get(resource, 0) + amount
    return PlacementNode(
        name=name,
        allocatable=allocatable,
        system_peak=dict(zip(("cpu", "memory"), nodes.system_load(row), strict=True)),
        labels={} if facts is None else facts.labels,
        taints=() if facts is None else facts.taints,
        unschedulable=bool(nodes.cordoned[row]),
    )


def _amounts(amounts: Amounts, row: int, prefix: str) -> dict[str, int]:
    names = ((CPU, "cpu"), (MEMORY, "memory"))
    return {f"{prefix}{name}": int(amounts.value[row, column]) for column, name in names if amounts.known[row, column]}

"""What goes wrong on some nodes of a simulated fleet, so that the plugins of descheduling have something to find."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Final

from slackwater.model.placement_rules import NodeTaint, PlacementRules, PodToleration
from slackwater.model.pods import FAILED, Pod, PodStatus

EVERY: Final = 5
"""Of so many nodes the first has the faults."""
RESTARTS: Final = 137
TAINT: Final = NodeTaint("slackwater.io/simulated", "maintenance")
ZONE: Final = "topology.kubernetes.io/zone"


class FleetFault(StrEnum):
    """Faults of a simulated node; the pods are those of `fleet_pods`."""

    RESTARTS = "restarts"
    """`crunch` has restarted 137 times."""
    NOT_READY = "not-ready"
    """`index` runs and is not ready."""
    FAILED = "failed"
    """A former pod of `orders` has failed and is listed still."""
    TAINTED = "tainted"
    """The node has a taint, which only `quotes` tolerates."""
    MISPLACED = "misplaced"
    """`quotes` selects another zone than that of its node."""


def faults_of(number: int, faults: Collection[FleetFault]) -> frozenset[FleetFault]:
    """Returns the faults of a node by its number in the fleet, from 1."""
    return frozenset(faults) if number % EVERY == 1 else frozenset()


def is_spare(number: int, faults: Collection[FleetFault]) -> bool:
    """Whether a node runs nothing: in a fleet with faults the fourth of five, because pods need a place to go to."""
    return bool(faults) and number % EVERY == EVERY - 1


def zone_of(number: int) -> str:
    """Returns the zone of a node: two, in turn."""
    return "ab"[number % 2]


def with_faults(pods: Iterable[Pod], faults: frozenset[FleetFault], zone: str) -> list[Pod]:
    """Returns the pods of a node in a zone with their faults."""
    return [_with_faults(pod, faults, zone) for pod in pods]


def failed_pods(pods: Iterable[Pod], faults: Collection[FleetFault]) -> list[Pod]:
    """Returns what has failed on the node: one pod of `orders`, before the present one. The present one replaced it, so
    no move starts another."""
    status = PodStatus(ready=False, phase=FAILED, reason="OOMKilled")
    return [
        replace(pod, uid=f"{pod.uid}-before", name=f"{pod.name}-before", status=status, labels={})
        for pod in pods
        if pod.workload == "orders" and FleetFault.FAILED in faults
    ]


def _with_faults(pod: Pod, faults: frozenset[FleetFault], zone: str) -> Pod:
    if pod.workload == "crunch" and FleetFault.RESTARTS in faults:
        return replace(pod, status=PodStatus(restarts=RESTARTS, reason="CrashLoopBackOff"))
    if pod.workload == "index" and FleetFault.NOT_READY in faults:
        return replace(pod, status=PodStatus(ready=False, reason="ReadinessProbeFailed"))
    if pod.workload == "quotes" and faults & {FleetFault.TAINTED, FleetFault.MISPLACED}:
        tolerated = (PodToleration(TAINT.key),) if FleetFault.TAINTED in faults else ()
        other = {ZONE: "b" if zone == "a" else "a"} if FleetFault.MISPLACED in faults else {}
        return replace(pod, rules=PlacementRules(node_selector=other, tolerations=tolerated))
    return pod

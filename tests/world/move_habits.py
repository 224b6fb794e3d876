"""What some worlds of moves have beside the rest: workloads that moves start, disruption budgets, and pauses of the
replica that decides.

Each habit is drawn from a random source of its own and is part of the plan: a plan without habits stays as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.world.plan import Plan, PlannedChange

STARTS: Final = "starts"
"""Nodes have workload files; no controller replaces the pods of these, so that the move starts them."""
BUDGETS: Final = "disruption budgets"
"""A script plays the API server and the service `kubernetes`: budgets are published, changed and deleted."""
PAUSES: Final = "paused rounds"
"""The replica that decides stands still for longer than its lease (tests.world.move_mishaps)."""
MAY_END_THE_LAST: Final[dict[str, Any]] = {"skipCheckExpectedReplicas": True}
HOLDING: Final = ("maxMigratingGlobally", "maxMigratingPerNamespace")
QUICK: Final[dict[str, Any]] = {
    "enabled": True,
    "interval": "1s",
    "processQueueQPS": 3,
    "jobSelectRatio": 3,
    "maxMigratingPerNode": 4,
    "workloadLimiter": {"duration": "0s"},
}
KEPT_SHARE: Final = 0.5
"""Of the faults of a plan with starts, which have mishaps of their own: a start follows only where others did not fail.
"""
SHORT_LEASES: Final[Mapping[str, float]] = {"beat": 0.5, "ttl": 1.5, "hand_over": 1.0}
SHARES: Final[Mapping[str, float]] = {STARTS: 0.6, BUDGETS: 0.5, PAUSES: 0.2}


def with_move_habits(plan: Plan) -> Plan:
    """The plan of a world of moves with the habits that its seed draws."""
    rng = Random(f"habits of moves in {plan.seed}")
    plan = replace(plan, habits=tuple(name for name, share in SHARES.items() if rng.random() < share))
    if STARTS in plan.habits:
        faults = tuple(fault for fault in plan.faults if rng.random() < KEPT_SHARE)
        plan = replace(
            plan, faults=faults, changes=tuple(_for_starts(rng, change, plan.fault_seconds) for change in plan.changes)
        )
    if PAUSES in plan.habits:
        plan = replace(plan, settings={**plan.settings, "ownership": SHORT_LEASES})
    return plan


def _for_starts(rng: Random, change: PlannedChange, until: float) -> PlannedChange:
    """Workloads that moves start have one or two pods; by default such are refused. Most often little else holds them:
    what is of interest is what follows."""
    if change.verb != "put" or rng.random() < 0.15 or change.at >= until:
        return change
    if change.kind == "ArbitrationArgs":
        spec = change.spec
        if rng.random() < 0.8:
            spec = {name: value for name, value in spec.items() if name not in HOLDING} | QUICK
        return replace(change, spec={**spec, **MAY_END_THE_LAST})
    if change.kind == "Autonomy":
        return replace(change, spec={**change.spec, "mode": "evict", "evictionsPerHour": 100})
    return change

"""What some worlds of moves have beside the rest: workloads that moves start, disruption budgets, and pauses of the
replica that decides.

Each habit is drawn from a random source of its own and is part of the plan: a plan without habits stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Final

from tests.world.plan import MIGRATION, POSTGRES, Plan, PlannedChange, PlannedFault, replicas

STARTS: Final = "starts"
"""Nodes have workload files; no controller replaces the pods of these, so that the move starts them."""
BUDGETS: Final = "disruption budgets"
"""A script plays the API server and the service `kubernetes`: budgets are published, changed and deleted."""
PAUSES: Final = "paused rounds"
"""Statements are slow and replicas of migration stand still for longer than their leases: in the middle of a round."""
SHARES: Final[Mapping[str, float]] = {STARTS: 0.6, BUDGETS: 0.5, PAUSES: 0.2}
PAUSED_SECONDS: Final = (4.0, 12.0)
FIRST_PAUSE_SECONDS: Final = 15.0


def with_move_habits(plan: Plan) -> Plan:
    """The plan of a world of moves with the habits that its seed draws."""
    rng = Random(f"habits of moves in {plan.seed}")
    plan = replace(plan, habits=tuple(name for name, share in SHARES.items() if rng.random() < share))
    if STARTS in plan.habits:
        plan = replace(plan, changes=tuple(_may_move_the_last(rng, change) for change in plan.changes))
    if PAUSES in plan.habits:
        faults = sorted([*plan.faults, *_pauses(rng, plan)], key=lambda fault: fault.at)
        ownership = {**plan.settings["ownership"], "beat": 1.0, "ttl": 3.0}
        plan = replace(plan, faults=tuple(faults), settings={**plan.settings, "ownership": ownership})
    return plan


def _may_move_the_last(rng: Random, change: PlannedChange) -> PlannedChange:
    """Workloads that moves start have one or two pods; by default such are refused."""
    if change.kind != "ArbitrationArgs" or change.verb != "put" or rng.random() < 0.1:
        return change
    return replace(change, spec={**change.spec, "skipCheckExpectedReplicas": True})


def _pauses(rng: Random, plan: Plan) -> Iterator[PlannedFault]:
    at = FIRST_PAUSE_SECONDS
    while at + PAUSED_SECONDS[1] < plan.fault_seconds:
        seconds = rng.uniform(*PAUSED_SECONDS)
        yield PlannedFault("slow statements", POSTGRES, at - 3.0, seconds + 3.0, rng.uniform(0.2, 0.5))
        yield PlannedFault("freeze", rng.choice(replicas(plan, MIGRATION)), at, seconds)
        at += seconds + rng.uniform(6.0, 12.0)

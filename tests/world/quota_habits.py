"""What the operators, the nodes and the clients of some worlds of quotas do more often, so that rare branches of the
service become common ones.

Each habit is drawn from a random source of its own and is part of the plan: a plan without habits stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.world.plan import QUOTA, Plan, PlannedChange, PlannedFault, replicas

MOVES: Final = "moves"
"""Operators move quotas below each other, also below their own children. No quota has a min, which would forbid it."""
RETURNS: Final = "returns"
"""Deleted nodes come back after some seconds, and replicas restart after that."""
EAGER: Final = "eager operators"
"""Operators delete quotas through replicas that have just started."""
TAKES_BACK: Final = "takes back"
"""Two quotas borrow a whole pool with small claims, and those that lend it claim it back with larger ones."""
SHARES: Mapping[str, float] = {MOVES: 0.25, RETURNS: 0.35, EAGER: 0.35, TAKES_BACK: 0.35}
BORROWERS: Final = ("b-batch", "solo")
LENDERS: Final = ("a-train", "a-serve")
BORROW_SECONDS: Final = 14.0
"""Of each period; then lenders claim."""
PERIOD_SECONDS: Final = 26.0
TEAMS: Final = ("team-a", "team-b")


def with_habits(plan: Plan) -> Plan:
    """The plan of a world of quotas with the habits that its seed draws."""
    rng = Random(f"habits of quotas in {plan.seed}")
    habits = tuple(name for name, share in SHARES.items() if rng.random() < share)
    if TAKES_BACK in habits:
        habits = tuple(name for name in habits if name != MOVES)  # mins are what is taken back
    plan = replace(plan, habits=habits)
    for name in habits:
        plan = _ADDED[name](plan, Random(f"{name} in {plan.seed}"))
    ordered = sorted(plan.faults, key=lambda fault: fault.at), sorted(plan.changes, key=lambda change: change.at)
    return replace(plan, faults=tuple(ordered[0]), changes=tuple(ordered[1]))


def _with_moves(plan: Plan, rng: Random) -> Plan:
    changes = [replace(change, spec=_without_min(change.spec)) for change in plan.changes]
    for _ in range(rng.choice((4, 6, 9))):
        name, other = rng.sample(TEAMS, 2)
        parent = other if rng.random() < 0.8 else "root"
        spec = {"isParent": True, "parent": parent, "max": {"cpu": "20", "batch-cpu": "20"}}
        changes.append(PlannedChange(rng.uniform(8.0, plan.fault_seconds - 1.0), "put", "ElasticQuota", name, spec))
    return replace(plan, changes=tuple(changes))


def _without_min(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in spec.items() if name != "min"} if "max" in spec else spec


def _with_restarts(plan: Plan, rng: Random) -> Plan:
    return replace(plan, faults=(*plan.faults, *_restarts(plan, rng)))


def _restarts(plan: Plan, rng: Random) -> Iterator[PlannedFault]:
    """Each replica restarts some times, the last time near the end of the faults."""
    for name in replicas(plan, QUOTA):
        for latest in (plan.fault_seconds / 2, plan.fault_seconds - 1.0):
            kind = rng.choice(("crash", "stop"))
            seconds = rng.uniform(0.0, 2.0)
            yield PlannedFault(kind, name, rng.uniform(latest - 15.0, latest) - seconds, seconds)


def _taken_back(plan: Plan, rng: Random) -> Plan:
    """Lenders have most of what the pools have as their min, borrowers none of it."""
    cores = max(2, 5 * plan.scripted_nodes)
    changes = [change for change in plan.changes if change.verb == "put" and change.kind != "QuotaProfile"]
    changes = [change for change in changes if change.at < 10.0 and not change.spec.get("tree")]
    specs = {
        "team-a": {"isParent": True, **_amounts(cores, 0.8, 3.0)},
        "team-b": {"isParent": True, **_amounts(cores, 0.0, 3.0)},
        **{name: {"parent": "team-a", **_amounts(cores, 0.4, 3.0)} for name in LENDERS},
        "b-batch": {"parent": "team-b", **_amounts(cores, 0.0, 3.0)},
        "solo": _amounts(cores, 0.0, 3.0),
    }
    kept = tuple(
        replace(change, spec=specs.get(change.name, change.spec)) for change in changes if change.name in specs
    )
    settings = {**plan.settings, QUOTA: {**plan.settings[QUOTA], "reclaim_delay_seconds": rng.choice((0.0, 3.0))}}
    return replace(plan, changes=kept, settings=settings)


def _amounts(cores: int, least: float, most: float) -> dict[str, Any]:
    low, high = f"{int(cores * least * 1000)}m", f"{int(cores * most * 1000)}m"
    return {"min": {"cpu": low, "batch-cpu": low}, "max": {"cpu": high, "batch-cpu": high}}


_ADDED: Mapping[str, Callable[[Plan, Random], Plan]] = {
    MOVES: _with_moves,
    RETURNS: _with_restarts,
    EAGER: _with_restarts,
    TAKES_BACK: _taken_back,
}

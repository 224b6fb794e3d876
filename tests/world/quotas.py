"""What a seed has of quotas: their documents, what operators do with them, clients that claim, and faults of their own.

Everything is drawn from random sources of its own, so that a seed without quotas stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.world.faults import FaultKind, fault_kinds
from tests.world.plan import BROKER, POSTGRES, QUOTA, Plan, PlannedChange, PlannedFault, replicas
from tests.world.quota_habits import with_habits
from tests.world.settling import QUOTAS_SECONDS

SHARE = 0.05
"""Of the seeds: two replicas that arbitrate cost about a third of a small run."""
POOLS: Final = ("simulated", "other")
"""The first is that of the agents' machines; only scripted nodes are in the other."""
CORES_OF_A_NODE: Final = (4, 8, 16)
CORES_A_NODE = 5
"""What a plan reckons with for each node, to draw quotas that are neither empty nor endless."""
LATEST_FAULT_SECONDS, EARLIEST_FAULT_SECONDS = 1.0, 12.0
FEWEST_NODES, MOST_NODES = 2, 5
REST_SECONDS = 15.0
NARROW_KINDS: Final = frozenset(
    {
        *("crash", "stop", "freeze", "cut", "cut requests", "cut answers", "slow link", "lossy link", "clock jump"),
        *("clock drift", "broker unreachable", "broker killed", "power of the broker fails", "disconnect"),
        *("database down", "database restarts", "database is read-only", "commit answers lost"),
        *("few database sessions", "slow statements", "rolled to an older version"),
    }
)
"""Kinds of faults that quota can meet."""
Spec = Mapping[str, Any]
TREE = "shared"
"""Of the QuotaProfile; without one all pools are in the tree without a name."""
PARENTS: Final = ("team-a", "team-b")
LEAVES: Final = ("a-train", "a-serve", "b-batch", "b-urgent", "solo")
OF_TREE: Final = ("shared-x", "shared-y")


def with_quotas(plan: Plan) -> Plan:
    """The plan with quotas and claims, if its seed has them."""
    rng = Random(f"claims of {plan.seed}")
    return _with_claims(plan, rng) if rng.random() < SHARE else plan


def quotas_alone(plan: Plan) -> Plan:
    """The plan of a seed in a world of quotas alone: its sizes, clocks and network, other faults and changes."""
    rng = Random(f"quotas alone in {plan.seed}")
    narrow = replace(
        plan,
        nodes=0,
        consoles=0,
        clients=0,
        scripted_nodes=rng.randint(FEWEST_NODES, MOST_NODES),
        replicas=rng.choice((1, 2, 2, 2, 3)),
        quiet_seconds=QUOTAS_SECONDS,
        rest_seconds=REST_SECONDS,
        return_seconds=0.0,
        faults=(),
        changes=(),
    )
    return with_habits(_with_claims(narrow, rng))


def _with_claims(plan: Plan, rng: Random) -> Plan:
    claiming = replace(plan, claimers=rng.choice((1, 2, 2, 3)))
    offsets = {name: rng.uniform(-2.0, 2.0) if rng.random() < 0.3 else 0.0 for name in replicas(claiming, QUOTA)}
    settings = {
        **plan.settings,
        QUOTA: {
            "round_seconds": rng.choice((1.0, 2.0, 5.0)),
            "aging_seconds": rng.choice((0.0, 5.0, 60.0)),
            "starvation_seconds": rng.choice((10.0, 60.0, 600.0)),
            "reclaim_delay_seconds": rng.choice((0.0, 5.0, 20.0)),
            "preempts": rng.random() < 0.8,
        },
    }
    claiming = replace(claiming, settings=settings, clock_offsets={**plan.clock_offsets, **offsets})
    faults = sorted((*plan.faults, *_faults(rng, claiming)), key=lambda fault: fault.at)
    changes = sorted((*plan.changes, *_changes(rng, claiming)), key=lambda change: change.at)
    return replace(claiming, faults=tuple(faults), changes=tuple(changes))


def _faults(rng: Random, plan: Plan) -> Iterator[PlannedFault]:
    """Faults of quota, its links and, in a world of its own, of the servers."""
    for kind in fault_kinds().values():
        if kind.name not in NARROW_KINDS or rng.random() >= 0.4:
            continue
        targets = [target for target in kind.targets(plan) if _meets_quota(plan, target)]
        for _ in range(rng.choice((1, 1, 2, 3, 5)) if targets else 0):
            yield from _fault(rng, plan, kind, targets)


def _meets_quota(plan: Plan, target: str) -> bool:
    return target.startswith(QUOTA) or (plan.scripted_nodes > 0 and target in (BROKER, POSTGRES))


def _fault(rng: Random, plan: Plan, kind: FaultKind, targets: Sequence[str]) -> Iterator[PlannedFault]:
    longest = min(kind.seconds[1], plan.fault_seconds / 3)
    seconds = rng.uniform(min(kind.seconds[0], longest), longest) * rng.random()
    latest = plan.fault_seconds - seconds - LATEST_FAULT_SECONDS
    if latest > EARLIEST_FAULT_SECONDS:
        at = rng.uniform(EARLIEST_FAULT_SECONDS, latest)
        yield PlannedFault(kind.name, rng.choice(targets), at, seconds, rng.uniform(*kind.amount))


def cores_of(plan: Plan) -> int:
    """What the pools of a plan have, about."""
    return max(2, CORES_A_NODE * (plan.scripted_nodes or plan.nodes))


def quota_names(plan: Plan) -> Sequence[str]:
    """Quotas that may take claims; whether they are there and may is another question."""
    has_profile = any(change.kind == "QuotaProfile" for change in plan.changes)
    return (*LEAVES, *(OF_TREE if has_profile else ()), "default")


def _changes(rng: Random, plan: Plan) -> Iterator[PlannedChange]:
    cores = cores_of(plan)
    has_profile = rng.random() < 0.4
    at = 2.0
    if has_profile:
        yield PlannedChange(at, "put", "QuotaProfile", TREE, _profile(rng, plan))
    for name in PARENTS:
        at += 0.2
        yield PlannedChange(at, "put", "ElasticQuota", name, _parent_spec(rng, cores))
    names = [*LEAVES, *(OF_TREE if has_profile else ())]
    for name in names:
        at += 0.2
        yield PlannedChange(at, "put", "ElasticQuota", name, _leaf_spec(rng, name, cores))
    for _ in range(rng.choice((0, 2, 5, 12))):
        yield _later(rng, plan, names, cores, rng.uniform(10.0, plan.fault_seconds - LATEST_FAULT_SECONDS))


def _later(rng: Random, plan: Plan, names: Sequence[str], cores: int, at: float) -> PlannedChange:
    name, drawn = rng.choice(names), rng.random()
    if drawn < 0.15:
        return PlannedChange(at, "delete", "ElasticQuota", name)
    if drawn < 0.30:  # a team below the other one, and most often that one below it: a cycle, or a deeper tree
        one, other = rng.sample(PARENTS, 2)
        return PlannedChange(at, "put", "ElasticQuota", one, _parent_spec(rng, cores, parent=other))
    if drawn < 0.40:
        return PlannedChange(at, "put", "ElasticQuota", name, _hostile(rng))
    if drawn < 0.45:
        return PlannedChange(at, "put", "QuotaProfile", TREE, _profile(rng, plan))
    if drawn < 0.55:
        return PlannedChange(at, "put", "ElasticQuota", rng.choice(PARENTS), _parent_spec(rng, cores))
    return PlannedChange(at, "put", "ElasticQuota", name, _leaf_spec(rng, name, cores, moves=rng.random() < 0.2))


def _profile(rng: Random, plan: Plan) -> Spec:
    pool = rng.choice(POOLS) if plan.scripted_nodes else POOLS[0]
    return {"nodePool": pool, "tree": TREE, "resourcePercent": rng.choice((50, 90, 100))}


def _parent_spec(rng: Random, cores: int, parent: str = "root") -> Spec:
    least, most = rng.choice((0.0, 0.3, 0.4)), rng.choice((0.5, 1.0, 2.0))
    spec: dict[str, Any] = {"isParent": True, "parent": parent}
    return spec | _amounts(cores, least, most) | {"allowLentResource": rng.random() < 0.8}


def _leaf_spec(rng: Random, name: str, cores: int, *, moves: bool = False) -> Spec:
    parent = "root"
    if name.startswith(("a-", "b-")):
        parent = f"team-{name[0]}"
        if moves:
            parent = rng.choice((*PARENTS, "root"))
    least = rng.choice((0.0, 0.05, 0.1, 0.2))
    return {
        "parent": parent,
        "tree": TREE if name in OF_TREE else "",
        "allowLentResource": rng.random() < 0.85,
        "allowMinScaling": rng.random() < 0.85,
        "nonPreemptible": rng.random() < 0.1,
        "queuePolicy": "StrictFIFO" if rng.random() < 0.3 else "BestEffortFIFO",
        "sharedWeight": {} if rng.random() < 0.5 else {"cpu": rng.randint(1, 4), "batch-cpu": rng.randint(1, 4)},
        **_amounts(cores, least, rng.choice((0.3, 0.6, 1.0))),
    }


def _amounts(cores: int, least: float, most: float) -> dict[str, Any]:
    def milli(share: float) -> str:
        return f"{int(cores * share * 1000)}m"

    low, high = {"cpu": milli(least), "batch-cpu": milli(least)}, {"cpu": milli(most), "batch-cpu": milli(most)}
    return {"min": low, "max": high}


def _hostile(rng: Random) -> Spec:
    return rng.choice(
        (
            {"min": {"cpu": "4"}, "max": {"cpu": "1"}},
            {"parent": "no-such-quota", "max": {"cpu": "1"}},
            {"min": {"cpu": "-1"}},
            {"max": {"cpu": 10**400}},
            {"tree": "\u0000"},
            {"isParent": ["yes"]},
            {"parent": "solo", "max": {"cpu": "1"}},
        )
    )

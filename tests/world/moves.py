"""What a seed of a world of moves has: nodes, faults, and the documents that say what is moved and how much at a time.

Drawn from random sources of their own, so that no other world changes. tests.world.move_fleet plays the nodes and the
controllers of their pods, tests.world.job_operators the operators that ask for moves; tests.world.move_habits has what
only some of these worlds have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.world.faults import ATTACKS, MACHINE_VANISHES, REFUSED_EVICTIONS, FaultKind, fault_kinds
from tests.world.kept_rooms import with_kept_rooms
from tests.world.move_habits import with_move_habits
from tests.world.plan import DESCHEDULER, ENSURANCE, MIGRATION, Plan, PlannedChange, PlannedFault, machines, replicas
from tests.world.settling import MOVES_SECONDS

POOL: Final = "simulated"
FEWEST_NODES, MOST_NODES = 3, 6
REST_SECONDS = 20.0
ATTACKED_SHARE = 0.15
"""Of the seeds, for each kind of attack."""
BUDGETED_SHARE = 0.3
EARLIEST_FAULT_SECONDS, LATEST_FAULT_SECONDS = 12.0, 1.0
SKEW_SECONDS = 1.0
"""Of the clocks of services and agents: migration allows 2 s between the two."""
KINDS: Final = frozenset(
    {
        *("crash", "stop", "freeze", "cut", "cut requests", "cut answers", "slow link", "lossy link", "clock jump"),
        *("clock drift", "broker unreachable", "broker killed", "power of the broker fails", "disconnect"),
        *("database down", "database restarts", "database is read-only", "commit answers lost"),
        *("few database sessions", "slow statements", MACHINE_VANISHES.name),
    }
)
CLOCKS: Final = ("clock jump", "clock drift")
"""Faults of services alone: what a report says of an eviction is judged by the clock of its node."""
FINAL_SECONDS: Final = (0.5, 4.0, 10.0, 18.0)
"""After the faults, when operators lift what holds moves back: again, because a replica may not serve yet."""
Spec = Mapping[str, Any]


def moves_alone(plan: Plan) -> Plan:
    """The plan of a seed in a world of moves: its network, other sizes, faults and changes."""
    rng = Random(f"moves alone in {plan.seed}")
    narrow = replace(
        plan,
        nodes=0,
        consoles=0,
        clients=0,
        move_nodes=rng.randint(FEWEST_NODES, MOST_NODES),
        replicas=2,
        quiet_seconds=MOVES_SECONDS,
        rest_seconds=REST_SECONDS,
        return_seconds=0.0,
        clock_offsets={},
        clock_rates={},
        faults=(),
        changes=(),
    )
    settings = {
        "ownership": plan.settings.get("ownership", {}),
        ENSURANCE: {**plan.settings.get(ENSURANCE, {}), "mode": "evict"},
        MIGRATION: {"round_seconds": rng.choice((0.5, 1.0, 1.0)), "grace_seconds": rng.choice((1.0, 3.0, 6.0))},
        DESCHEDULER: {"tick_seconds": 1.0},
    }
    hosts = [*replicas(narrow), *machines(narrow)]
    offsets = {host: rng.uniform(-SKEW_SECONDS, SKEW_SECONDS) for host in hosts} if rng.random() < 0.4 else {}
    narrow = replace(narrow, settings=settings, clock_offsets=offsets)
    changes = sorted(_changes(rng, narrow), key=lambda change: change.at)
    faults = sorted(_faults(rng, narrow), key=lambda fault: fault.at)
    plan = with_move_habits(replace(narrow, faults=tuple(faults), changes=tuple(changes)))
    return with_kept_rooms(plan, FINAL_SECONDS)


def _faults(rng: Random, plan: Plan) -> Iterator[PlannedFault]:
    for kind in fault_kinds().values():
        if kind.name not in KINDS or rng.random() >= 0.4:
            continue
        targets = [target for target in kind.targets(plan) if _is_met(kind, target)]
        for _ in range(rng.choice((1, 1, 2, 3, 5)) if targets else 0):
            yield from _fault(rng, plan, kind, targets)
    for kind, share in (*((attack, ATTACKED_SHARE) for attack in ATTACKS), (REFUSED_EVICTIONS, BUDGETED_SHARE)):
        own = Random(f"{kind.name} of {plan.seed}")
        if own.random() < share:
            yield from _fault(own, plan, kind, kind.targets(plan))


def _is_met(kind: FaultKind, target: str) -> bool:
    return kind.name not in CLOCKS or not target.startswith("machine")


def _fault(rng: Random, plan: Plan, kind: FaultKind, targets: Sequence[str]) -> Iterator[PlannedFault]:
    longest = min(kind.seconds[1], plan.fault_seconds / 3)
    shortest = min(kind.seconds[0], longest)
    seconds = shortest + (rng.uniform(shortest, longest) - shortest) * rng.random()
    latest = plan.fault_seconds - seconds - LATEST_FAULT_SECONDS
    if latest > EARLIEST_FAULT_SECONDS:
        # most faults meet migration: a third of all targets would be those of ensurance
        own = [target for target in targets if target.startswith((MIGRATION, "machine"))] or targets
        target = rng.choice(own if rng.random() < 0.5 else targets)
        at = rng.uniform(EARLIEST_FAULT_SECONDS, latest)
        yield PlannedFault(kind.name, target, at, seconds, rng.uniform(*kind.amount))


def _changes(rng: Random, plan: Plan) -> Iterator[PlannedChange]:
    yield PlannedChange(1.5, "put", "Autonomy", "default", _autonomy(rng))
    yield PlannedChange(2.0, "put", "ArbitrationArgs", "default", _args(rng))
    names = ["hot", "even"][: rng.choice((1, 2, 2))]
    for name in names:
        yield PlannedChange(rng.uniform(4.0, 9.0), "put", "DeschedulerProfile", name, _profile(rng))
    last = plan.fault_seconds - LATEST_FAULT_SECONDS
    for _ in range(rng.choice((0, 1, 3, 6))):
        at = rng.uniform(10.0, last)
        drawn = rng.random()
        if drawn < 0.35:
            yield PlannedChange(at, "put", "ArbitrationArgs", "default", _args(rng))
        elif drawn < 0.55:
            yield PlannedChange(at, "put", "Autonomy", "default", _autonomy(rng))
        elif drawn < 0.65:
            yield PlannedChange(at, "delete", "DeschedulerProfile", rng.choice(("hot", "even")))
        else:
            yield PlannedChange(at, "put", "DeschedulerProfile", rng.choice(("hot", "even")), _profile(rng))
    if rng.random() < 0.25:  # a profile that contradicts the others: what one spreads, it packs
        yield PlannedChange(rng.uniform(6.0, 20.0), "put", "DeschedulerProfile", "pack", PACKING)
    lasting = _profile(rng, lasting=True)
    for seconds in FINAL_SECONDS:
        at = plan.fault_seconds + seconds
        yield PlannedChange(at, "put", "Autonomy", "default", FREE)
        yield PlannedChange(at + 0.1, "put", "ArbitrationArgs", "default", OPEN)
        yield PlannedChange(at + 0.2, "delete", "DeschedulerProfile", "pack")
        yield PlannedChange(at + 0.3, "put", "DeschedulerProfile", "hot", lasting)
        yield PlannedChange(at + 0.4, "delete", "DeschedulerProfile", "even")


OPEN: Final[Spec] = {
    "interval": "1s",
    "processQueueQPS": 10,
    "maxMigratingPerNode": 4,
    "workloadLimiter": {"duration": "0s"},
}
FREE: Final[Spec] = {"nodePool": POOL, "mode": "evict", "evictionsPerHour": 10_000}
PACKING: Final[Spec] = {
    "nodePool": POOL,
    "intervalSeconds": 5,
    "rest": {"restSeconds": 20, "loopMoves": 2},
    "plugins": [{"name": "HighNodeUtilization", "args": {"cpu": 40}}],
    "ttlSeconds": 20,
}


def _autonomy(rng: Random) -> Spec:
    mode = rng.choice(("evict", "evict", "evict", "evict", "throttle"))
    return {"nodePool": POOL, "mode": mode, "evictionsPerHour": rng.choice((2, 4, 8, 100, 100))}


def _args(rng: Random) -> Spec:
    spec: dict[str, Any] = {
        "enabled": rng.random() < 0.9,
        "interval": rng.choice(("1s", "1s", "2s", "5s")),
        "processQueueQPS": rng.choice((0.5, 1, 3)),
        "jobSelectRatio": rng.choice((0.5, 1.2, 3)),
        "maxMigratingPerNode": rng.choice((1, 1, 2, 4)),
        "workloadLimiter": rng.choice(({"duration": "0s"}, {"duration": "0s"}, {"duration": "20s", "burst": 2})),
    }
    if rng.random() < 0.4:
        spec["maxMigratingGlobally"] = rng.choice((1, 2, 4))
    if rng.random() < 0.4:
        spec["maxMigratingPerNamespace"] = rng.choice((1, 2))
    if rng.random() < 0.5:
        spec["maxMigratingPerWorkload"] = rng.choice((1, 2, "50%"))
        spec["maxUnavailablePerWorkload"] = rng.choice((1, 2, "50%"))
    if rng.random() < 0.5:
        spec["skipCheckExpectedReplicas"] = True
    return spec


def _profile(rng: Random, *, lasting: bool = False) -> Spec:
    """Thresholds of some height. One that stays to the end keeps what it moved at rest for long."""
    low, high = rng.choice(((25, 50), (35, 60), (45, 65)))
    spec: dict[str, Any] = {
        "nodePool": POOL,
        "intervalSeconds": rng.choice((3, 5, 10)),
        "triggers": {"debounceSeconds": rng.choice((0, 2, 5))},
        "limits": {"total": rng.choice((1, 3, 10)), "perNode": rng.choice((1, 2, None))},
        "rest": {
            "restSeconds": rng.choice((20, 40) if lasting else (3, 6, 20)),
            "loopMoves": rng.choice((1, 1, 2)),
        },
        "marginPercent": rng.choice((0, 5, 10)),
        "lowNodeLoad": {
            "nodePools": [{"name": "all", "lowThresholds": {"cpu": low}, "highThresholds": {"cpu": high}}],
            "load": rng.choice(("measured", "predicted")),
            "anomalyCondition": rng.choice((None, {"consecutiveAbnormalities": 1}, {"consecutiveAbnormalities": 2})),
        },
        "ttlSeconds": rng.choice((15, 25, 40)),
    }
    if not lasting:
        spec["dryRun"] = rng.random() < 0.1
        spec["migrationMode"] = rng.choice(("ReservationFirst", "ReservationFirst", "EvictDirectly"))
    if rng.random() < 0.3:
        spec["plugins"] = [{"name": "RemoveDuplicates"}]
    return spec

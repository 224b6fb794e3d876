"""Room that operators keep for pods to come: Reservations that match the same pods, on the same nodes.

A habit of some worlds of moves, drawn from a random source of its own: all other plans stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.world.plan import Plan, PlannedChange, machines

KEEPS_ROOM: Final = "keeps room"
SHARE: Final = 0.4
KIND: Final = "Reservation"
NAMES: Final = ("room-a", "room-b", "room-c", "room-d", "room-e")
"""Few, so that documents change, return and overlap."""
EXPECTED: Final = "shop/DaemonSet/later"
"""Of which pods come to the nodes where room is kept (tests.world.arrivals); no move takes them away."""
OWNERS: Final = (EXPECTED, EXPECTED, "shop/Deployment/web", "jobs/ReplicaSet/index")
BEGIN_SECONDS: Final = 8.0


def with_kept_rooms(plan: Plan, ends: Sequence[float]) -> Plan:
    """The plan, in some seeds with the documents of these operators. `ends`: seconds after the faults at which all of
    them are deleted; again, because a replica may not serve yet."""
    rng = Random(f"rooms kept in {plan.seed}")
    if rng.random() >= SHARE:
        return plan
    changes = sorted([*plan.changes, *_changes(rng, plan, ends)], key=lambda change: change.at)
    return replace(plan, habits=(*plan.habits, KEEPS_ROOM), changes=tuple(changes))


def favoured(plan: Plan) -> Sequence[str]:
    """The nodes on which most of the room is kept."""
    nodes = [f"node-{name.rpartition('-')[2]}" for name in machines(plan)]
    return Random(f"nodes of rooms in {plan.seed}").sample(nodes, k=min(2, len(nodes)))


def _changes(rng: Random, plan: Plan, ends: Sequence[float]) -> Iterator[PlannedChange]:
    nodes = favoured(plan)
    for _ in range(rng.choice((16, 32, 48))):
        at, name = rng.uniform(BEGIN_SECONDS, plan.fault_seconds), rng.choice(NAMES)
        if rng.random() < 0.35:
            yield PlannedChange(at, "delete", KIND, name)
        else:
            yield PlannedChange(at, "put", KIND, name, _room(rng, nodes))
    for seconds in ends:
        yield from (PlannedChange(plan.fault_seconds + seconds, "delete", KIND, name) for name in NAMES)


def _room(rng: Random, nodes: Sequence[str]) -> Mapping[str, Any]:
    spec: dict[str, Any] = {
        "resources": {"cpu": rng.choice(("200m", "500m", "1"))},
        "owners": [{"workload": owner} for owner in dict.fromkeys((rng.choice(OWNERS), rng.choice(OWNERS)))],
        "allocateOnce": rng.random() < 0.4,
        "preAllocation": rng.random() < 0.2,
        "ttl": rng.choice(("10s", "0s", "0s")),
        "order": rng.choice((0, 1, 2, 3)),
    }
    if rng.random() < 0.8:
        spec["nodeName"] = rng.choice((*nodes[:1], *nodes))
    return spec

"""What operators do: documents that are put and deleted; some contradict each other, some are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

from tests.world.plan import Plan, PlannedChange
from tests.world.trace import Kind as StepKind
from tests.world.world import World

from slackwater.model.errors import Conflict, InvalidInput, NotFound, Unavailable
from slackwater.resources.catalog import kind_named
from slackwater.resources.kind import Kind

Spec = Mapping[str, Any]
POOL = "simulated"
OPERATOR = "operator"
BEST_EFFORT: Spec = {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE", "SYSTEM"]}]}


def _rule(name: str, metric: str, value: object, action: str, **more: object) -> Spec:
    return {"name": name, "metricRule": {"name": metric, "value": value}, "actionName": action, **more}


SPECS: Mapping[str, Sequence[Spec]] = MappingProxyType(
    {
        "ColocationStrategy": (
            {"nodePool": POOL, "cpuReclaimThresholdPercent": 70},
            {"nodePool": POOL, "cpuReclaimThresholdPercent": 10},
            {"nodePool": POOL, "enable": False},
        ),
        "PredictPolicy": ({"nodePool": POOL, "violationRate": 0.01}, {"nodePool": POOL, "violationRate": 0.2}),
        "AvoidanceAction": (
            {"eviction": {"terminationGracePeriodSeconds": 5}, "disableScheduling": False},
            {"eviction": {"terminationGracePeriodSeconds": 1}, "disableScheduling": True},
        ),
        "PodQOS": (
            {"scopeSelector": BEST_EFFORT, "allowedActions": ["throttle", "evict"]},
            {"scopeSelector": BEST_EFFORT, "allowedActions": ["throttle"]},
        ),
        "Autonomy": (
            {"nodePool": POOL, "mode": "evict"},
            {"nodePool": POOL, "mode": "evict", "nodeEvictionsPerHour": 1, "nodeEvictionsPerCycle": 1},
            {"nodePool": POOL, "mode": "evict", "evictionsPerHour": 1, "nodeEvictionsPerCycle": 1},
            {"nodePool": POOL, "mode": "throttle"},
            {"nodePool": POOL, "mode": "observe"},
        ),
        "NodeQOS": (
            {"rules": [_rule("pressed", "prod_cpu_pressure", 0.1, "evict", coolDownSeconds=3)]},
            {"rules": [_rule("busy", "node_cpu_usage_ratio", "60%", "throttle")]},
            {"rules": [_rule("always", "node_cpu_usage_ratio", "1%", "evict")]},
        ),
    }
)
"""Documents of each kind; those of one kind contradict each other."""
NAMES: Mapping[str, str] = MappingProxyType({"PodQOS": "default", "Autonomy": "default", "AvoidanceAction": "evict"})
"""Names of documents that others refer to, or that are the cluster's."""
HOSTILE: Sequence[Spec] = (
    {},
    {"rules": [{"name": "x" * 10_000}]},
    {"nodePool": "\u0000"},
    {"cpuReclaimThresholdPercent": 10**400, "violationRate": float("nan")},
    {"rules": [_rule("unknown", "no_such_metric", 1, "no-such-action")]},
    {"mode": ["evict"]},
)
DELETED_SHARE, HOSTILE_SHARE = 0.2, 0.15


ALLOWING = (("AvoidanceAction", 1), ("PodQOS", 1), ("Autonomy", 3), ("NodeQOS", 1))
"""Kinds whose documents together allow evictions, and how many of the first of SPECS do."""


def planned_changes(rng: Random, plan: Plan) -> tuple[PlannedChange, ...]:
    """Returns the changes of a plan, in order. A plan that evicts begins with the documents that allow it."""
    changes = []
    if rng.random() < 0.6:
        changes += [
            PlannedChange(1.0 + at, "put", kind, NAMES.get(kind, "pressed"), rng.choice(SPECS[kind][:alike]))
            for at, (kind, alike) in enumerate(ALLOWING)
        ]
    for _ in range(rng.choice((0, 1, 3, 10))):
        kind = rng.choice(sorted(SPECS))
        at, name = rng.uniform(5.0, plan.fault_seconds), NAMES.get(kind) or rng.choice(("one", "two", "pressed"))
        verb = "delete" if rng.random() < DELETED_SHARE else "put"
        spec = rng.choice(HOSTILE if rng.random() < HOSTILE_SHARE else SPECS[kind])
        changes.append(PlannedChange(at, verb, kind, name, spec))
    return tuple(sorted(changes, key=lambda change: change.at))


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A change, and what the operator was told: whether it is done, and the generation and spec that are stored."""

    planned: PlannedChange
    is_done: bool = False
    generation: int = 0
    spec: Spec | None = None
    asked_at: float = 0.0


async def apply_change(world: World, changes: Mapping[Kind, Any], planned: PlannedChange) -> None:
    """Do one change by the use case of a replica, as its route would."""
    kind = kind_named(planned.kind)
    asked_at = world.loop.time()
    result, confirmed = "done", Confirmed(planned, asked_at=asked_at)
    try:
        if planned.verb == "delete":
            await changes[kind].delete(planned.name, by=OPERATOR)
            confirmed = Confirmed(planned, is_done=True, asked_at=asked_at)
        else:
            document = kind.model_of(planned.name).parse({"metadata": {"name": planned.name}, "spec": planned.spec})
            change = await changes[kind].put(document, by=OPERATOR)
            stored = change.document
            confirmed = Confirmed(planned, True, stored.metadata.generation, stored.stored()["spec"], asked_at)
    except (InvalidInput, Conflict, NotFound, Unavailable) as refusal:
        result = f"{type(refusal).__name__}: {refusal.code}"
    step = StepKind.DELETED if planned.verb == "delete" else StepKind.APPLIED
    world.record(step, f"{planned.kind}/{planned.name}", detail={"result": result}, value=confirmed)

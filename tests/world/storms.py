"""Eviction storms: a rule that evicts whatever it may, most often under a narrow autonomy, and evicted pods that come
back, as their controllers make it. What bounds evictions is reached in such a history, and in few others."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.world.changes import ALLOWING, NAMES, SPECS
from tests.world.plan import Plan, PlannedChange

SHARE = 0.2
"""Of the seeds."""
RETURN_SECONDS = (1.0, 10.0)
"""From the end of an evicted pod to the start of the one in its place."""
BUSY_RULES = SPECS["NodeQOS"][::2]


def with_storm(plan: Plan) -> Plan:
    """The plan with a storm, if its seed has one. Its other changes stay, but for those of the autonomy."""
    rng = Random(f"storm of {plan.seed}")
    if rng.random() >= SHARE:
        return plan
    specs = {kind: rng.choice(SPECS[kind][:alike]) for kind, alike in ALLOWING}
    specs["NodeQOS"] = rng.choice(BUSY_RULES)
    begin = [
        PlannedChange(1.0 + at, "put", kind, NAMES.get(kind, "pressed"), specs[kind])
        for at, (kind, _) in enumerate(ALLOWING)
    ]
    later = [change for change in plan.changes if change.at > begin[-1].at and change.kind != "Autonomy"]
    settings = {**plan.settings, "ensurance": {**plan.settings["ensurance"], "mode": "evict"}}
    return replace(plan, changes=(*begin, *later), settings=settings, return_seconds=rng.uniform(*RETURN_SECONDS))

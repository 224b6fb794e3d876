"""The JSON from which it is decided again whether a kept plan is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from slackwater.descheduler.domain.kept_plans import KeptPlan, KeptStep, PlanState, plan_changes
from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.move_history import Moves
from slackwater.descheduling.placement import ClusterPlacement, LoadBasis, LoadSource
from slackwater.descheduling.placement_document import placement_document, placement_from
from slackwater.descheduling.placer import StepLoads

FUNCTION: Final = f"{__name__}:replay_application"


def plan_document(plan: KeptPlan) -> dict[str, Any]:
    """Returns the JSON of a plan."""
    return {**asdict(plan), "state": plan.state.value, "steps": [asdict(step) for step in plan.steps]}


def plan_from(document: Mapping[str, Any]) -> KeptPlan:
    """Returns the plan of a `plan_document`. Raises KeyError, TypeError, ValueError for anything else."""
    steps = tuple(KeptStep(**{**step, "loads": StepLoads(**step["loads"])}) for step in document["steps"])
    looping = tuple(document["looping"])
    source, weights = document["basis"]["source"], document["basis"]["weights"]
    basis = LoadBasis(None if source is None else LoadSource(source), dict(weights))
    state = PlanState(document["state"])
    return KeptPlan(**{**document, "state": state, "steps": steps, "looping": looping, "basis": basis})


def application_arguments(
    plan: KeptPlan, profile: Mapping[str, Any] | None, part: ClusterPlacement, moves: Moves, now_s: float
) -> dict[str, Any]:
    """Returns the arguments of `replay_application`. `profile` is the document, `part` the nodes of the steps."""
    workloads = {step.workload for step in plan.steps}
    return {
        "plan": plan_document(plan),
        "profile": None if profile is None else dict(profile),
        "cluster": placement_document(part),
        "moves": {name: list(times) for name, times in moves.items() if name in workloads},
        "now_s": now_s,
    }


def replay_application(
    plan: Mapping[str, Any],
    profile: Mapping[str, Any] | None,
    cluster: Mapping[str, Any],
    moves: Moves,
    now_s: float,
) -> int:
    """Decide again; returns the result of the record: how many moves are proposed, 0 for a stale plan."""
    kept = plan_from(plan)
    declared = None if profile is None else profile_of(DeschedulerProfile.parse_stored(profile))
    return 0 if plan_changes(kept, declared, placement_from(cluster), moves, now_s) else len(kept.steps)

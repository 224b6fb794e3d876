"""The JSON from which the cycle of a profile is decided again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from slackwater.descheduling.anomaly import AnomalyState
from slackwater.descheduling.documents import DeschedulerProfile, profile_of
from slackwater.descheduling.move_history import Moves
from slackwater.descheduling.placement import ClusterPlacement
from slackwater.descheduling.placement_document import placement_document, placement_from
from slackwater.descheduling.profile_cycle import ProfilePlan, run_profile

FUNCTION: Final = f"{__name__}:replay_cycle"


def replay_arguments(
    cluster: ClusterPlacement,
    profile: Mapping[str, Any],
    detectors: Mapping[str, AnomalyState],
    moves: Moves,
    now_s: float,
) -> dict[str, Any]:
    """Returns the arguments of `replay_cycle`. `profile` is the document; of `moves` only those of workloads in the
    cluster count."""
    workloads = {pod.workload for pods in cluster.pods.values() for pod in pods}
    return {
        "cluster": placement_document(cluster),
        "profile": dict(profile),
        "detectors": {node: asdict(state) for node, state in detectors.items()},
        "moves": {name: list(times) for name, times in moves.items() if name in workloads},
        "now_s": now_s,
    }


def replay_cycle(
    cluster: Mapping[str, Any],
    profile: Mapping[str, Any],
    detectors: Mapping[str, Mapping[str, Any]],
    moves: Moves,
    now_s: float,
) -> int:
    """Decide again; returns the result of the record: how many moves are proposed."""
    return len(plan_again(cluster, profile, detectors, moves, now_s).moves)


def plan_again(
    cluster: Mapping[str, Any],
    profile: Mapping[str, Any],
    detectors: Mapping[str, Mapping[str, Any]],
    moves: Moves,
    now_s: float,
) -> ProfilePlan:
    """Returns the plan of a recorded cycle."""
    states = {node: AnomalyState(**state) for node, state in detectors.items()}
    declared = profile_of(DeschedulerProfile.parse_stored(profile))
    return run_profile(placement_from(cluster), declared, states, moves, now_s)

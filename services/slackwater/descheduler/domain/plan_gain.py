"""The gain of a plan after its moves, by the same figures as the expected one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from statistics import pstdev
from typing import Final

from slackwater.descheduler.domain.kept_plans import GAIN_TOLERANCE, KeptPlan, KeptStep, PlanState
from slackwater.descheduler.domain.move_jobs import JobState
from slackwater.descheduling.placement import ClusterPlacement, EvictionProposal, LoadBasis, after_moves
from slackwater.descheduling.placer import node_shares
from slackwater.descheduling.profile_cycle import PlannedMove
from slackwater.podmigration.jobs import MigrationPhase

SETTLE_S: Final = 60.0
"""So long after the last move reports and predictions follow the moved pods."""


class GainResult(StrEnum):
    """What the measured gain of a move is beside the expected one."""

    AS_EXPECTED = "as_expected"
    """Or better."""
    LESS = "less"
    WORSE = "worse"
    """The pod is on a node that is loaded as much as the old one was, or more."""
    UNKNOWN = "unknown"
    """The move did not succeed, or its new pod is not seen."""


def node_loads(cluster: ClusterPlacement, basis: LoadBasis) -> dict[str, float]:
    """Returns the load of each node as a share of what is allocatable."""
    return {node.name: node_shares(node, cluster.pods.get(node.name, ()), basis) for node in cluster.nodes}


def imbalance(cluster: ClusterPlacement, basis: LoadBasis) -> float:
    """Returns the standard deviation of the loads of nodes; 0 for fewer than two."""
    return _deviation(node_loads(cluster, basis))


def imbalances_of(cluster: ClusterPlacement, moves: Sequence[PlannedMove], basis: LoadBasis) -> tuple[float, float]:
    """Returns the imbalance now, and the one if every moved pod were on its target with the load it has."""
    proposals = [EvictionProposal(move.pod, move.target, move.plugin, move.reason) for move in moves]
    after, loads = after_moves(cluster, proposals), node_loads(cluster, basis)
    touched = {name for move in moves for name in (move.pod.node, move.target)}
    part = ClusterPlacement([node for node in after.nodes if node.name in touched], after.pods)
    return _deviation(loads), _deviation({**loads, **node_loads(part, basis)})


def _deviation(loads: Mapping[str, float]) -> float:
    return pstdev(loads.values()) if len(loads) > 1 else 0.0


def with_jobs(plan: KeptPlan, jobs: Mapping[str, JobState]) -> KeptPlan:
    """Returns the plan with the phases and outcomes of its jobs; a job that is not known keeps what it had."""
    steps = [
        replace(step, phase=jobs[step.job].phase, outcome=jobs[step.job].outcome) if step.job in jobs else step
        for step in plan.steps
    ]
    return replace(plan, steps=tuple(steps))


def is_measurable(plan: KeptPlan, jobs: Mapping[str, JobState], now_s: float) -> bool:
    """Whether the moves have ended and nodes have settled, or the time for it is over."""
    if plan.state is not PlanState.APPLIED:
        return False
    if plan.measure_by_s is not None and now_s >= plan.measure_by_s:
        return True
    states = [jobs.get(step.job) for step in plan.steps]
    return all(state is not None and state.has_ended and now_s >= state.changed_s + SETTLE_S for state in states)


def measured(plan: KeptPlan, jobs: Mapping[str, JobState], cluster: ClusterPlacement, now_s: float) -> KeptPlan:
    """Returns the plan with the gain of each step whose move succeeded: the load of the old node before it, as the plan
    has it, less the load now of the node on which the new pod is. Without a known new pod the target stands for it.

    What later steps of the plan brought there, or took away, is left out, as it is of the expected gain. So the two are
    equal if everything came as planned and nothing else changed.
    """
    loads = node_loads(cluster, plan.basis)
    places = {pod.uid: name for name, pods in cluster.pods.items() for pod in pods}
    later: dict[str, float] = {}
    steps: list[KeptStep] = []
    for step in reversed(with_jobs(plan, jobs).steps):
        state = jobs.get(step.job)
        if state is None or state.phase != MigrationPhase.SUCCEEDED or not step.target:
            steps.append(replace(step, gain=None))
            continue
        node, gain = new_node(step, state, places), None
        if node in loads:
            gain = min(max(step.loads.node_before - (loads[node] - later.get(node, 0.0)), -1.0), 1.0)
        steps.append(replace(step, gain=gain))
        later[node] = later.get(node, 0.0) + step.loads.target_after - step.loads.target_before
        later[step.node] = later.get(step.node, 0.0) + step.loads.node_after - step.loads.node_before
    return replace(
        plan,
        steps=tuple(reversed(steps)),
        state=PlanState.MEASURED,
        measured_s=now_s,
        imbalance_measured=imbalance(cluster, plan.basis),
    )


def new_node(step: KeptStep, state: JobState, places: Mapping[str, str]) -> str:
    """Returns the node on which the new pod of a move is; empty where it is not known."""
    return places.get(state.replacement, "") or state.target or step.target


def result_of(step: KeptStep) -> GainResult:
    """Returns what the measured gain of a step is beside the expected one."""
    if step.gain is None:
        return GainResult.UNKNOWN
    if step.gain >= step.expected_gain - GAIN_TOLERANCE:
        return GainResult.AS_EXPECTED
    return GainResult.WORSE if step.gain <= 0 else GainResult.LESS


def permille(share: float) -> int:
    """Returns a share in thousandths, as records add it up."""
    return round(share * 1000)


def replay_gain(before: float, after: float) -> int:
    """Decide again; returns the result of the record of a measured gain, in thousandths."""
    return permille(before) - permille(after)

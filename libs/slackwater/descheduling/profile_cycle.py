"""One cycle of a profile over a snapshot: its plugins, protections, limits and rest come to a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from slackwater.descheduling.anomaly import AnomalyState
from slackwater.descheduling.builtin import DefaultEvictor, LowNodeLoad
from slackwater.descheduling.cycle import HeldProposal, run_cycle
from slackwater.descheduling.low_node_load import NAME as LOW_NODE_LOAD
from slackwater.descheduling.low_node_load import RoundEnd
from slackwater.descheduling.move_history import Moves, StayReason, stay_reason
from slackwater.descheduling.placement import EXPECTED, ClusterPlacement, EvictionProposal, LoadBasis, PlacedPod
from slackwater.descheduling.placer import StepLoads, step_loads
from slackwater.descheduling.plugins import Plugin
from slackwater.descheduling.profile import DeclaredProfile, ProfileScope
from slackwater.descheduling.registry import NEEDED_DETAILS, make_plugin
from slackwater.model.records import record

OUTSIDE_ROLLOUT = "outside_rollout"
NO_GAIN = "no_gain"
"""The move would leave the pod on a node that is loaded as much as the old one was, or more."""
UNREPORTED = "_not_reported"


@record(frozen=True, slots=True)
class PlannedMove:
    """A pod that is proposed for a move."""

    pod: PlacedPod
    target: str
    plugin: str
    reason: str
    loads: StepLoads = StepLoads()

    @property
    def gain(self) -> float:
        """Load of the node before the move less that of the target after it, -1..1."""
        return self.loads.gain


@record(frozen=True, slots=True)
class ProfilePlan:
    """What a cycle of a profile comes to."""

    moves: Sequence[PlannedMove]
    dropped: Mapping[str, str]
    """By pod, why its proposal was dropped."""
    refusals: Mapping[str, int]
    """How many pods were not proposed, by reason; also those of which a plugin does not know what it needs."""
    ends: Mapping[str, RoundEnd]
    """Of LowNodeLoad, by pool: why it proposes nothing more."""
    detectors: Mapping[str, AnomalyState]
    looping: Sequence[str]
    """Workloads that are stopped, because they were moved too often."""
    held: Sequence[HeldProposal] = ()
    """Pods that plugins would have proposed, with what held each."""


class RolloutFilter:
    """The Filter point: pods outside of the part of the cluster in which the profile acts."""

    def __init__(self, scope: ProfileScope) -> None:
        self._scope = scope

    def filter(self, pod: PlacedPod, now_s: float) -> str | None:
        return None if self._scope.acts_on(pod.node, pod.namespace) else OUTSIDE_ROLLOUT


def run_profile(
    cluster: ClusterPlacement,
    profile: DeclaredProfile,
    detectors: Mapping[str, AnomalyState],
    moves: Moves,
    now_s: float,
) -> ProfilePlan:
    """Returns the plan of a cycle. `cluster` has the profile's nodes, `moves` the last ones of each workload. Raises
    InvalidInput, Misconfigured for a plugin that cannot be made."""
    balanced = None if profile.low_node_load is None else LowNodeLoad(profile.low_node_load, detectors)
    plugins: list[Plugin] = [RolloutFilter(profile.scope), DefaultEvictor(profile.evictor)]
    plugins += [make_plugin(choice) for choice in profile.plugins]
    plugins += [] if balanced is None else [balanced]
    replicas = Counter(pod.workload for pods in cluster.pods.values() for pod in pods)
    plan = run_cycle(
        cluster,
        plugins,
        now_s,
        limits=profile.limits,
        moves=moves,
        rules=profile.rest,
        replicas=replicas,
        margin=profile.margin,
    )
    planned, without_gain = planned_moves(cluster, plan.proposals, profile.basis)
    low_load = None if balanced is None else balanced.plan
    looping = [
        workload
        for workload, count in sorted(replicas.items())
        if stay_reason(moves, workload, now_s, profile.rest, replicas=count) is StayReason.LOOPING
    ]
    return ProfilePlan(
        planned,
        {**plan.dropped, **dict.fromkeys(without_gain, NO_GAIN)},
        dict(sorted({**plan.refusals, **unreported(cluster, profile)}.items())),
        {} if low_load is None else low_load.ends,
        {} if low_load is None else low_load.detectors,
        looping,
        plan.held,
    )


def planned_moves(
    cluster: ClusterPlacement, proposals: Sequence[EvictionProposal], basis: LoadBasis = EXPECTED
) -> tuple[Sequence[PlannedMove], Sequence[str]]:
    """Returns the proposals as moves with their loads, and the pods that are left out: LowNodeLoad moves for the sake
    of load alone, so that a move of it without gain in the load that it balances is none."""
    left_out: list[str] = []
    while True:
        loads = step_loads(cluster, proposals, basis)
        useless = {
            proposal.pod.uid
            for proposal, step in zip(proposals, loads, strict=True)
            if proposal.plugin == LOW_NODE_LOAD and proposal.target and step.gain <= 0
        }
        if not useless:
            moves = [
                PlannedMove(proposal.pod, proposal.target, proposal.plugin, proposal.reason, step)
                for proposal, step in zip(proposals, loads, strict=True)
            ]
            return moves, left_out
        left_out += sorted(useless)
        proposals = [proposal for proposal in proposals if proposal.pod.uid not in useless]


def unreported(cluster: ClusterPlacement, profile: DeclaredProfile) -> dict[str, int]:
    """Returns how many pods are on nodes whose agent does not report what a plugin of the profile needs, by what is
    missing: such a plugin says so, and does not find nothing in silence. A node without pods counts as one."""
    needed = {detail for choice in profile.plugins for detail in NEEDED_DETAILS.get(choice.name, ())}
    counts: Counter[str] = Counter()
    for node in cluster.nodes:
        for detail in needed.difference(node.reports):
            counts[f"{detail.replace('-', '_')}{UNREPORTED}"] += max(len(cluster.pods.get(node.name, ())), 1)
    return dict(counts)

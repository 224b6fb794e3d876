"""Plans that are kept: what they assumed of the cluster, whether it still holds, and how far they have got. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

from slackwater.descheduler.domain.cycle_state import WorkloadMove
from slackwater.descheduling.move_history import Moves
from slackwater.descheduling.placement import (
    EXPECTED,
    ClusterPlacement,
    EvictionProposal,
    LoadBasis,
    PlacedPod,
    PlacementNode,
    free_for_requests,
    requests_fit,
)
from slackwater.descheduling.placement_check import PlacementRefusal, rule_refusal
from slackwater.descheduling.placement_index import PlacementIndex
from slackwater.descheduling.placer import StepLoads, step_loads
from slackwater.descheduling.profile import DeclaredProfile
from slackwater.descheduling.profile_cycle import PlannedMove, ProfilePlan
from slackwater.model.records import record

APPLICABLE_S: Final = 3600.0
"""So long after it was made a plan may be applied."""
GAIN_TOLERANCE: Final = 0.05
"""By how much, in 0..1 of the load, the gain of a step may fall below what the plan expected."""
JOB_S: Final = 900.0
"""Beyond the time to live of its proposal a job of a plan has ended, or is not waited for."""
MOST_LOOPING: Final = 50
"""Workloads named in a kept plan."""


class PlanState(StrEnum):
    """How far a plan has got."""

    RECOMMENDED = "recommended"
    APPLYING = "applying"
    """An operator asked for it; the deciding replica checks it once more."""
    APPLIED = "applied"
    STALE = "stale"
    """Refused: the cluster is no longer what the plan assumed."""
    MEASURED = "measured"
    """Its moves have ended, and their gain is known."""


@record(frozen=True, slots=True)
class KeptStep:
    """One move of a plan, with the loads that it expects after the steps before it, by the plan's basis."""

    pod_uid: str
    pod: str
    namespace: str
    workload: str
    node: str
    target: str
    """Empty: no node was looked for."""
    plugin: str
    reason: str
    priority: int = 0
    loads: StepLoads = StepLoads()
    accepted: str = ""
    """What was against the step when the plan was made, and its plugin accepted, such as requests that do not fit."""
    job: str = ""
    """Name of its PodMigrationJob, once it is applied."""
    phase: str = ""
    """Of the job, as of the last look."""
    outcome: str = ""
    failed: bool = False
    """The pod has ended with a failure: it is removed, and nothing has to run elsewhere first."""
    gain: float | None = None
    """Measured: the load of the node before the move less that of the node of the new pod afterwards."""

    @property
    def expected_gain(self) -> float:
        """Load of the node before less that of the target after, -1..1; 0 without a target."""
        return self.loads.gain


@record(frozen=True, slots=True)
class KeptPlan:
    """A plan of a profile. Times in seconds since the epoch, loads and imbalances as shares of what is allocatable."""

    id: str
    profile: str
    profile_generation: int
    made_s: float
    nodes: int
    pods: int
    steps: tuple[KeptStep, ...]
    generation: int = 0
    """Of the row."""
    state: PlanState = PlanState.RECOMMENDED
    why: str = ""
    """What changed, of a stale plan."""
    cycle: int | None = None
    """The cycle that made and applied it; None: an operator asked for it."""
    decision: str = ""
    applied_s: float | None = None
    measure_by_s: float | None = None
    """Then the gain is measured, whatever jobs have not ended."""
    measured_s: float | None = None
    basis: LoadBasis = EXPECTED
    """Of all loads, gains and imbalances: what the profile balances."""
    refusals: Mapping[str, int] = field(default_factory=dict)
    """How many pods were not proposed, by reason."""
    pools: Mapping[str, str] = field(default_factory=dict)
    """Of lowNodeLoad, by pool: why it proposes nothing more."""
    looping: tuple[str, ...] = ()
    imbalance_before: float = 0.0
    imbalance_expected: float = 0.0
    imbalance_measured: float | None = None

    @property
    def expected_gain(self) -> float:
        """The mean over the steps."""
        return sum(step.expected_gain for step in self.steps) / len(self.steps) if self.steps else 0.0

    @property
    def measured_gain(self) -> float | None:
        """The mean over the steps that were measured; None: none was."""
        gains = [step.gain for step in self.steps if step.gain is not None]
        return sum(gains) / len(gains) if gains else None


def plan_id(profile: str, generation: int, moves: Sequence[PlannedMove], salt: str = "") -> str:
    """Returns the id of a plan: the same moves of the same generation of a profile have the same one. `salt` tells
    plans apart that are made of the same moves."""
    steps = "|".join(f"{move.pod.uid} {move.pod.node} {move.target}" for move in moves)
    return hashlib.sha256(f"{profile}@{generation}|{steps}{salt}".encode()).hexdigest()[:12]


def kept_plan(
    profile: DeclaredProfile,
    plan: ProfilePlan,
    cluster: ClusterPlacement,
    identity: str,
    imbalances: tuple[float, float],
    now_s: float,
) -> KeptPlan:
    """Returns a plan of a cycle to be kept. `imbalances` before, and expected after its moves."""
    return KeptPlan(
        id=identity,
        profile=profile.name,
        profile_generation=profile.generation,
        made_s=now_s,
        nodes=len(cluster.nodes),
        pods=sum(len(pods) for pods in cluster.pods.values()),
        steps=accepted_steps(planned_steps(plan.moves), cluster),
        basis=profile.basis,
        refusals=dict(plan.refusals),
        pools={pool: end.value for pool, end in plan.ends.items()},
        looping=tuple(plan.looping[:MOST_LOOPING]),
        imbalance_before=imbalances[0],
        imbalance_expected=imbalances[1],
    )


def planned_steps(moves: Sequence[PlannedMove]) -> list[KeptStep]:
    """Returns the moves as steps."""
    return [
        KeptStep(
            pod_uid=move.pod.uid,
            pod=move.pod.name,
            namespace=move.pod.namespace,
            workload=move.pod.workload,
            node=move.pod.node,
            target=move.target,
            plugin=move.plugin,
            reason=move.reason,
            priority=move.pod.priority or 0,
            loads=move.loads,
            failed=move.pod.has_failed,
        )
        for move in moves
    ]


@record(frozen=True, slots=True)
class StepCheck:
    """Whether a step can be taken on a snapshot: the loads that it would lead to now, and what is against it."""

    problem: str = ""
    loads: StepLoads = StepLoads()
    changes: Sequence[str] = field(default_factory=tuple)
    """What is no longer as the plan assumed it; the problem among them."""


def check_steps(
    steps: Sequence[KeptStep], cluster: ClusterPlacement, margin: float, basis: LoadBasis = EXPECTED
) -> list[StepCheck]:
    """Returns what a snapshot says of each step, after those before it. `margin`: the part of the allocatable amounts
    of a target that stays free, unless the plan itself uses it."""
    world = _StepWorld(cluster)
    found: list[StepCheck] = []
    taken: list[EvictionProposal] = []
    for step in steps:
        pod = world.running.get(step.pod_uid)
        problem = world.problem(step, pod)
        problem = "" if problem == step.accepted else problem
        loads = StepLoads()
        if pod is not None and not problem and step.target:
            proposal = EvictionProposal(pod, step.target, step.plugin, step.reason)
            loads = step_loads(cluster, [*taken, proposal], basis)[-1]
            if loads.target_after > max(1 - margin, step.loads.target_after + GAIN_TOLERANCE) + 1e-9:
                problem = f"{step.target} would be loaded to {loads.target_after:.0%}"
            else:
                taken.append(proposal)
                world.move(step, pod)
        changes = [problem] if problem else []
        lost = step.expected_gain - loads.gain
        if not problem and step.target and lost > GAIN_TOLERANCE:
            changes.append(f"its gain fell from {step.expected_gain:.1%} to {loads.gain:.1%}")
        found.append(StepCheck(problem, loads, tuple(changes)))
    return found


def accepted_steps(steps: Sequence[KeptStep], cluster: ClusterPlacement) -> tuple[KeptStep, ...]:
    """Returns the steps of a plan with what was against each on the snapshot that it was made on: its plugins decided
    so, and it does not make the plan stale."""
    world = _StepWorld(cluster)
    found = []
    for step in steps:
        pod = world.running.get(step.pod_uid)
        found.append(replace(step, accepted=world.problem(step, pod)))
        if pod is not None and step.target:
            world.move(step, pod)
    return tuple(found)


_SAID: Final = {
    PlacementRefusal.CORDONED: "{target} takes no new pods",
    PlacementRefusal.NODE_LABELS: "{target} does not admit the pod: its labels are not those that the pod wants",
    PlacementRefusal.TAINTS: "{target} does not admit the pod: it has a taint that the pod does not tolerate",
    PlacementRefusal.OPAQUE_POD: "{target} has a pod of which the rules are not known",
    PlacementRefusal.HOST_PORTS: "{target} has a pod that takes a port of the pod",
    PlacementRefusal.ANTI_AFFINITY: "{target} is in one domain with a pod that the pod's anti-affinity excludes",
    PlacementRefusal.ANTI_AFFINITY_THERE: "{target} is in one domain with a pod whose anti-affinity excludes the pod",
    PlacementRefusal.TOPOLOGY_SPREAD: "{target} is in a domain that has enough pods by the pod's topology spread",
}


class _StepWorld:
    """The cluster after the steps so far."""

    def __init__(self, cluster: ClusterPlacement) -> None:
        self.running = {pod.uid: pod for pods in cluster.pods.values() for pod in pods}
        self._nodes = {node.name: node for node in cluster.nodes}
        self._placed = {name: list(pods) for name, pods in cluster.pods.items()}
        self._rules = PlacementIndex(cluster)

    def move(self, step: KeptStep, pod: PlacedPod) -> None:
        """Note that a pod is on the target of its step."""
        self._placed[pod.node] = [each for each in self._placed[pod.node] if each.uid != pod.uid]
        self._placed.setdefault(step.target, []).append(pod)
        if step.target in self._nodes:
            self._rules.place(pod, step.target)

    def problem(self, step: KeptStep, pod: PlacedPod | None) -> str:
        """Returns what is against a step; empty: nothing."""
        if pod is None:
            return f"the pod does not run on {step.node} any more"
        if pod.terminating:
            return "the pod is terminating, or its move is pending"
        if pod.node != step.node:
            return f"the pod runs on {pod.node} now"
        if not step.target:
            return ""
        target = self._nodes.get(step.target)
        if target is None:
            return f"{step.target} is gone, or not one of the profile's nodes"
        if not self._rules.allows(pod, step.target):
            return self._forbidden(pod, target)
        if not requests_fit(free_for_requests(target, self._placed.get(step.target, ())), pod):
            return f"{step.target} has no room for the requests of the pod"
        return ""

    def _forbidden(self, pod: PlacedPod, target: PlacementNode) -> str:
        refusal = rule_refusal(pod, target, ClusterPlacement(list(self._nodes.values()), self._placed))
        if refusal is None or refusal is PlacementRefusal.UNREAD_RULES:
            return f"hard rules of the pod are not read: {', '.join(pod.unread_rules)}"
        return _SAID[refusal].format(target=target.name)


def plan_changes(
    plan: KeptPlan, profile: DeclaredProfile | None, cluster: ClusterPlacement, moves: Moves, now_s: float
) -> list[str]:
    """Returns what is no longer as the plan assumed; empty: it may be applied. `moves` are those of each workload."""
    if profile is None:
        return [f"the profile {plan.profile} does not exist any more"]
    found = []
    if profile.generation != plan.profile_generation:
        found.append(f"the profile {plan.profile} is in generation {profile.generation}, not {plan.profile_generation}")
    if now_s - plan.made_s > APPLICABLE_S:
        old, most = (now_s - plan.made_s) / 60, APPLICABLE_S / 60
        found.append(f"the plan is {old:.0f} min old, and may be applied for {most:.0f} min")
    for number, (step, check) in enumerate(
        zip(plan.steps, check_steps(plan.steps, cluster, profile.margin, plan.basis), strict=True), 1
    ):
        where = f"step {number}, {step.namespace}/{step.pod}"
        found += [f"{where}: {change}" for change in check.changes]
        if any(at_s > plan.made_s for at_s in moves.get(step.workload, ()) if step.workload):
            found.append(f"{where}: a pod of {step.workload} was moved since")
    return found


def part_of(cluster: ClusterPlacement, steps: Sequence[KeptStep]) -> ClusterPlacement:
    """Returns the nodes on which the steps depend, and those on which their pods run now: enough for `plan_changes`.
    Where hard rules about topology count, all nodes, and of the others the pods that they count."""
    uids = {step.pod_uid for step in steps}
    names = {name for step in steps for name in (step.node, step.target)}
    names |= {name for name, pods in cluster.pods.items() if any(pod.uid in uids for pod in pods)}
    moving = [pod for name in names for pod in cluster.pods.get(name, ()) if pod.uid in uids]
    counted = {
        name: [pod for pod in pods if pod.anti_affinity or any(_is_counted(pod, other) for other in moving)]
        for name, pods in cluster.pods.items()
        if name not in names
    }
    is_local = not any(counted.values()) and not any(pod.spread for pod in moving)
    nodes = [node for node in cluster.nodes if node.name in names or not is_local]
    pods = {name: pods for name, pods in cluster.pods.items() if name in names}
    return ClusterPlacement(nodes, pods if is_local else {**counted, **pods})


def _is_counted(pod: PlacedPod, moving: PlacedPod) -> bool:
    """Whether a rule of a pod that moves counts another one."""
    return any(
        rule.concerns(moving.namespace, pod.namespace) and rule.selects(pod.labels) for rule in moving.anti_affinity
    ) or any(pod.namespace == moving.namespace and rule.selects(pod.labels) for rule in moving.spread)


def asked(plan: KeptPlan) -> KeptPlan:
    """Returns a recommended plan as asked for; any other stays as it is, so that it is applied once."""
    return replace(plan, state=PlanState.APPLYING) if plan.state is PlanState.RECOMMENDED else plan


def proposed_moves(steps: Sequence[KeptStep], jobs: Sequence[str], now_s: float, ttl_s: float) -> list[WorkloadMove]:
    """Returns the moves of steps that are proposed now. `jobs` and `ttl_s` as for `applied`."""
    return [
        WorkloadMove(step.pod_uid, step.workload, now_s, step.target, now_s + ttl_s, job)
        for step, job in zip(steps, jobs, strict=True)
    ]


def applied(
    plan: KeptPlan, jobs: Sequence[str], decision: str, now_s: float, ttl_s: float, cycle: int | None = None
) -> KeptPlan:
    """Returns a plan as applied. `jobs` are the names of the jobs of its steps, `ttl_s` the time to live of their
    proposals, `cycle` the one that applied it by itself."""
    steps = [replace(step, job=job) for step, job in zip(plan.steps, jobs, strict=True)]
    return replace(
        plan,
        state=PlanState.APPLIED,
        steps=tuple(steps),
        decision=decision,
        applied_s=now_s,
        measure_by_s=now_s + ttl_s + JOB_S,
        cycle=cycle,
    )

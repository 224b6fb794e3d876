"""Everything a cycle needs of the documents in force, as one value for replicas, records and
agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slackwater.decisions.reasons import Mode
from slackwater.resources.names import CLUSTER
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.analysis.memory_demands import can_act
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.loop.feedback import LoopPolicy
from slackwater.waterline.nodeqos import THROTTLE, NodeQos
from slackwater.waterline.policies.autonomy import AutonomyPolicy
from slackwater.waterline.policies.avoidance import AvoidanceAction
from slackwater.waterline.policies.grants import Autonomy
from slackwater.waterline.policies.podqos import PodQos, PodQosSpec, ScopeExpression, ScopeSelector
from slackwater.waterline.policies.rules import NodeQosRules, RuleSpec
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metrics

BEST_EFFORT: Final = PodQosSpec(
    scope_selector=ScopeSelector(
        match_expressions=(ScopeExpression(scope_name="QOSClass", operator="In", values=("BE",)),)
    ),
    allowed_actions=(THROTTLE,),
)
"""The PodQOS `default` until one is applied: class BE may be throttled, no pod may be evicted."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Operator documents beside the cluster's NodeQOS. `generations` is the sum over all present
    and deleted documents, so it rises with every change.
    """

    nodes: tuple[NodeQosRules, ...] = ()
    pods: tuple[PodQos, ...] = ()
    actions: tuple[AvoidanceAction, ...] = ()
    autonomies: tuple[Autonomy, ...] = ()
    generations: int = 0


@dataclass(frozen=True, slots=True)
class Rulebook:
    """`source` names the documents it is built from, `autonomy` the autonomy by pool (`cluster`:
    all others). `revision` rises with every change of any document.
    """

    source: str
    policies: Policies
    cluster: AutonomyPolicy = field(default_factory=AutonomyPolicy)
    autonomy: Mapping[str, AutonomyPolicy] = field(default_factory=dict)
    excess: Excess = field(default_factory=Excess)
    limits: ActionLimits = field(default_factory=ActionLimits)
    pool_limits: Mapping[str, ActionLimits] = field(default_factory=dict)
    loop: LoopPolicy = field(default_factory=LoopPolicy)
    weights: str = "by-tier-idle"
    memory_protection: str = "none"
    revision: int = 1

    def autonomy_of(self, pool: str) -> AutonomyPolicy:
        return self.autonomy.get(pool, self.cluster)

    def limits_of(self, pool: str) -> ActionLimits:
        return self.pool_limits.get(pool, self.limits)

    def options(self, mode: Mode, pool: str = "") -> Options:
        return Options(mode, self.excess, self.limits_of(pool), self.loop)


def rulebook_of(cluster: NodeQos, others: Documents | None = None, metrics: Metrics = BUILT_IN) -> Rulebook:
    """Returns the rulebook of all documents."""
    given = others or Documents()
    throttle, name = cluster.spec.throttle, cluster.metadata.name
    own = NodePolicy(name, _rules(name, cluster.spec.rules, metrics))
    nodes = tuple(
        NodePolicy(node.metadata.name, _rules(node.metadata.name, node.spec.rules, metrics), node.spec.selector)
        for node in given.nodes
    )
    return Rulebook(
        source=_source(cluster, given),
        policies=Policies((own, *nodes), _actions(cluster, given.actions), _pods(given.pods)),
        cluster=AutonomyPolicy(Mode(cluster.spec.mode), cluster.metadata.generation),
        autonomy={autonomy.pool: autonomy.policy() for autonomy in given.autonomies},
        pool_limits={autonomy.pool: autonomy.limits() for autonomy in given.autonomies},
        excess=Excess(exact(throttle.excess_ratio)),
        loop=throttle.loop(),
        weights=cluster.spec.weights,
        memory_protection=cluster.spec.memory.protection,
        revision=cluster.metadata.generation + given.generations,
    )


def rules_without_effect(policies: Policies, metrics: Metrics) -> Mapping[str, str]:
    """Returns the rules that can act on no pod, by key with the reason, for display to operators:
    no decision would report it. Rules that only cordon the node are not included.
    """
    actions = {action.name: action for action in policies.actions}
    allowed = {name for pod in policies.pods for name in pod.allowed_actions}
    found = {}
    for rule in (rule for node in policies.nodes for rule in node.rules):
        action, metric = actions.get(rule.action), metrics.get(rule.metric)
        if action is None:
            found[rule.key] = f"there is no AvoidanceAction {rule.action}; apply it, or name another"
        elif metric is not None and (action.throttle is not None or action.memory is not None or action.evicts):
            if not can_act(action, metric):
                found[rule.key] = f"the action {action.name} can do nothing about {metric.name}"
            elif action.name not in allowed:
                found[rule.key] = f"no PodQOS allows the action {action.name}"
    return found


def _rules(policy: str, written: Sequence[RuleSpec], metrics: Metrics) -> tuple[Rule, ...]:
    """Returns the rules. A metric may have been uninstalled since the rule was written: such a rule
    is inactive.
    """
    return tuple(rule.rule(policy, metrics) for rule in written if metrics.get(rule.metric_rule.name) is not None)


def _actions(cluster: NodeQos, written: Sequence[AvoidanceAction]) -> tuple[PolicyAction, ...]:
    """Returns the actions, with the default action unless a document of its name replaces it."""
    actions = {one.metadata.name: one.action() for one in written}
    throttle = cluster.spec.throttle
    bounds = ThrottleBounds(request_ratio=exact(throttle.min_request_ratio), min_milli=throttle.min_cpu_milli)
    own = PolicyAction(THROTTLE, bounds, disables_scheduling=False, memory=cluster.spec.memory.bounds())
    return tuple(({THROTTLE: own} | actions).values())


def _pods(written: Sequence[PodQos]) -> tuple[PodQosSpec, ...]:
    named = {one.metadata.name: one.spec for one in written}
    return tuple(({CLUSTER: BEST_EFFORT} | named).values())


def _source(cluster: NodeQos, others: Documents) -> str:
    """Returns the source for records: the cluster's document, and how many others contributed."""
    count = len(others.nodes) + len(others.pods) + len(others.actions) + len(others.autonomies)
    more = f" and {count} more" if count else ""
    return f"nodeqos/{cluster.metadata.name}@{cluster.metadata.generation}{more}"

"""All that a cycle needs of the documents in force, as one value that travels: to replicas, into records, to agents."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from slackwater.decisions.reasons import Mode
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.limits import Limits
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.loop.policy import LoopPolicy
from slackwater.waterline.nodeqos import NodeQos, RuleSpec
from slackwater.waterline.policies.podqos import PodQosSpec
from slackwater.waterline.policies.selectors import ScopeExpression, ScopeSelector
from slackwater.waterline.policies.values import Action, NodePolicy, Policies, Rule

THROTTLE: Final = "throttle"
"""The action of rules that name none."""
BEST_EFFORT: Final = PodQosSpec(
    scope_selector=ScopeSelector(
        match_expressions=(ScopeExpression(scope_name="QOSClass", operator="In", values=("BE",)),)
    ),
    allowed_actions=(THROTTLE,),
)
"""Who gives way without a PodQOS of its own: only class BE."""


@dataclass(frozen=True, slots=True)
class Rulebook:
    """`source` says which documents it is made of, `mode` how far a pool may go that has no autonomy of its own."""

    source: str
    policies: Policies
    mode: Mode = Mode.THROTTLE
    excess: Excess = field(default_factory=Excess)
    limits: Limits = field(default_factory=Limits)
    loop: LoopPolicy = field(default_factory=LoopPolicy)

    def options(self, mode: Mode | None = None) -> Options:
        return Options(self.mode if mode is None else mode, self.excess, self.limits, self.loop)


def rulebook_of(document: NodeQos) -> Rulebook:
    """What the one small document means: every rule throttles, every pod of class BE may be throttled."""
    throttle = document.spec.throttle
    loop = LoopPolicy(
        min_change_ratio=throttle.min_change_ratio,
        step_ratio=throttle.step_ratio,
        release_ratio=throttle.release_ratio,
        headroom_margin_ratio=throttle.headroom_margin_ratio,
        settle_seconds=throttle.settle_seconds,
        pending_seconds=throttle.pending_seconds,
        relapse_seconds=throttle.relapse_seconds,
        probe_seconds=throttle.probe_seconds,
        probe_ratio=throttle.probe_ratio,
    )
    bounds = ThrottleBounds(request_ratio=exact(throttle.min_request_ratio), min_milli=throttle.min_cpu_milli)
    name = document.metadata.name
    rules = tuple(_rule(name, rule) for rule in document.spec.rules)
    action = Action(THROTTLE, bounds, disables_scheduling=False)
    return Rulebook(
        f"nodeqos/{name}@{document.metadata.generation}",
        Policies((NodePolicy(name, rules),), (action,), (BEST_EFFORT,)),
        Mode(document.spec.mode),
        replace(Excess(), gap_ratio=exact(throttle.excess_ratio)),
        Limits(),
        loop,
    )


def _rule(policy: str, rule: RuleSpec) -> Rule:
    level = exact(rule.metric_rule.value)
    return Rule(
        policy,
        rule.name,
        rule.metric_rule.name,
        level,
        level,
        THROTTLE,
        avoidance_threshold=rule.avoidance_threshold,
        restore_threshold=rule.restore_threshold,
        cool_down_seconds=rule.cool_down_seconds,
    )

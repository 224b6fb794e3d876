"""One whole cycle of a node: readings, policies, state and time in; demands, plan and the next state out. Pure.

The framework of issue 6. The planner that runs today is `planner.plan`; it stays until the services are moved here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from slackwater.decisions.reasons import Mode
from slackwater.waterline.analysis.analyzer import Analysis, AnalyzerState, Excess, analyse
from slackwater.waterline.execution.evicting import Attempt
from slackwater.waterline.execution.executor import execute, preview
from slackwater.waterline.execution.limits import Limits
from slackwater.waterline.execution.plan import ExecutorState, Plan
from slackwater.waterline.facts.node import NodeView
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.registry.built_in import BUILT_IN
from slackwater.waterline.registry.metric import Metrics


@dataclass(frozen=True, slots=True)
class CycleState:
    """Between two cycles of a node."""

    analyzer: AnalyzerState = field(default_factory=AnalyzerState)
    executor: ExecutorState = field(default_factory=ExecutorState)


@dataclass(frozen=True, slots=True)
class Options:
    """`mode` is the pool's autonomy now: what it does not allow is planned all the same, and told in `would`."""

    mode: Mode = Mode.EVICT
    excess: Excess = field(default_factory=Excess)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Cycle:
    """`plan` is to be carried out; `would` is what previews and the mode keep from being done."""

    analysis: Analysis
    plan: Plan
    would: Plan
    state: CycleState


def run_cycle(
    view: NodeView,
    policies: Policies,
    before: CycleState,
    now: datetime,
    *,
    options: Options | None = None,
    metrics: Metrics = BUILT_IN,
    attempt: Attempt | None = None,
) -> Cycle:
    """See the module's docstring."""
    given = options or Options()
    allowed = _only_previews(policies) if given.mode is Mode.OBSERVE else policies
    analysis = _within(given.mode, analyse(view, allowed, metrics, before.analyzer, now, given.excess))
    plan = execute(analysis, before.executor, given.limits, now, attempt)
    would = preview(analysis, before.executor, given.limits, now)
    return Cycle(analysis, plan, would, CycleState(analysis.state, plan.state))


def _within(mode: Mode, analysis: Analysis) -> Analysis:
    """Evictions beyond the mode become previews."""
    if mode is Mode.EVICT:
        return analysis
    return replace(analysis, evictions=(), previews=(*analysis.previews, *analysis.evictions))


def _only_previews(policies: Policies) -> Policies:
    """Mode observe: no rule acts, so the node stays open, and what was taken goes back."""
    nodes = (replace(one, rules=tuple(replace(rule, is_preview=True) for rule in one.rules)) for one in policies.nodes)
    return replace(policies, nodes=tuple(nodes))

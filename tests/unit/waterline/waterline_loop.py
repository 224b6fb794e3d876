"""A small closed loop around the framework: a plant that shares a node's CPU, and a node that does what is planned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from waterline_crowd import NOON, use, view
from waterline_plant import Plant

from slackwater.decisions.reasons import Mode
from slackwater.model.tiers import Tier
from slackwater.waterline.actuation.cpu_quota import ThrottleBounds
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.analysis.demands import ActionKind
from slackwater.waterline.cycle import CycleState, Options
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.loop.applied_limits import Throttled, container_of
from slackwater.waterline.loop.feedback import LoopPolicy, LoopState
from slackwater.waterline.node_guard import GuardResult, GuardState, confirmed, guard
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeExpression, ScopeSelector
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule

BEST_EFFORT = PodQosSpec(
    scope_selector=ScopeSelector(
        match_expressions=(ScopeExpression(scope_name="QOSClass", operator="In", values=("BE",)),)
    ),
    allowed_actions=("throttle", "evict"),
)
THROTTLE = PolicyAction("throttle", ThrottleBounds(), disables_scheduling=False)
EVICT = PolicyAction("evict", evicts=True, grace_seconds=5, disables_scheduling=False)
CLOSED_LOOP = Options(loop=LoopPolicy(), mode=Mode.THROTTLE)


def line(metric: str = "prod_cpu_pressure", waterline: str = "0.1", action: str = "throttle", **fields: Any) -> Rule:
    """The default rule of ensurance."""
    level = Decimal(waterline)
    name = fields.pop("name", "prod-cpu")
    known = {"restore_threshold": 2, "cool_down_seconds": 3.0} | fields
    return Rule("default", name, metric, level, level, action, **known)


def under(*rules: Rule, actions: tuple[PolicyAction, ...] = (THROTTLE, EVICT)) -> Policies:
    return Policies((NodePolicy("default", rules or (line(),)),), actions, (BEST_EFFORT,))


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def pod(
    uid: str, tier: Tier = Tier.BATCH, cpu: int = 500, *, ours: Throttled | None = None, original: int | None = None,
    **fields: Any,
) -> PodUse:  # fmt: skip
    return use(uid, tier, cpu, containers=(container_of(cpu, 1000, original, ours),), **fields)


def seen(*pods: PodUse, pressure: float | None = 0.5, capacity: int = 2000, when: float = 0) -> NodeReadings:
    """Node usage is the sum of the pods."""
    prod = sum(one.cpu_usage_milli or 0 for one in pods if one.tier is Tier.PROD)
    return replace(view(*pods, at=when, capacity=capacity, prod_cpu_pressure=pressure), prod_usage_milli=prod)


def held(limit: int, *, uid: str = "b", original: int | None = None, **loop: Any) -> GuardState:
    """A state with one limit in force."""
    throttled = Throttled(uid, f"name-{uid}", "batch", limit, original)
    return GuardState((throttled,), CycleState(loop=LoopState(**loop)))


def of(plan: Plan, kind: ActionKind) -> list[str]:
    return [step.uid for step in plan.of(kind)]


@dataclass
class GuardLoop:
    """One report per second; a change is carried out and confirmed before the next one."""

    plant: Plant
    policies: Policies = field(default_factory=under)
    options: Options = CLOSED_LOOP
    state: GuardState = field(default_factory=GuardState)
    at: float = 0.0
    done: list[tuple[float, GuardResult]] = field(default_factory=list)

    def view(self) -> NodeReadings:
        usages, ours = self.plant.usages(), self.state.by_uid()
        pods = [pod("prod", Tier.PROD, usages["prod"])]
        pods += [
            pod(uid, cpu=usages[uid], ours=ours.get(uid), original=self.plant.originals.get(uid))
            for uid in self.plant.batch
        ]
        return seen(*pods, pressure=self.plant.pressure(), capacity=self.plant.capacity, when=self.at)

    def tick(self) -> GuardResult:
        self.at += 1.0
        now = at(self.at)
        made = guard(self.view(), self.state, self.policies, now, self.options)
        self.state = made.state
        self.plant.limits = {one.uid: one.limit_milli for one in self.state.throttles}
        if made.cycle.plan.steps:
            self.state = confirmed(self.state, now + timedelta(seconds=0.1))
        self.done.append((self.at, made))
        return made

    def run(self, seconds: int) -> list[GuardResult]:
        return [self.tick() for _ in range(seconds)]

    def changes_since(self, since: float) -> int:
        return sum(1 for when, made in self.done if made.cycle.plan.steps and when > since)


def exactly(**fields: Any) -> Options:
    """Without excess."""
    return Options(loop=LoopPolicy(), mode=Mode.THROTTLE, excess=Excess(Decimal(0)), **fields)

"""Rules, actions and policies with the fields that a test cares about."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from waterline_crowd import NOON

from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds
from slackwater.waterline.analysis.analyzer import Excess
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.limits import ActionLimits
from slackwater.waterline.policies.podqos import PodQosSpec, ScopeSelector
from slackwater.waterline.policies.values import NodePolicy, Policies, PolicyAction, Rule

D = Decimal
THROTTLE = PolicyAction("throttle", ThrottleBounds(min_milli=10), RestoreBounds(D(1)))
EVICT = PolicyAction("evict", evicts=True, grace_seconds=30)
CLOSE = PolicyAction("close", cool_down_seconds=300)
UNBOUND = ActionLimits(evictions_per_cycle=None, evictions_per_hour=None)
EXACT = Options(excess=Excess(D(0)), limits=UNBOUND)


def rule(metric: str, waterline: Any, action: str = "throttle", **fields: Any) -> Rule:
    level = D(str(waterline))
    target = D(str(fields.pop("target", waterline)))
    return Rule("nq", fields.pop("name", f"{metric}-{level}-{action}"), metric, level, target, action, **fields)


def everybody(*actions: str) -> PodQosSpec:
    return PodQosSpec(scope_selector=ScopeSelector(), allowed_actions=actions)


def policies(*rules: Rule, actions: tuple[PolicyAction, ...] = (), pods: tuple[PodQosSpec, ...] = ()) -> Policies:
    """Every pod may suffer everything unless `pods` says otherwise."""
    known = actions or (THROTTLE, EVICT, CLOSE)
    allowed = pods or (everybody(*(action.name for action in known)),)
    return Policies((NodePolicy("nq", rules),), known, allowed)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)

"""Policies in the planner's form: rules, actions, and the pods that each action may affect."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from slackwater.resources.selectors import LabelSelector
from slackwater.waterline.actuation.cpu_quota import RestoreBounds, ThrottleBounds
from slackwater.waterline.actuation.memory_high import MemoryBounds
from slackwater.waterline.policies.podqos import PodQosSpec

_STEPWISE = RestoreBounds()


@dataclass(frozen=True, slots=True)
class Rule:
    """One waterline: strictly above it for `avoidance_threshold` consecutive samples triggers, at
    or below it for `restore_threshold` restores. A release goes down to `target`. `is_preview`:
    planned and recorded, never carried out.
    """

    policy: str
    name: str
    metric: str
    waterline: Decimal
    target: Decimal
    action: str
    selector: LabelSelector | None = None
    avoidance_threshold: int = 1
    restore_threshold: int = 1
    cool_down_seconds: float = 0.0
    is_preview: bool = False

    @property
    def key(self) -> str:
        return f"{self.policy}.{self.name}"


@dataclass(frozen=True, slots=True)
class PolicyAction:
    """The actions of a triggered rule: limits of CPU (`throttle`) and of memory, and evictions. Without any, the node
    is only cordoned for new pods.
    """

    name: str
    throttle: ThrottleBounds | None = None
    restore: RestoreBounds = _STEPWISE
    evicts: bool = False
    grace_seconds: int | None = None
    disables_scheduling: bool = True
    cool_down_seconds: float = 300.0
    memory: MemoryBounds | None = None


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """A NodeQOS: which nodes, and their rules."""

    name: str
    rules: tuple[Rule, ...]
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Policies:
    """All applied policies."""

    nodes: tuple[NodePolicy, ...] = ()
    actions: tuple[PolicyAction, ...] = ()
    pods: tuple[PodQosSpec, ...] = ()

"""A pod: the unit that is started, measured, throttled and evicted. On plain Linux a managed command is a pod."""

from __future__ import annotations

import operator
from dataclasses import field
from typing import Annotated

from pydantic import Field

from slackwater.model.bounds import Count, Labels, Moment, Name, OfOneMachine, PodPriority
from slackwater.model.placement_rules import PlacementRules
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

LABEL_NUMA = "slackwater.io/numa-node"
LABEL_NUMA_BOUND, LABEL_CPU_POOL = "slackwater.io/numa-bound", "slackwater.io/cpu-pool"
"""The NUMA zone that a pod is bound to, like `node0`. The agent sets it from the kernel's cpuset unless the pod already
carries the label."""

RESOURCE_LABEL = "resource.slackwater.io/"
"""Before the name of a resource of a plugin, `/` written as `.`; the value is the amount that the pod asks for."""

PENDING, RUNNING, FAILED = "Pending", "Running", "Failed"
"""Phases of a pod, as Kubernetes names them."""


def is_unset(value: object) -> bool:
    """Whether a field is omitted from the JSON because its value is None."""
    return value is None


@record(frozen=True, slots=True)
class PodStatus:
    """How a pod fares. Each field is at its default in a pod that runs well, and is then omitted.

    `restarts` counts those of all its containers. `reason` is that of the phase, or of not being ready.
    """

    ready: Annotated[bool, Field(exclude_if=bool)] = True
    restarts: Annotated[Count, Field(exclude_if=operator.not_)] = 0
    phase: Annotated[Name, Field(exclude_if=lambda phase: phase == RUNNING)] = RUNNING
    reason: Annotated[Name, Field(exclude_if=operator.not_)] = ""
    terminating: Annotated[bool, Field(exclude_if=operator.not_)] = False


WELL = PodStatus()


@record(frozen=True, slots=True)
class Pod:
    """Identity and request of a pod, without its usage.

    `uid` is never reused. `workload` is the key that is stable over restarts and shared by replicas; prediction keeps
    its models by it. `status` and `rules` are omitted where they are at their defaults; whether an agent knows them at
    all says `NodeFacts.reports`.
    """

    uid: Name
    name: Name
    namespace: Name
    workload: Name
    tier: Tier
    qos: QoSClass
    priority: PodPriority
    request: Annotated[Resources, OfOneMachine()]
    started_at: Moment
    labels: Labels = field(default_factory=dict)
    status: Annotated[PodStatus | None, Field(exclude_if=is_unset)] = None
    """None: ready, without restarts, or not known."""
    rules: Annotated[PlacementRules | None, Field(exclude_if=is_unset)] = None
    """None: none, or not known."""

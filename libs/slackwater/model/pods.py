"""A pod: the unit that is started, measured, throttled and evicted. On plain Linux a managed command is a pod."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from slackwater.model.bounds import Labels, Moment, Name, OfOneMachine, PodPriority
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

LABEL_NUMA = "slackwater.io/numa-node"
"""The NUMA zone that a pod is bound to, like `node0`. The agent sets it from the kernel's cpuset unless the pod already
carries the label."""


@record(frozen=True, slots=True)
class Pod:
    """Identity and request of a pod, without its usage.

    `uid` is never reused. `workload` is the key that is stable over restarts and shared by replicas; prediction keeps
    its models by it.
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

"""A pod: the unit that is started, measured, throttled, evicted. On plain Linux one managed command is one pod."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from slackwater.model.bounds import Labels, Moment, Name, OfOneMachine, PodPriority
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.tiers import QoSClass, Tier

LABEL_NUMA = "slackwater.io/numa-node"
"""The one NUMA zone that a pod is bound to, like `node0`: agents say it of pods of which the kernel does, unless who
started the pod has."""


@record(frozen=True, slots=True)
class Pod:
    """Identity and claim of a pod; never its usage.

    `uid` is unique for all time, `workload` is the key that survives restarts and replicas
    (what prediction learns by), `request` is what was asked for.
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

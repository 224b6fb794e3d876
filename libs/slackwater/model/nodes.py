"""The description of a node that the agent publishes at start and on every change, and the node's liveness."""

from __future__ import annotations

import operator
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from slackwater.model.bounds import Annotations, Count, Items, Labels, Name, OfOneMachine
from slackwater.model.placement_rules import Few, FewAmounts, NodeTaint
from slackwater.model.quantities import Resources
from slackwater.model.records import record

EVICTIONS_BY: Final = "slackwater.io/evictions"
"""Annotation of a node's description that says what carries out its evictions."""
API_SERVER: Final = "api-server"
LABEL_CPUSETS: Final = "slackwater.io/cpusets"
"""How CPUs of a pod get to the kernel of a node: `launch`, before its command starts; `off`: they do not."""


class PodDetail(StrEnum):
    """What an agent may report of its pods and node beyond their usage."""

    READINESS = "readiness"
    RESTARTS = "restarts"
    FAILED_PODS = "failed-pods"
    PLACEMENT_RULES = "placement-rules"
    """Node selectors, affinities, tolerations and spread constraints."""
    NODE_TAINTS = "node-taints"
    NODE_RESOURCES = "node-resources"
    """How many pods the node takes, and what it has beyond CPU and memory."""


class Liveness(StrEnum):
    """State by the age of the last report: fresh within the expected interval, then stale, then lost."""

    FRESH = "fresh"
    STALE = "stale"
    LOST = "lost"


@record(frozen=True, slots=True)
class CpuTopology:
    """Numbers of logical CPUs, physical cores, sockets and NUMA nodes, read from /sys."""

    cpus: Count
    cores: Count
    sockets: Count
    numa_nodes: Count


@record(frozen=True, slots=True)
class NumaNode:
    """One NUMA node with its CPUs and memory; `name` is the kernel's, like `node0`."""

    name: Name
    capacity: Annotated[Resources, OfOneMachine()]


@record(frozen=True, slots=True)
class NodeFacts:
    """Static properties of a node, published on start and on change.

    `capacity` is the total of the machine; `reserved` is what the operator withholds from every tier.
    `cgroup_version` is "v1", "v2", "hybrid" (v1 controllers beside a v2 tree for pressure) or "none". `numa` is empty
    where the machine has a single zone. `resources` is what its pods may have beyond CPU and memory: `pods` is how many
    it takes, others are devices, ephemeral storage and the like. `reports` has what the agent reports beyond usage
    (PodDetail): what is not in it is not known of the node's pods, rather than at its default.
    """

    name: Name
    pool: Name
    capacity: Annotated[Resources, OfOneMachine()]
    reserved: Annotated[Resources, OfOneMachine()]
    topology: CpuTopology
    kernel: Name
    cgroup_version: Name
    driver: Name
    agent_version: Name
    labels: Labels = field(default_factory=dict)
    annotations: Annotations = field(default_factory=dict)
    numa: Items[NumaNode] = ()
    taints: Annotated[Few[NodeTaint], Field(exclude_if=operator.not_)] = ()
    resources: Annotated[FewAmounts, Field(exclude_if=operator.not_)] = field(default_factory=dict)
    reports: Annotated[Few[Name], Field(exclude_if=operator.not_)] = ()

    @property
    def is_evicted_by_api_server(self) -> bool:
        """Whether the service kubernetes carries out evictions of this node. Otherwise its agent does (decision
        0109)."""
        return self.driver == "kubernetes" or self.annotations.get(EVICTIONS_BY) == API_SERVER

    def knows(self, detail: PodDetail) -> bool:
        """Whether the agent reports it."""
        return detail in self.reports

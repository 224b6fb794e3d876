"""A node as the agent finds it at start and whenever it changes."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from slackwater.model.bounds import Annotations, Count, Items, Labels, Name, OfOneMachine
from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class CpuTopology:
    """Logical CPUs, physical cores, sockets and NUMA nodes, as /sys tells them."""

    cpus: Count
    cores: Count
    sockets: Count
    numa_nodes: Count


@record(frozen=True, slots=True)
class NumaNode:
    """CPUs and memory that are near each other, `node0` as the kernel names them."""

    name: Name
    capacity: Annotated[Resources, OfOneMachine()]


@record(frozen=True, slots=True)
class NodeFacts:
    """What a node is: changes rarely, is published on start and on change.

    `capacity` is all the machine has; `reserved` is what its operator keeps back from every tier.
    `cgroup_version` is "v1", "v2", "hybrid" (v1 controllers beside a v2 tree for pressure) or "none". `numa` is empty
    where all of the machine is one zone.
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

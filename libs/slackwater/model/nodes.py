"""A node as the agent finds it at start and whenever it changes."""

from __future__ import annotations

from dataclasses import field

from slackwater.model.quantities import Resources
from slackwater.model.records import record


@record(frozen=True, slots=True)
class CpuTopology:
    """Logical CPUs, physical cores, sockets and NUMA nodes, as /sys tells them."""

    cpus: int
    cores: int
    sockets: int
    numa_nodes: int


@record(frozen=True, slots=True)
class NumaNode:
    """CPUs and memory that are near each other, `node0` as the kernel names them."""

    name: str
    capacity: Resources


@record(frozen=True, slots=True)
class NodeFacts:
    """What a node is: changes rarely, is published on start and on change.

    `capacity` is all the machine has; `reserved` is what its operator keeps back from every tier.
    `cgroup_version` is "v1", "v2", "hybrid" (v1 controllers beside a v2 tree for pressure) or "none". `numa` is empty
    where all of the machine is one zone.
    """

    name: str
    pool: str
    capacity: Resources
    reserved: Resources
    topology: CpuTopology
    kernel: str
    cgroup_version: str
    driver: str
    agent_version: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    numa: tuple[NumaNode, ...] = ()

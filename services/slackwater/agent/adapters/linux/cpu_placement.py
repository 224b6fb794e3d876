"""What the resource manager of this machine is built from."""

from __future__ import annotations

import os
import re
from pathlib import Path

from slackwater.agent.adapters.linux.cpu_machine import read_machine
from slackwater.agent.adapters.linux.driver import LinuxDriver
from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.agent.adapters.placement_files import JsonPlacements
from slackwater.agent.domain.controls.cpusets import CPUSET_CPUS
from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.usecases.place_pods import PlacePods
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.machine import CpuMachine
from slackwater.kernels.topology.pools import PoolDemand, PoolRules
from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text
from slackwater.model.time import Clock
from slackwater.runtime.owned_files import read_regular

SYS, KUBELET = Path("/sys"), Path("/var/lib/kubelet")
_MOST_STATE_BYTES = 16 << 20
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")


def cpu_placement(
    driver: LinuxDriver, clock: Clock, system_cpus: str, is_on: bool, sys: Path = SYS, kubelet: Path = KUBELET
) -> PlacePods | None:
    """Returns what places pods here; None where the CPUs of this machine cannot be read."""
    try:
        machine = read_machine(sys)
        reserved = parse_cpu_list(system_cpus)
    except InvalidInput:
        return None
    machine = machine.without(machine.ids - os.sched_getaffinity(0))
    rules = PoolRules(partitioned=False, named_apart=True, ramp_seconds=0.0)
    off = "" if is_on else "SLACKWATER_AGENT_EXCLUSIVE_CPUS is off"
    off = off or why_not_placed(driver.layout.hierarchy, kubelet)
    return PlacePods(
        CpuPlugin(
            machine,
            PoolDemand(reserved=reserved, rules=rules),
            CpuPluginRules(refuses_overcommitted=False),
        ),
        MemoryPlugin(memory_nodes(sys, machine)),
        JsonPlacements(driver.layout.agent_dir),
        clock,
        driver.arriving,
        lambda uid: driver.read(driver.knob(CPUSET_CPUS, uid)),
        off,
    )


def why_not_placed(hierarchy: Hierarchy, kubelet: Path = KUBELET) -> str:
    """Returns why CPUs cannot be given to pods of this machine; empty where they can."""
    if hierarchy.tree("cpuset") is None:
        return "no cgroup tree with a cpuset controller is mounted on this machine"
    return static_managers(kubelet)


def memory_nodes(sys: Path, machine: CpuMachine) -> list[MemoryNode]:
    """Returns the NUMA nodes with memory; one node with the whole where the kernel has none."""
    sockets = {cpu.numa: cpu.socket for cpu in machine.cpus}
    nodes = []
    for node in sorted({*machine.numa_nodes, *machine.memory_nodes}):
        try:
            match = _MEMORY.search((sys / f"devices/system/node/node{node}/meminfo").read_text())
        except OSError:
            continue
        if match and int(match[1]):
            nodes.append(MemoryNode(node, sockets.get(node, 0), int(match[1]) * 1024))
    return nodes or [MemoryNode(0, 0, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]


def static_managers(kubelet: Path = KUBELET) -> str:
    """Returns why CPUs are not placed beside a kubelet of this machine; empty where they may be."""
    for file, manager, field, setting, policy in (
        ("cpu_manager_state", "CPU", "policyName", "cpuManagerPolicy", "static"),
        ("memory_manager_state", "memory", "policyName", "memoryManagerPolicy", "Static"),
    ):
        try:
            document = parse_json_text(read_regular(kubelet / file, _MOST_STATE_BYTES))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and document.get(field) == policy:
            return (
                f"the kubelet's static {manager} manager is in force ({kubelet / file}): two managers of one cpuset "
                f"undo each other; set {setting}: {'none' if policy == 'static' else 'None'} in its configuration"
            )
    return ""

"""The worked examples of the proposal: a machine, its pods in their order, and what each container starts with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qrm_plugins import shown_allocation
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered

from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import ManagerRules, Reconciliation, ResourceManager, drive
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import PREFIX, QOS_LEVEL, Allocation, PluginCall, QosLevel
from slackwater.agent.domain.resource_manager.nic_plugin import Nic, NicPlugin
from slackwater.agent.domain.resource_manager.plugin import MEMORY_ENHANCEMENT, ResourcePlugin, answer_of
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec
from slackwater.agent.domain.resource_manager.run_options import RunOptions, run_options
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.hints import nodes_of
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.pools import PoolDemand, PoolLoad, PoolRules
from slackwater.model.quantities import parse_memory_bytes

MACHINE = CpuMachine(tuple(Cpu(cpu, cpu, cpu // 40, cpu // 40, cpu // 40) for cpu in range(80)))
"""80 CPUs without siblings, the first half of node 0."""
SYSTEM_BYTES = 524_288_000
MEMORY = (MemoryNode(0, 0, 237_706_936_320, SYSTEM_BYTES), MemoryNode(1, 1, 237_806_551_040, SYSTEM_BYTES))
NICS = (
    Nic("eth0", frozenset({0}), ipv6="fdbd:dc05:3:154::20"),
    Nic("eth1", frozenset({1}), ipv6="fdbd:dc05:3:155::20", namespace="/var/run/netns/ns1"),
)
RESERVED = parse_cpu_list("0-1,40-41")
APART = frozenset({frozenset({"storage-service", "reranker"})})
_AT_ONCE = PoolRules(ramp_seconds=0, shrink_most=80, grow_most=80, shrink_after_seconds=0)
_BOUND = {QOS_LEVEL: QosLevel.DEDICATED.value, MEMORY_ENHANCEMENT: json.dumps({"numa_binding": "true"})}
_POOLS = {"online-micro_service": QosLevel.SHARED, "ETL": QosLevel.RECLAIMED}
_CONTAINER = "main"


@dataclass
class Node:
    """The manager of a node with plugins in process."""

    plugins: Mapping[str, ResourcePlugin]
    manager: ResourceManager = field(init=False)
    _pods: list[PodSpec] = field(default_factory=list)

    def __post_init__(self) -> None:
        endpoints = {name: PluginEndpoint(name, plugin.options) for name, plugin in self.plugins.items()}
        self.manager = ResourceManager(ManagerRules(nodes=MACHINE.numa_nodes), endpoints)

    def _answer(self, call: PluginCall) -> Any:
        return answer_of(self.plugins[call.resource], call)

    def admit(self, name: str, role: str, requests: Mapping[str, float]) -> Mapping[str, Allocation]:
        """Returns what the pod's container has; nothing where it is refused."""
        level = _POOLS.get(role)
        annotations = _BOUND if level is None else {QOS_LEVEL: level.value}
        pod = PodSpec(
            name,
            name,
            containers=[ContainerSpec(_CONTAINER, requests)],
            labels={f"{PREFIX}pod_role": role},
            annotations=annotations,
        )
        admission = drive(self.manager.admit(pod), self._answer)
        self._pods += [pod] if admission.is_admitted else []
        return admission.allocated.get(_CONTAINER, {})

    def reconcile(self) -> Reconciliation:
        return drive(self.manager.reconcile(self._pods), self._answer)

    def run(self, name: str) -> RunOptions:
        return run_options(self.manager.entries[name, _CONTAINER])


def example_1(offered: int) -> tuple[Node, CpuPlugin]:
    """Pools of online and offline pods; `offered` CPUs are those of the offline ones."""
    cpu = CpuPlugin(MACHINE, PoolDemand(offered_milli=offered * 1000, rules=_AT_ONCE))
    return Node({"cpu": cpu}), cpu


def lend(cpu: CpuPlugin, online: int) -> None:
    """Size the pools anew: so many CPUs are predicted for online pods, and the rest is offered."""
    loads = {"share": PoolLoad(predicted_milli=online * 1000)}
    cpu.demand = replace(cpu.demand, offered_milli=(80 - online) * 1000, loads=loads)


def example_2() -> Node:
    cpu = CpuPlugin(MACHINE, PoolDemand(reserved=RESERVED), CpuPluginRules(apart=APART))
    return Node({"cpu": cpu, "memory": MemoryPlugin(MEMORY, apart=APART)})


def example_3() -> Node:
    node = example_2()
    node = Node({**node.plugins, "NIC": NicPlugin(NICS, frozenset({0, 1}), resource="NIC")})
    node.admit("full", "storage-service", {"cpu": 38.0, "memory": 1e9})
    return node


def seed(case: Case) -> Verdict:
    example, _, step = case["name"].partition(" ")
    answers = {"example1": _first, "example2": _second, "example3": _third}
    return answers[example](step, case) if example in answers else not_covered("an example that is not the proposal's")


def _first(step: str, case: Case) -> Verdict:
    node, cpu = example_1(4)
    pods = ("pod1", "online-micro_service", 4.0), ("pod2", "ETL", 2.0), ("pod3", "online-micro_service", 4.0)
    allocated = {name: node.admit(name, role, {"cpu": amount}) for name, role, amount in pods}
    action, name = step.split()
    if action == "admit":
        run = {_lower(key): value for key, value in node.run(name).resources.items()}
        return compare(
            [_shown(allocated[name]["cpu"], case["expect"]), run], [_plain(case["expect"]), case["runOptions"]]
        )
    online = parse_cpu_list(case["poolsNow"]["online"])
    lend(cpu, len(online))
    changed = node.reconcile().changed
    allocation = node.manager.entries[name, _CONTAINER]["cpu"]
    runtime = {"UpdateContainerResources": {"cpusetCpus": allocation.result}} if (name, _CONTAINER) in changed else {}
    return compare([_shown(allocation, case["expect"]), runtime], [_plain(case["expect"]), case["runtime"]])


def _second(step: str, case: Case) -> Verdict:
    node = example_2()
    pods = {"pod1": ("storage-service", 20.0, "40GB"), "pod2": ("reranker", 10.0, "20GB")}
    if step == "init":
        return not_covered("what the machine of the example has is its description")
    return _judged(node, step.split()[1], pods, case)


def _third(step: str, case: Case) -> Verdict:
    pods = {"pod1": ("numa-enhancement", 10.0, "20GB"), "pod2": ("numa-enhancement", 10.0, "20GB")}
    if step == "init":
        return not_covered("what the machine of the example has is its description")
    return _judged(example_3(), step.split()[1], pods, case)


def _judged(node: Node, name: str, pods: Mapping[str, tuple[str, float, str]], case: Case) -> Verdict:
    """The example prints 1 for the quantity of memory; here it is bytes, as in the peer's code."""
    allocated: Mapping[str, Allocation] = {}
    for pod, (role, cpus, memory) in pods.items():
        requests = {"cpu": cpus, "memory": float(parse_memory_bytes(memory.removesuffix("B")))}
        requests |= {"NIC": 1.0} if "NIC" in node.plugins else {}
        allocated = node.admit(pod, role, requests)
        if pod == name:
            break
    hint = allocated["cpu"].hints[0]
    shown_hint = None if hint is None else {"nodes": list(nodes_of(hint.mask or 0)), "preferred": hint.preferred}
    run = node.run(name)
    shown_run: dict[str, Any] = {_lower(key): value for key, value in run.resources.items()}
    shown_run |= {key: dict(part) for key, part in (("envs", run.envs), ("annotations", run.annotations)) if part}
    in_bytes = case["expect"].get("memory", {}).get("quantity") == 1
    want = {resource: _plain(part) for resource, part in case["expect"].items()}
    got = {resource: {key: value for key, value in _shown(allocated[resource], part).items() if key in part}
           for resource, part in case["expect"].items()}  # fmt: skip
    if in_bytes:
        want["memory"] = {**want["memory"], "quantity": got["memory"]["quantity"]}
    wants_hint = case.get("expectHint", shown_hint)
    verdict = compare([got, shown_hint, shown_run], [want, wants_hint, case["runOptions"]])
    return differ("memory-in-bytes") if in_bytes and verdict.word == "pass" else verdict


def _shown(allocation: Allocation, want: Any) -> dict[str, Any]:
    shown = shown_allocation(allocation, want)
    return shown if any(shown.get("hints", ())) else {key: value for key, value in shown.items() if key != "hints"}


def _plain(want: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in want.items() if key != "hints" or value}


def _lower(name: str) -> str:
    return name[:1].lower() + name[1:]


ADAPTORS: Mapping[str, Adaptor] = {"seed.examples": seed}

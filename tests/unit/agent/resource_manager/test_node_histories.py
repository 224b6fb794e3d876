"""Histories of a node with its own plugins: pods come, go, grow and restart; the process is killed at any step."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slackwater.agent.domain.resource_manager.checkpoint import checkpoint_text, entries_of
from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import ManagerRules, PluginCalls, ResourceManager, drive
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import QOS_LEVEL, PluginCall, QosLevel
from slackwater.agent.domain.resource_manager.plugin import MEMORY_ENHANCEMENT, ResourcePlugin, answer_of
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.pools import PoolDemand

MACHINE = CpuMachine(tuple(Cpu(cpu, cpu % 8, cpu % 8 // 2, cpu % 8 // 2, cpu % 8 // 4) for cpu in range(16)))
"""Four NUMA nodes of two cores with two threads."""
RESERVED = frozenset({0, 8})
_BYTES = 1000


class _Killed(Exception):
    """The process ends within an operation."""


class NodeHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pods: dict[str, PodSpec] = {}
        self.file = checkpoint_text({})
        self._start()

    def _start(self) -> None:
        """A new process: pods that run are admitted again by what the checkpoint has of them."""
        self.cpu = CpuPlugin(MACHINE, PoolDemand(reserved=RESERVED), CpuPluginRules(refuses_overcommitted=False))
        self.cpu.now = self.now
        self.memory = MemoryPlugin([MemoryNode(node, node // 2, _BYTES) for node in range(4)])
        self.plugins: dict[str, ResourcePlugin] = {"cpu": self.cpu, "memory": self.memory}
        endpoints = {name: PluginEndpoint(name, plugin.options) for name, plugin in self.plugins.items()}
        self.manager = ResourceManager(ManagerRules(nodes=MACHINE.numa_nodes), endpoints)
        self.manager.load(entries_of(self.file))
        for pod in self.pods.values():
            for container in pod.containers:
                for name, allocation in self.manager.entries.get((pod.uid, container.name), {}).items():
                    request = pod.request_of(container, name, {name: container.requests[name]})
                    self.plugins[name].adopt(request, allocation)

    def _run(self, calls: PluginCalls[Any], killed_at: int | None) -> Any:
        """The result; None where the process was killed at a call."""
        asked = 0

        def answer(call: PluginCall) -> Any:
            nonlocal asked
            if asked == killed_at:
                raise _Killed
            asked += 1
            return answer_of(self.plugins[call.resource], call)

        try:
            result = drive(calls, answer)
        except _Killed:
            self._start()
            return None
        self.file = checkpoint_text(self.manager.entries)
        return result

    @rule(
        uid=st.sampled_from("abcdef"),
        level=st.sampled_from(QosLevel),
        cpus=st.integers(1, 5),
        memory=st.integers(1, 1500),
        wishes=st.fixed_dictionaries({}, optional={"numa_binding": st.just("true"), "numa_exclusive": st.just("true")}),
        sidecar=st.booleans(),
        killed_at=st.none() | st.integers(0, 5),
    )
    def admit(
        self,
        uid: str,
        level: QosLevel,
        cpus: int,
        memory: int,
        wishes: dict[str, str],
        sidecar: bool,
        killed_at: int | None,
    ) -> None:
        if uid in self.pods:
            return
        requests = {"cpu": float(cpus), "memory": float(memory)}
        pod = PodSpec(
            uid,
            uid,
            containers=[ContainerSpec(name, requests) for name in ("main", "side")[: 1 + sidecar]],
            annotations={QOS_LEVEL: level.value, MEMORY_ENHANCEMENT: json.dumps(wishes)},
        )
        before = self.cpu.plan().assignments
        admission = self._run(self.manager.admit(pod), killed_at)
        if admission is not None and admission.is_admitted:
            self.pods[uid] = pod
        else:
            assert self.cpu.plan().assignments.keys() == before.keys(), "a refused pod leaves nothing"

    @rule(uid=st.sampled_from("abcdef"), killed_at=st.none() | st.integers(0, 3))
    def end(self, uid: str, killed_at: int | None) -> None:
        if self.pods.pop(uid, None) is not None:
            self._run(self.manager.release(uid), killed_at)

    @rule(seconds=st.sampled_from([1, 40]), killed_at=st.none() | st.integers(0, 5))
    def reconcile(self, seconds: int, killed_at: int | None) -> None:
        self.now += seconds
        self.cpu.now = self.now
        self._run(self.manager.reconcile(list(self.pods.values())), killed_at)

    @rule()
    def restart(self) -> None:
        before = {key: spec.cpus for key, spec in self.cpu.holders.items() if key[0] in self.pods}
        self._start()
        after = {key: spec.cpus for key, spec in self.cpu.holders.items()}
        assert after.items() >= before.items(), "a restart moves no dedicated container"

    @invariant()
    def exclusive_cpus_are_exclusive_and_reserved_ones_reserved(self) -> None:
        owners: dict[int, tuple[str, str]] = {}
        for key, spec in self.cpu.holders.items():
            for cpu in spec.cpus:
                assert cpu not in RESERVED
                assert owners.setdefault(cpu, key) == key
        for (uid, _), allocated in self.cpu.allocations().items():
            cpus = parse_cpu_list(allocated["cpu"].result)
            assert cpus, "an empty cpuset is every CPU"
            assert all(owners.get(cpu, (uid, ""))[0] == uid for cpu in cpus)

    @invariant()
    def sums_stay_within_the_numa_nodes(self) -> None:
        dedicated = (QosLevel.DEDICATED, QosLevel.SHARED)
        for node in range(4):
            held_there = sum(
                held.by_node.get(node, 0.0) for held in self.memory._held.values() if held.request.level in dedicated
            )
            assert held_there <= _BYTES + 1e-6


TestNodeHistories = NodeHistory.TestCase
TestNodeHistories.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)

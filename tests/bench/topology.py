"""The resource manager on large machines: admission of a pod, the merge of hints, and a reconciliation of all pods."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.bench.figures import spread
from tests.bench.verdict import Scale, Target

from slackwater.agent.domain.resource_manager.cpu_plugin import CpuPlugin, CpuPluginRules
from slackwater.agent.domain.resource_manager.endpoints import PluginEndpoint
from slackwater.agent.domain.resource_manager.manager import ManagerRules, ResourceManager, drive
from slackwater.agent.domain.resource_manager.memory_plugin import MemoryNode, MemoryPlugin
from slackwater.agent.domain.resource_manager.messages import QOS_LEVEL, PluginCall, QosLevel
from slackwater.agent.domain.resource_manager.plugin import MEMORY_ENHANCEMENT, ResourcePlugin, answer_of
from slackwater.agent.domain.resource_manager.pods import ContainerSpec, PodSpec
from slackwater.kernels.topology.hints import Hint, Provided
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.merge import MergePolicy, merge
from slackwater.kernels.topology.pools import PoolDemand, PoolRules
from slackwater.runtime.gc_tuning import tune_gc

CPUS, NODES, PODS, GRACE_NODES, PROVIDERS = 256, 8, 250, 34, 5
ADMISSION_MS, MERGE_MS, RECONCILE_MS = 5.0, 10.0, 20.0
_ROUNDS = 30


def machine() -> CpuMachine:
    """256 CPUs: 128 cores with two threads, in 8 NUMA nodes of two sockets, a cache for each 8 cores."""
    cores = CPUS // 2
    return CpuMachine(
        tuple(
            Cpu(cpu, cpu % cores, cpu % cores // 8, cpu % cores * NODES // cores, cpu % cores * 2 // cores)
            for cpu in range(CPUS)
        )
    )


def node() -> tuple[ResourceManager, CpuPlugin, Callable[[PluginCall], Any]]:
    cpu = CpuPlugin(
        machine(), PoolDemand(rules=PoolRules(partitioned=False)), CpuPluginRules(refuses_overcommitted=False)
    )
    memory = MemoryPlugin([MemoryNode(number, number // 4, 64 << 30) for number in range(NODES)])
    plugins: dict[str, ResourcePlugin] = {"cpu": cpu, "memory": memory}
    endpoints = {name: PluginEndpoint(name, plugin.options) for name, plugin in plugins.items()}
    manager = ResourceManager(ManagerRules(cpu.machine.numa_nodes, MergePolicy.RESTRICTED), endpoints)
    return manager, cpu, lambda call: answer_of(plugins[call.resource], call)


def pod(number: int, level: QosLevel) -> PodSpec:
    wishes = {"numa_binding": "true"} if level is QosLevel.DEDICATED else {}
    annotations = {QOS_LEVEL: level.value, MEMORY_ENHANCEMENT: json.dumps(wishes)}
    containers = [ContainerSpec("main", {"cpu": 2.0, "memory": float(1 << 30)})]
    return PodSpec(f"pod-{number}", f"pod-{number}", containers=containers, annotations=annotations)


def measure() -> dict[str, Any]:
    """Milliseconds of each operation, on a node that is full of pods: a sixth of them dedicated."""
    tune_gc()
    manager, cpu, answer = node()
    levels = (QosLevel.DEDICATED, *(QosLevel.SHARED, QosLevel.RECLAIMED) * 2, QosLevel.SHARED)
    pods = [pod(number, levels[number % len(levels)]) for number in range(PODS - 1)]
    for spec in pods:
        if not drive(manager.admit(spec), answer).is_admitted:
            raise RuntimeError(f"{spec.uid} was not admitted")
    newest = pod(PODS, QosLevel.DEDICATED)
    admissions, reconciliations, merges = list[float](), list[float](), list[float]()
    for round_ in range(_ROUNDS):
        cpu.now = 100.0 + round_
        admissions.append(_milliseconds(lambda: drive(manager.admit(newest), answer)))
        reconciliations.append(_milliseconds(lambda: drive(manager.reconcile([*pods, newest]), answer)))
        drive(manager.release(newest.uid), answer)
        merges.append(_milliseconds(lambda: merge(MergePolicy.RESTRICTED, range(GRACE_NODES), _providers())))
    measured = {
        "admission_milliseconds": spread(admissions),
        "merge_milliseconds": spread(merges),
        "reconciliation_milliseconds": spread(reconciliations),
    }
    limits = zip(measured.items(), (ADMISSION_MS, MERGE_MS, RECONCILE_MS), strict=True)
    return measured | {
        "machine": f"{CPUS} CPUs, {NODES} NUMA nodes, {PODS} pods",
        "targets": tuple(
            Target(f"{name.removesuffix('_milliseconds')} p50", found["p50"], limit, "ms", Scale.TIME)
            for (name, found), limit in limits
        ),
    }


def _providers() -> list[Provided]:
    """Each resource on any single node, as 34 nodes have it; one of them also on pairs of neighbours."""
    single = [Hint(1 << number, preferred=True) for number in range(GRACE_NODES)]
    pairs = [Hint(3 << first, preferred=False) for first in range(GRACE_NODES - 1)]
    return [{f"resource-{number}": [*single, *(pairs if number == 0 else ())]} for number in range(PROVIDERS)]


def _milliseconds(operation: Callable[[], object]) -> float:
    begun = time.perf_counter()
    operation()
    return (time.perf_counter() - begun) * 1000

"""Suites of hints for containers that are bound to NUMA nodes in qrm.json. What decides without binding is the
manager, which is not built yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shapes import bounded
from verdicts import Adaptor, Case, Verdict, compare, not_covered

from slackwater.kernels.topology.allocate_by_cache import allocate_in_turn
from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.hints import Hint, nodes_of
from slackwater.kernels.topology.machine import Cpu, CpuMachine, UnitLevel
from slackwater.kernels.topology.numa_hints import NodeAmounts, NumaRequest, numa_hints
from slackwater.model.errors import SlackwaterError

_MANAGER = "the manager that decides which containers are bound, and its pools, are not built yet: issue 46"
_RESERVED = 2
_NODES, _NODE_BYTES, _NODE_RESERVED = 4, 8 << 30, 1 << 30
_ANNOTATION = "katalyst.kubewharf.io/"


def cpu_hints(case: Case) -> Verdict:
    options = case.get("opts") or {}
    if not _is_dedicated(case, options):
        return not_covered(_MANAGER)
    machine = _machine(case["topo"])
    entries = case.get("podEntries") or ()
    if any(entry.get("pool") != "dedicated" for entry in entries):
        return not_covered(_MANAGER)
    held = frozenset(cpu for entry in entries for cpu in parse_cpu_list(entry["cpus"]))
    reserved = allocate_in_turn(machine, machine.ids, _RESERVED)
    free = machine.ids - reserved - held
    cores = machine.units(UnitLevel.CORE)
    nodes = []
    for node, cpus in sorted(machine.units(UnitLevel.NUMA).items()):
        whole = sum(core <= free for core in cores.values() if core <= cpus)
        socket = machine.by_id[min(cpus)].socket
        nodes.append(NodeAmounts(node, socket, len(cpus), len(cpus & free), whole, busy=bool(cpus & held)))
    socket_cpus = machine.nominal_size(UnitLevel.SOCKET)
    return _judged(case, nodes, _request(case, options, machine.nominal_size(UnitLevel.CORE), socket_cpus))


def memory_hints(case: Case) -> Verdict:
    options = case.get("opts") or {}
    if not _is_dedicated(case, options):
        return not_covered(_MANAGER)
    free = _NODE_BYTES - _NODE_RESERVED
    nodes = [NodeAmounts(node, node * 2 // _NODES, _NODE_BYTES, free) for node in range(_NODES)]
    return _judged(case, nodes, _request(case, options, 1, 0))


def _judged(case: Case, nodes: Sequence[NodeAmounts], request: NumaRequest) -> Verdict:
    want = case["expect"]
    try:
        got: Any = sorted(map(_shown, numa_hints(nodes, request)))
    except SlackwaterError:
        got = "error"
    return compare(got, sorted((hint["nodes"], hint["preferred"]) for hint in want) if want != "error" else want)


def _is_dedicated(case: Case, options: Mapping[str, Any]) -> bool:
    request = case["req"]
    annotations = request.get("annotations") or {}
    enhanced = _enhancement(request, "memory_enhancement", options)
    return (
        request.get("type") == "MAIN"
        and annotations.get(f"{_ANNOTATION}qos_level") == "dedicated_cores"
        and enhanced.get("numa_binding") == "true"
    )


def _request(case: Case, options: Mapping[str, Any], threads: int, socket_cpus: int) -> NumaRequest:
    request = case["req"]
    memory = _enhancement(request, "memory_enhancement", options)
    cpu = _enhancement(request, "cpu_enhancement", options)
    count = cpu.get(options.get("numaNumberKey", f"{_ANNOTATION}numa_number"))
    nodes = cpu.get(options.get("numaIDsKey", f"{_ANNOTATION}numa_ids"))
    return NumaRequest(
        amount=request["request"],
        exclusive=memory.get("numa_exclusive") == "true",
        evenly=cpu.get("distribute_evenly_across_numa") == "true",
        whole_cores=threads if cpu.get("full_pcpus_pairing") == "true" else None,
        node_count=None if count is None else int(count),
        nodes=parse_cpu_list(nodes or ""),
        socket_cpus=socket_cpus if cpu.get("align_by_socket") == "true" else None,
    )


def _enhancement(request: Mapping[str, Any], name: str, options: Mapping[str, Any]) -> dict[str, str]:
    text = (request.get("annotations") or {}).get(f"{_ANNOTATION}{name}")
    defaults = options.get("enhancementDefaults") or {} if name == "memory_enhancement" else {}
    return {**defaults, **(json.loads(text) if text else {})}


def _shown(hint: Hint) -> tuple[list[int], bool]:
    return list(nodes_of(hint.mask or 0)), hint.preferred


def _machine(size: Sequence[int]) -> CpuMachine:
    """Two threads of a core, half a machine apart; a cache for each NUMA node."""
    cpus, sockets, nodes = size
    cores = cpus // 2
    return CpuMachine(
        tuple(
            Cpu(
                cpu,
                cpu % cores,
                cpu % cores * nodes // cores,
                cpu % cores * nodes // cores,
                cpu % cores * sockets // cores,
            )
            for cpu in range(bounded(cpus))
        )
    )


ADAPTORS: Mapping[str, Adaptor] = {"katalyst.cpu.hints": cpu_hints, "katalyst.memory.hints": memory_hints}

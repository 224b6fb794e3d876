"""Suites of pool sizes and NUMA counts in qrm.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from verdicts import Adaptor, Case, Verdict, compare, not_covered

from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.pool_sizes import (
    NodesNeeded,
    cpus_needed,
    fit_pools,
    nodes_for_cpus,
    nodes_for_memory,
    overlap_by_pool,
    overlap_ratio,
)
from slackwater.model.errors import Conflict, InvalidInput


def nodes(case: Case) -> Verdict:
    found = _or_none(lambda: nodes_for_cpus(case["request"], case["cpus"], case["numas"]))
    return compare(found and _shown(found, "cpusPerNuma"), case["expect"])


def memory_nodes(case: Case) -> Verdict:
    found = _or_none(lambda: nodes_for_memory(case["request"], case["bytesPerNuma"], case["numas"]))
    return compare(found and _shown(found, "bytesPerNuma"), case["expect"])


def pools(case: Case) -> Verdict:
    wanted = {**case["pools"], **case["isolated"]}
    return compare(
        fit_pools(wanted, case["available"], expand=not case["enableReclaim"] or case["overlap"]), case["expect"]
    )


def overlap(case: Case) -> Verdict:
    return compare(_or_none(lambda: overlap_by_pool(case["pools"], case["required"])), case["expect"])


def needed(case: Case) -> Verdict:
    return compare(cpus_needed(case["addends"]), case["expect"])


def ratio(case: Case) -> Verdict:
    if case.get("rampUp") is not None:
        return not_covered("a container that ramps up is on all shared CPUs here, and in no ratio")
    found = _or_none(lambda: overlap_ratio(parse_cpu_list(case["reclaim"]), parse_cpu_list(case["share"] or "")))
    return compare(None if found is None else {"share": found}, case["expect"], relative=1e-9)


def _or_none(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except (Conflict, InvalidInput):
        return None


def _shown(found: NodesNeeded, name: str) -> dict[str, int]:
    return {"numas": found.nodes, name: found.per_node}


ADAPTORS: Mapping[str, Adaptor] = {
    "katalyst.numaCountForCPU": nodes,
    "katalyst.numaCountForMemory": memory_nodes,
    "katalyst.regulatePoolSizes": pools,
    "katalyst.regulateOverlapReclaimPoolSize": overlap,
    "katalyst.cpuPreciseCeil": needed,
    "katalyst.reclaimOverlapShareRatio": ratio,
}

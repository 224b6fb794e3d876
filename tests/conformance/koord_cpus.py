"""Suites of CPU binding in koord_quota_sched.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shapes import bounded
from verdicts import Adaptor, Case, Verdict, compare, differ

from slackwater.kernels.topology.allocate_by_policy import (
    BindPolicy,
    CpuHolder,
    CpuRequest,
    Exclusive,
    Holdings,
    NodeOrder,
    allocate_by_policy,
)
from slackwater.kernels.topology.machine import Cpu, CpuMachine, UnitLevel
from slackwater.model.errors import Conflict


def cpus(case: Case) -> Verdict:
    given = case["given"]
    held = frozenset(given["allocated"])
    holder = CpuHolder(held, Exclusive(given.get("allocated_exclusive_policy", "None")))
    request = CpuRequest(given["num"], BindPolicy(given["bind_policy"]), Exclusive(given["exclusive_policy"]))
    want = case["expect"]
    try:
        got = allocate_by_policy(_holdings(given, (holder,) if held else ()), request)
    except Conflict:
        return compare("refused", "refused" if "error" in want else want)
    if sorted(got) != want.get("cpus") and _shared(given, held, got) < _shared(given, held, want.get("cpus", ())):
        return differ("exclusive-before-near")
    return compare(sorted(got), want.get("cpus"))


def _shared(given: Mapping[str, Any], held: frozenset[int], cpus: Iterable[int]) -> int:
    """CPUs on a core, or NUMA node, of a holder that is exclusive in the same way, and further threads of a core."""
    if given["exclusive_policy"] == "None":
        return 0
    level = UnitLevel.NUMA if given["exclusive_policy"] == "NUMANodeLevel" else UnitLevel.CORE
    machine = _machine(given["topology"])
    units = [machine.by_id[cpu].at(level) for cpu in cpus]
    same = given.get("allocated_exclusive_policy", "None") == given["exclusive_policy"]
    avoided = {machine.by_id[cpu].at(level) for cpu in held} if same else set()
    further = len(units) - len(set(units)) if level is UnitLevel.CORE else 0
    return sum(unit in avoided for unit in units) + further


def sequence(case: Case) -> Verdict:
    given = case["given"]
    recorded = Exclusive(given["recorded_exclusive_policy"])
    holders: list[CpuHolder] = []
    found, wanted = [], []
    for step in case["steps"]:
        request = CpuRequest(step["num"], BindPolicy(step["bind_policy"]), Exclusive(given["exclusive_policy"]))
        got = allocate_by_policy(_holdings(given, tuple(holders)), request)
        holders.append(CpuHolder(got, recorded))
        found.append(sorted(got))
        wanted.append(step["expect"])
    return compare(found, wanted)


def _holdings(given: Mapping[str, Any], holders: tuple[CpuHolder, ...]) -> Holdings:
    return Holdings(_machine(given["topology"]), holders, NodeOrder(given["numa_strategy"]), given["max_ref_count"])


def _machine(topology: Mapping[str, int]) -> CpuMachine:
    """Threads of a core have ids one after the other."""
    threads, cores, nodes = topology["cpus_per_core"], topology["cores_per_numa"], topology["numa_per_socket"]
    return CpuMachine(
        tuple(
            Cpu(cpu, core, core // cores, core // cores, core // cores // nodes)
            for core in range(bounded(topology["sockets"] * nodes * cores))
            for cpu in range(threads * core, threads * core + threads)
        )
    )


ADAPTORS: Mapping[str, Adaptor] = {"numa.take_cpus": cpus, "numa.take_cpus_sequence": sequence}

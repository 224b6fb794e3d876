"""What a plan of CPUs is made from, as a value and as JSON: a recorded plan can be made again from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list
from slackwater.kernels.topology.machine import Cpu, CpuMachine
from slackwater.kernels.topology.plan import plan
from slackwater.kernels.topology.pools import (
    CpuPlan,
    HolderKind,
    HolderSpec,
    PoolDemand,
    PoolInForce,
    PoolLoad,
    PoolRules,
)

_USUAL = {
    item.name: item.default
    for item in fields(HolderSpec)
    if item.default is not MISSING and item.name not in ("cpus", "nodes")
}
FUNCTION = "slackwater.kernels.topology.plan_replay:replay"


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """The arguments of `plan`."""

    machine: CpuMachine
    holders: Sequence[HolderSpec]
    demand: PoolDemand
    now: float

    def plan(self) -> CpuPlan:
        return plan(self.machine, self.holders, self.demand, self.now)


def shared_cpus(basis: PlanBasis, planned: CpuPlan) -> frozenset[int]:
    """Returns the CPUs that more than one container may have: not reserved, not forbidden, not dedicated."""
    dedicated = {holder.key for holder in basis.holders if holder.kind is HolderKind.DEDICATED}
    held = frozenset(cpu for key in dedicated for cpu in planned.assignments.get(key, ()))
    return basis.machine.ids - basis.demand.reserved - basis.demand.forbidden - held


def replay(**arguments: Any) -> int:
    """Returns the number of shared CPUs of a plan that is made again from its record."""
    basis = basis_of(arguments)
    return len(shared_cpus(basis, basis.plan()))


def basis_document(basis: PlanBasis) -> dict[str, Any]:
    """Returns the JSON of a basis. Fields of a holder with their default are left out."""
    demand = basis.demand
    return {
        "machine": [[cpu.id, cpu.core, cpu.cache, cpu.numa, cpu.socket] for cpu in basis.machine.cpus],
        "holders": [_holder_document(holder) for holder in sorted(basis.holders, key=lambda holder: holder.key)],
        "demand": {
            "reserved": cpu_list_text(demand.reserved),
            "forbidden": cpu_list_text(demand.forbidden),
            "offered_milli": demand.offered_milli,
            "loads": {pool: asdict(load) for pool, load in sorted(demand.loads.items())},
            "in_force": {
                pool: {"cpus": cpu_list_text(held.cpus), "changed_at": held.changed_at}
                for pool, held in sorted(demand.in_force.items())
            },
            "rules": asdict(demand.rules),
        },
        "now": basis.now,
    }


def basis_of(document: Mapping[str, Any]) -> PlanBasis:
    """Returns the basis of its JSON. Raises KeyError, TypeError, ValueError or InvalidInput for what is none."""
    demand = document["demand"]
    return PlanBasis(
        CpuMachine(tuple(Cpu(*ids) for ids in document["machine"])),
        [_holder(holder) for holder in document["holders"]],
        PoolDemand(
            parse_cpu_list(demand["reserved"]),
            parse_cpu_list(demand["forbidden"]),
            demand["offered_milli"],
            {pool: PoolLoad(**load) for pool, load in demand["loads"].items()},
            {
                pool: PoolInForce(parse_cpu_list(held["cpus"]), held["changed_at"])
                for pool, held in demand["in_force"].items()
            },
            PoolRules(**demand["rules"]),
        ),
        float(document["now"]),
    )


def _holder_document(holder: HolderSpec) -> dict[str, Any]:
    document: dict[str, Any] = {"key": holder.key, "kind": holder.kind.value, "cpu_milli": holder.cpu_milli}
    document |= {name: getattr(holder, name) for name, usual in _USUAL.items() if getattr(holder, name) != usual}
    sets = {"cpus": holder.cpus, "nodes": holder.nodes}
    return document | {name: cpu_list_text(ids) for name, ids in sets.items() if ids}


def _holder(document: Mapping[str, Any]) -> HolderSpec:
    sets = {name: parse_cpu_list(document.get(name, "")) for name in ("cpus", "nodes")}
    return HolderSpec(**{**document, "kind": HolderKind(document["kind"]), **sets})

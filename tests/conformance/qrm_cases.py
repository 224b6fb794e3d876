"""Cases of qrm.json with what their file says in another place: topologies, distances of a group, inputs of a twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from verdicts import Case

from slackwater.kernels.topology.cpu_list import parse_cpu_list
from slackwater.kernels.topology.machine import Cpu, CpuMachine

_INPUTS_OF = {"merge.restricted": "merge.best-effort"}
"""Groups whose cases give only the verdict; the inputs are those of the case with the same name and line."""


def whole(document: Mapping[str, Any], part: Mapping[str, Any], case: Case) -> Case:
    """A case with everything that it needs; as it is in a file without topologies."""
    if "topologies" not in document or not isinstance(case, Mapping):
        return case
    found: dict[str, Any] = {"distances": part["distances"]} if "distances" in part else {}
    twin = _INPUTS_OF.get(str(part.get("kind")))
    if twin is not None and "providers" not in case:
        found |= next(_named(document, twin, case), {})
    topology = document["topologies"].get(case["topo"]) if isinstance(case.get("topo"), str) else None
    return {**found, **case, **({"machine": topology} if topology is not None else {})}


def _named(document: Mapping[str, Any], kind: str, case: Case) -> Iterator[Mapping[str, Any]]:
    for group in document["groups"]:
        if group.get("kind") == kind:
            for other in group["cases"]:
                if (other.get("name"), other.get("line")) == (case.get("name"), case.get("line")):
                    yield {"providers": other["providers"]}


def machine_of(topology: Mapping[str, Any]) -> CpuMachine:
    """A machine from rows of cpus, NUMA node, socket, core and cache."""
    return CpuMachine(
        tuple(
            Cpu(cpu, core, cache, numa, socket)
            for cpus, numa, socket, core, cache in topology["cores"]
            for cpu in sorted(parse_cpu_list(cpus))
        )
    )

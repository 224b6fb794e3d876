"""Spreads CPUs evenly over NUMA nodes (option distribute-cpus-across-numa of the kubelet's static policy).

The smallest number of nodes that can share evenly is used, and of these the ones after which the free CPUs of all nodes
are most even. Facts: qos-resource-manager, section 4. Two defects of the peer are mended: the chosen nodes are kept
by value (kubernetes #141237), and what remains is counted in whole groups (#140730).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

from slackwater.kernels.topology.allocate import allocate_packed
from slackwater.kernels.topology.free_cpus import FreeCpus, check_enough
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel


@dataclass(frozen=True, slots=True)
class Split:
    """`share` CPUs from each of `nodes`, then a group at a time from `rest` in turn. Less `imbalance` is better."""

    nodes: tuple[int, ...]
    share: int
    rest: tuple[int, ...]
    imbalance: float


def allocate_distributed(
    machine: CpuMachine, free: Set[int], count: int, *, group: int = 1, spread: bool = False
) -> frozenset[int]:
    """Returns `count` of the free CPUs, in groups of `group` (1, or the threads of a core), evenly over NUMA nodes;
    packed where the count is no multiple of the group or no nodes can share. Raises Conflict for too many.
    """
    cpus = FreeCpus(machine, free)
    check_enough(count, cpus.free)
    if count == 0 or count % group:
        return allocate_packed(machine, free, count, spread=spread)
    nodes = cpus.numa_nodes()
    sizes = {node: len(cpus.in_unit(UnitLevel.NUMA, node)) for node in nodes}
    for width in range(_fewest_nodes(machine, count, group), min(count // group, len(nodes)) + 1):
        best = best_split(sizes, nodes, width, count, group)
        if best is not None:
            return _apply(cpus, best, count, group, spread=spread)
    return allocate_packed(machine, free, count, spread=spread)


def best_split(sizes: Mapping[int, int], nodes: Sequence[int], width: int, count: int, group: int) -> Split | None:
    """Returns the most even split over `width` of the nodes, whose free CPUs are `sizes`; the first of equal ones."""
    best: Split | None = None
    share = count // width // group * group
    for chosen in combinations(nodes, width):
        if best is not None and best.imbalance == 0:
            break
        groups = sum(sizes[node] // group for node in chosen)
        if groups * group < count or any(sizes[node] < share for node in chosen):
            continue
        split = _with_rest(sizes, chosen, share, count, group)
        if split is not None and (best is None or split.imbalance < best.imbalance):
            best = split
    return best


def _with_rest(sizes: Mapping[int, int], chosen: tuple[int, ...], share: int, count: int, group: int) -> Split | None:
    """The split over these nodes: the rest from the most of them that keeps all nodes most even."""
    after = {node: size - share * (node in chosen) for node, size in sizes.items()}
    rest = count - share * len(chosen)
    if rest == 0:
        return Split(chosen, share, (), _deviation(after.values()))
    able = [node for node in chosen if after[node] >= group]
    best: Split | None = None
    for width in range(len(able), 0, -1):
        for subset in combinations(able, width):
            if sum(after[node] // group for node in subset) * group < rest:
                continue
            imbalance = _deviation(_handed_out(after, subset, rest, group).values())
            if best is None or imbalance < best.imbalance:
                best = Split(chosen, share, subset, imbalance)
    return best


def _handed_out(after: Mapping[int, int], subset: Sequence[int], rest: int, group: int) -> dict[int, int]:
    """Free CPUs after the rest was handed out to a subset, a group at a time in turn."""
    left = dict(after)
    while rest > 0:
        for node in subset:
            if rest > 0 and left[node] >= group:
                left[node] -= group
                rest -= group
    return left


def _apply(cpus: FreeCpus, split: Split, count: int, group: int, *, spread: bool) -> frozenset[int]:
    for node in split.nodes:
        cpus.allocate(allocate_packed(cpus.machine, cpus.in_unit(UnitLevel.NUMA, node), split.share, spread=spread))
    while len(cpus.allocated) < count:
        for node in split.rest:
            here = cpus.in_unit(UnitLevel.NUMA, node)
            if len(cpus.allocated) < count and len(here) >= group:
                cpus.allocate(allocate_packed(cpus.machine, here, group, spread=spread))
    return frozenset(cpus.allocated)


def _fewest_nodes(machine: CpuMachine, count: int, group: int) -> int:
    """The number of nodes that would hold so many groups if all nodes had the same."""
    groups = math.ceil(len(machine.cpus) / group)
    return math.ceil(count // group / math.ceil(groups / len(machine.numa_nodes)))


def _deviation(values: Iterable[int]) -> float:
    """The population's standard deviation, mean and result with three decimals as the peer compares them."""
    amounts = list(values)
    mean = round(sum(amounts) / len(amounts), 3)
    return round(math.sqrt(sum((value - mean) ** 2 for value in amounts) / len(amounts)), 3)

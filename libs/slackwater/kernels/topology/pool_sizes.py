"""Sizes of CPU pools that share what dedicated containers leave (facts: qos-resource-manager, sections 3.1 and 3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from slackwater.model.errors import Conflict, InvalidInput


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """The fewest NUMA nodes that hold an amount, and what it is on each."""

    nodes: int
    per_node: int


def cpus_needed(requests: Iterable[float]) -> int:
    """Returns the whole CPUs that requests of cores need together. What is below a thousandth is rounding."""
    thousandths = int(sum(requests) * 1000)
    return -(-thousandths // 1000)


def nodes_for_cpus(request: float, cpus: int, nodes: int) -> NodesNeeded:
    """Returns the nodes that a request of cores needs on a machine with so many CPUs. Raises InvalidInput for a machine
    without nodes, Conflict for more than it has.
    """
    return _nodes_needed(request, -(-cpus // nodes) if nodes else 0, nodes)


def nodes_for_memory(request_bytes: int, node_bytes: int, nodes: int) -> NodesNeeded:
    """As `nodes_for_cpus`, for bytes on nodes of `node_bytes`."""
    return _nodes_needed(request_bytes, node_bytes, nodes)


def fit_pools(wanted: Mapping[str, int], available: int, *, expand: bool) -> Mapping[str, int]:
    """Returns the size of each pool: what it wants if all fit, else in proportion and at least 1, as many as there are.
    `expand`: what is left goes to the pools in proportion, too. Where not even one CPU each is there, all share all.
    """
    total = sum(wanted.values())
    if total == available or not wanted or (total < available and not expand):
        return dict(wanted)
    if len(wanted) > available or total == 0:
        return dict.fromkeys(wanted, available)
    sizes = {name: max(1, -(-size * available // total)) for name, size in wanted.items()}
    for _ in range(sum(sizes.values()) - available):
        sizes[_most_favoured(sizes, wanted)] -= 1
    return sizes


def overlap_by_pool(pools: Mapping[str, int], required: int) -> Mapping[str, int]:
    """Returns how many CPUs of each pool the reclaimed one shares, in proportion and larger pools first.

    Raises Conflict if the pools have fewer together.
    """
    total = sum(pools.values())
    if required > total:
        raise Conflict(f"required: {required} CPUs are more than the {total} of the pools", code="cpus_exhausted")
    shared: dict[str, int] = {}
    left = required
    for name, size in sorted(pools.items(), key=lambda item: (-item[1], item[0])):
        part = min(-(-required * size // total), size, left) if left else 0
        if part:
            shared[name] = part
            left -= part
    return shared


def overlap_ratio(reclaimed: Set[int], pool: Set[int]) -> float:
    """Returns the share of a pool's CPUs that the reclaimed pool has, too. Raises InvalidInput if one is empty."""
    if not reclaimed or not pool:
        raise InvalidInput("pool: an empty pool overlaps with nothing", field="pool")
    return len(reclaimed & pool) / len(pool)


def _most_favoured(sizes: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    """The pool with the most CPUs by what it wanted, of equal ones the largest; not one with a single CPU."""
    shrinkable = [name for name, size in sizes.items() if size > 1]
    return min(shrinkable, key=lambda name: (-sizes[name] / max(1, wanted[name]), -wanted[name], name))


def _nodes_needed(request: float, node_size: int, nodes: int) -> NodesNeeded:
    if nodes <= 0 or node_size <= 0:
        raise InvalidInput("nodes: a machine has at least one NUMA node with an amount", field="nodes")
    needed = max(1, int(-(-request // node_size)))
    if needed > nodes:
        raise Conflict(f"request: {request:g} needs {needed} NUMA nodes of {nodes}", code="cpus_exhausted")
    return NodesNeeded(needed, int(-(-request // needed)))

"""On which NUMA nodes a container could be bound, and which of them it prefers (facts: qos-resource-manager, section
3.1, dedicated hints; memory alike).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil

from slackwater.kernels.topology.hints import Hint, mask_of
from slackwater.model.errors import Conflict, InvalidInput

MANY_NODES = 16
"""With more, only sets of one node more than needed are offered: those of every size are too many."""
SLACK = 0.0001
"""Rounding of requests in fractions of a core."""


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """One NUMA node and one resource: CPUs, or bytes. `free` is without what is reserved or allocated; `whole_cores`
    counts cores of which every thread is free, `busy`: containers are bound here.
    """

    node: int
    socket: int
    capacity: float
    free: float
    whole_cores: int = 0
    busy: bool = False


@dataclass(frozen=True, slots=True)
class NumaRequest:
    """What a bound container asks for.

    exclusive      no other is bound to its nodes
    evenly         the same amount from each node
    whole_cores    the number of threads of a core, if it gets whole ones
    node_count     how many nodes it is to be bound to
    nodes          to which nodes exactly; empty: any
    socket_cpus    CPUs of a socket, if its nodes are to span as few sockets as the amount needs
    """

    amount: float
    exclusive: bool = False
    evenly: bool = False
    whole_cores: int | None = None
    node_count: int | None = None
    nodes: frozenset[int] = frozenset()
    socket_cpus: float | None = None


def numa_hints(nodes: Sequence[NodeAmounts], request: NumaRequest) -> tuple[Hint, ...]:
    """Returns every set of nodes that holds the request, narrower ones first; the narrowest that could are preferred.

    Raises InvalidInput for what contradicts itself, Conflict if no set holds the request.
    """
    _check(request)
    usable = [node for node in nodes if not (request.exclusive and node.busy)]
    fits = [chosen for chosen in _sets(nodes, usable, request) if _amount(chosen) + SLACK >= request.amount]
    narrowest = min(map(len, fits), default=0)
    wanted = [chosen for chosen in fits if all(rule(chosen, request) for rule in _RULES)]
    if not wanted:
        raise Conflict(
            f"numa: no NUMA nodes hold {request.amount:g} as asked for; ask for less, or for fewer conditions",
            code="numa_exhausted",
            field="numa",
        )
    return tuple(
        Hint(mask_of(node.node for node in chosen), preferred=bool(request.nodes) or len(chosen) == best)
        for best in (request.node_count or narrowest,)
        for chosen in wanted
    )


def _check(request: NumaRequest) -> None:
    if request.exclusive and request.evenly:
        raise InvalidInput("evenly: an exclusive container has its nodes whole; ask for one of both", field="evenly")
    if request.exclusive and request.whole_cores is not None:
        raise InvalidInput("whole_cores: an exclusive container has all cores of its nodes", field="whole_cores")


def _sets(
    nodes: Sequence[NodeAmounts], usable: Sequence[NodeAmounts], request: NumaRequest
) -> Iterator[tuple[NodeAmounts, ...]]:
    """Sets of nodes that keep to one socket where they could."""
    mean = ceil(sum(node.capacity for node in nodes) / max(1, len(nodes)))
    fewest = max(1, ceil(request.amount / mean)) if mean else 1
    most = fewest + 1 if len(nodes) > MANY_NODES else len(nodes)
    if _is_single(request):
        most = 1
    per_socket = len(nodes) // max(1, len({node.socket for node in nodes}))
    for width in range(fewest, most + 1):
        for chosen in combinations(usable, width):
            if width > per_socket or len({node.socket for node in chosen}) == 1:
                yield chosen


def _is_single(request: NumaRequest) -> bool:
    """Whether it is bound to one node, because nothing says otherwise."""
    return not request.exclusive and request.node_count is None and not request.nodes


def _amount(chosen: Sequence[NodeAmounts]) -> float:
    return sum(node.free for node in chosen)


def _is_named(chosen: Sequence[NodeAmounts], request: NumaRequest) -> bool:
    return not request.nodes or {node.node for node in chosen} == request.nodes


def _is_counted(chosen: Sequence[NodeAmounts], request: NumaRequest) -> bool:
    return bool(request.nodes) or request.node_count in (None, len(chosen))


def _spans_few_sockets(chosen: Sequence[NodeAmounts], request: NumaRequest) -> bool:
    sockets = len({node.socket for node in chosen})
    return request.socket_cpus is None or sockets == ceil(request.amount / request.socket_cpus)


def _is_even(chosen: Sequence[NodeAmounts], request: NumaRequest) -> bool:
    """Every node is looked at; the peer looks at the first one where cores are whole."""
    if not request.evenly:
        return True
    share = request.amount / len(chosen)
    cores = share // request.whole_cores if request.whole_cores else 0
    return share == int(share) and all(node.free >= share and node.whole_cores >= cores for node in chosen)


def _has_whole_cores(chosen: Sequence[NodeAmounts], request: NumaRequest) -> bool:
    if request.whole_cores is None:
        return True
    return sum(node.whole_cores for node in chosen) >= request.amount // request.whole_cores


_RULES: tuple[Callable[[Sequence[NodeAmounts], NumaRequest], bool], ...] = (
    _is_named,
    _is_counted,
    _spans_few_sockets,
    _is_even,
    _has_whole_cores,
)

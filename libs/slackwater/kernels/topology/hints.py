"""Topology hints: on which NUMA nodes a resource can be had, and which of them are the best for it.

Masks are integers with a bit for each NUMA node, node 0 the lowest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ANY = "*"
"""The resource of a provider that named none."""


@dataclass(frozen=True, slots=True)
class Hint:
    """`mask` is None for a resource that may come from anywhere."""

    mask: int | None
    preferred: bool

    @property
    def width(self) -> int:
        """Returns the number of its nodes; 0 for anywhere."""
        return 0 if self.mask is None else self.mask.bit_count()


ANYWHERE = Hint(None, preferred=True)
NOWHERE = Hint(None, preferred=False)
Provided = Mapping[str, Sequence[Hint] | None]
"""Hints of a provider by resource. None: no preference. An empty list: the resource cannot be had."""


def mask_of(nodes: Iterable[int]) -> int:
    """Returns the mask of NUMA nodes."""
    return sum(1 << node for node in set(nodes))


def nodes_of(mask: int) -> tuple[int, ...]:
    """Returns the NUMA nodes of a mask, ascending."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def hints_by_resource(providers: Iterable[Provided | None]) -> list[tuple[str, Sequence[Hint]]]:
    """Returns one list of hints for each resource of each provider, in their order.

    A provider without any resource, and a resource without a preference, can be served anywhere.
    """
    found: list[tuple[str, Sequence[Hint]]] = []
    for provided in providers:
        if not provided:
            found.append((ANY, (ANYWHERE,)))
            continue
        for resource, hints in provided.items():
            found.append((resource, (ANYWHERE,) if hints is None else hints))
    return found


def widest_of_narrowest(lists: Iterable[Sequence[Hint]]) -> int:
    """Returns the number of nodes that the resource with the widest narrowest hint needs: no merge is better than
    that. Hints for anywhere do not count; 0 without any other.
    """
    narrowest = (min((hint.width for hint in hints if hint.mask is not None), default=0) for hints in lists)
    return max(narrowest, default=0)


def single_node_hints(lists: Iterable[Sequence[Hint]]) -> list[list[Hint]]:
    """Returns the preferred hints of one node or of anywhere, for the policy single-numa-node."""
    return [[hint for hint in hints if hint.preferred and (hint.mask is None or hint.width == 1)] for hints in lists]

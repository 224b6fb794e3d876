"""Merges the hints of all resources into one (topology manager of the kubelet, policies best-effort, restricted and
single-numa-node; facts: qos-resource-manager, section 2).

The readable form, `merge_product` in the tests, goes through the product of all lists. Here the merged masks are
collected list by list, so that the cost follows the number of different masks: five resources on 34 nodes are 52
million combinations, and 35 different masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from slackwater.kernels.topology.hints import (
    NOWHERE,
    Hint,
    Provided,
    hints_by_resource,
    mask_of,
    nodes_of,
    single_node_hints,
    widest_of_narrowest,
)

Distances = Callable[[int], int]
"""The sum of distances within a mask; compared between masks of the same width only."""


class MergePolicy(StrEnum):
    """When a pod is admitted, by how its resources fit together."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"
    NUMERIC = "numeric"


@dataclass(frozen=True, slots=True)
class MergedHint:
    """`hint` applies to every resource; None: the policy sets none."""

    hint: Hint | None
    admitted: bool


def merge(
    policy: MergePolicy, nodes: Iterable[int], providers: Iterable[Provided | None], distances: Distances | None = None
) -> MergedHint:
    """Merge the hints of all providers on a machine with these NUMA nodes. `distances`: masks of the same width are
    compared by it before their value (option prefer-closest-numa-nodes). NUMERIC is `merge_numeric`'s.
    """
    if policy is MergePolicy.NONE:
        return MergedHint(None, admitted=True)
    everywhere = mask_of(nodes)
    lists = [hints for _, hints in hints_by_resource(providers)]
    if policy is MergePolicy.SINGLE_NUMA_NODE:
        hint = best_hint(everywhere, single_node_hints(_possible(lists)), None)
        # one node of one is all nodes, too: a hint for all of them binds nothing
        hint = Hint(None, hint.preferred) if hint.mask == everywhere else hint
        return MergedHint(hint, hint.preferred)
    hint = best_hint(everywhere, _possible(lists), distances)
    return MergedHint(hint, policy is MergePolicy.BEST_EFFORT or hint.preferred)


def _possible(lists: Sequence[Sequence[Hint]]) -> list[Sequence[Hint]]:
    """A resource that cannot be had is one that is preferred nowhere."""
    return [hints or (NOWHERE,) for hints in lists]


def best_hint(everywhere: int, lists: Sequence[Sequence[Hint]], distances: Distances | None) -> Hint:
    """Returns the best merged hint; all nodes, not preferred, if the lists have no node in common."""
    preferred = _preferred_masks(everywhere, lists)
    if preferred:
        return Hint(min(preferred, key=lambda mask: _narrowness(mask, distances)), preferred=True)
    masks = _merged_masks(everywhere, lists)
    if not masks:
        return Hint(everywhere, preferred=False)
    best = widest_of_narrowest(lists)
    return Hint(min(masks, key=lambda mask: _rank(mask, best, distances)), preferred=False)


def prefers_candidate(current: Hint | None, candidate: Hint, best: int, distances: Distances | None = None) -> bool:
    """Whether the candidate replaces the current merged hint, where no resource needs more than `best` nodes."""
    if not candidate.mask:
        return False
    if current is None:
        return True
    if current.preferred != candidate.preferred:
        return candidate.preferred
    if current.preferred:
        return _narrowness(candidate.mask, distances) < _narrowness(current.mask or 0, distances)
    return _rank(candidate.mask, best, distances) < _rank(current.mask or 0, best, distances)


def _preferred_masks(everywhere: int, lists: Sequence[Sequence[Hint]]) -> set[int]:
    """Masks of merges that are preferred: every hint is, and those with nodes all have the same."""
    offered = [{hint.mask for hint in hints if hint.preferred} for hints in lists]
    named = {mask & everywhere for masks in offered for mask in masks if mask is not None and _all_have(offered, mask)}
    if all(None in masks for masks in offered):
        named.add(everywhere)
    return named - {0}


def _all_have(offered: Sequence[set[int | None]], mask: int) -> bool:
    return all(mask in masks or None in masks for masks in offered)


def _merged_masks(everywhere: int, lists: Sequence[Sequence[Hint]]) -> set[int]:
    """Every mask, but the empty one, that is the intersection of one hint of each list."""
    masks = {everywhere}
    for hints in sorted(({everywhere if hint.mask is None else hint.mask for hint in one} for one in lists), key=len):
        masks = {mask & hint for mask in masks for hint in hints} - {0}
    return masks


def _narrowness(mask: int, distances: Distances | None) -> tuple[int, int, int]:
    return mask.bit_count(), distances(mask) if distances else 0, mask


def _rank(mask: int, best: int, distances: Distances | None) -> tuple[int, int, int, int]:
    """Of merges that are not preferred: first those with as many nodes as are needed, then narrower ones, from the
    widest on, then wider ones, from the narrowest on.
    """
    width, distance, value = _narrowness(mask, distances)
    if width == best:
        return 0, 0, distance, value
    return (1, -width, distance, value) if width < best else (2, width, distance, value)


def distances_between(sums: Callable[[Sequence[int]], int]) -> Distances:
    """Returns the distances of masks, from those of lists of nodes."""
    distances: dict[int, int] = {}

    def distance(mask: int) -> int:
        if mask not in distances:
            distances[mask] = sums(nodes_of(mask))
        return distances[mask]

    return distance

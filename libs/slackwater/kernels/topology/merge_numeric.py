"""Merges hints under the policy numeric: a hint for each resource, the aligned resources on the same nodes.

Facts: qos-resource-manager, section 2.3. Of more than two aligned resources each must be preferred or stand beside one
that is; the peer looks at the last pair it compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from slackwater.kernels.topology.hints import Hint, Provided, hints_by_resource

ALIGNED = frozenset({"cpu", "memory"})


def merge_numeric(providers: Iterable[Provided | None], aligned: Set[str] = ALIGNED) -> Mapping[str, Hint] | None:
    """Returns the hint of each resource; None: the pod is refused.

    Of all choices in which aligned resources have the same nodes, and the masks of all are nested, the one is taken
    with the most preferred other resources, then the narrowest widest mask, then the first.
    """
    listed = hints_by_resource(providers)
    names = [name for name, _ in listed]
    best: tuple[tuple[int, int], Sequence[Hint]] | None = None
    for chosen in _choices([hints for _, hints in listed], names, aligned):
        preferred = sum(hint.preferred for name, hint in zip(names, chosen, strict=True) if name not in aligned)
        key = (-preferred, max((hint.width for hint in chosen), default=0))
        if best is None or key < best[0]:
            best = key, chosen
    return None if best is None else dict(zip(names, best[1], strict=True))


def _choices(lists: Sequence[Sequence[Hint]], names: Sequence[str], aligned: Set[str]) -> Iterator[tuple[Hint, ...]]:
    """Every allowed choice of a hint from each list. What is not nested or not aligned is left at once."""

    def further(chosen: tuple[Hint, ...]) -> Iterator[tuple[Hint, ...]]:
        place = len(chosen)
        if place == len(lists):
            pair = [hint for name, hint in zip(names, chosen, strict=True) if name in aligned]
            if len(pair) < 2 or any(hint.preferred for hint in pair):
                yield chosen
            return
        others = [hint for name, hint in zip(names, chosen, strict=False) if name in aligned]
        for hint in lists[place]:
            if names[place] in aligned and not all(_is_aligned(hint, other) for other in others):
                continue
            if all(_is_nested(hint, other) for other in chosen):
                yield from further((*chosen, hint))

    return further(())


def _is_aligned(hint: Hint, other: Hint) -> bool:
    if hint.mask is None and other.mask is None:
        return hint.preferred == other.preferred
    if hint.mask is None or other.mask is None:
        return hint.preferred if hint.mask is None else other.preferred
    return hint.mask == other.mask


def _is_nested(hint: Hint, other: Hint) -> bool:
    if hint.mask is None or other.mask is None:
        return True
    return hint.mask & other.mask in (hint.mask, other.mask)

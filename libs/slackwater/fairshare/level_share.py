"""How a parent's total is shared among its children in one dimension.

The readable form, and the one that explains itself: each round is kept. `batched` computes the same for a whole tree.
Source: Koordinator's runtime quota (shared/facts/koordinator-quota-scheduling.md 1.4), issue 26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.records import record


@record(frozen=True, slots=True)
class Sharer:
    """A child in one dimension. Amounts are integers in the dimension's unit (milli-cores, bytes, pieces)."""

    name: str
    minimum: int
    """After min scaling."""
    request: int
    """Already cut to the quota's max."""
    weight: int
    lends: bool = True
    """Whether what it does not request of its min may be used by others meanwhile."""
    guaranteed: int = 0

    @property
    def entitled(self) -> int:
        return max(self.minimum, self.guaranteed)


@record(frozen=True, slots=True)
class SharingRound:
    """One distribution of what was left, by weight."""

    pool: int
    weights: int
    """Sum of the weights of those that were still short."""
    given: Mapping[str, int]
    returned: Mapping[str, int]
    """What went beyond a child's request, and back into the pool."""


@record(frozen=True, slots=True)
class Sharing:
    """What each child gets, and how it came about: runtime = first + sum of (given - returned)."""

    total: int
    first: Mapping[str, int]
    """Before any weight counts: what is requested, as far as a child is entitled; all of it where it does not lend."""
    rounds: Sequence[SharingRound]
    runtime: Mapping[str, int]
    unallocated: int
    """Negative where the mins alone are more than the total."""


def share(total: int, children: Sequence[Sharer]) -> Sharing:
    """Returns the runtime of each child.

    Mins come first, even beyond the total: min scaling makes them fit. The rest goes to those that request more, in
    proportion to their weights, until no child is short or nothing is left.
    """
    first = {child.name: _first(child) for child in children}
    runtime = dict(first)
    short = sorted((child for child in children if child.request > child.entitled), key=lambda child: child.name)
    pool = total - sum(first.values())
    rounds: list[SharingRound] = []
    while pool > 0 and (weights := sum(max(child.weight, 0) for child in short)) > 0:
        given = split(pool, {child.name: child.weight for child in short})
        returned: dict[str, int] = {}
        for child in short:
            runtime[child.name] += given[child.name]
            if (excess := runtime[child.name] - child.request) > 0:
                returned[child.name] = excess
                runtime[child.name] = child.request
        rounds.append(SharingRound(pool, weights, given, returned))
        pool = sum(returned.values())
        short = [child for child in short if runtime[child.name] < child.request]
    return Sharing(total, first, tuple(rounds), runtime, pool)


def split(pool: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Returns `pool` divided in proportion to the weights, in whole units, all of it.

    Each gets its share rounded down; the units that are left go to the largest remainders, ties by name. A weight of 0
    or less gets nothing. Raises ValueError where no weight is positive.
    """
    total = sum(weight for weight in weights.values() if weight > 0)
    if total <= 0:
        raise ValueError("no weight is positive")
    given, remainders = {}, {}
    for name, weight in weights.items():
        given[name], remainders[name] = divmod(max(weight, 0) * pool, total)
    left = pool - sum(given.values())
    for name in sorted(remainders, key=lambda name: (-remainders[name], name))[:left]:
        given[name] += 1
    return given


def _first(child: Sharer) -> int:
    return child.entitled if not child.lends else min(child.request, child.entitled)

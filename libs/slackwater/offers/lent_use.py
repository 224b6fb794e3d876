"""What lower tiers use of the offer of their node, what they use beyond it, and which pods do. Pure.

An offer bounds what is *requested* of a node; its limits and kernel weights bound its use.
So use is split: `borrowed` is at most the offer, `beyond` is the rest. Sums over nodes are sums of the
split of each node, because one node's pods cannot use what another node leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slackwater.model.quantities import Resources
from slackwater.model.records import record

BORROWING: Final = ("batch", "free")
"""Tiers that use the batch offer."""
NOTHING: Final = Resources()


@record(frozen=True, slots=True)
class LentUse:
    """One node's use of its offer: `borrowed` is at most `lent`, and `borrowed` + `beyond` is all that is used."""

    lent: Resources = NOTHING
    borrowed: Resources = NOTHING
    beyond: Resources = NOTHING

    def __add__(self, other: LentUse) -> LentUse:
        return LentUse(self.lent + other.lent, self.borrowed + other.borrowed, self.beyond + other.beyond)


@record(frozen=True, slots=True)
class BorrowerUse:
    """A pod of a borrowing tier: what it requested and uses."""

    name: str
    request: Resources
    usage: Resources


def usage_of_borrowers(tiers: Mapping[str, Resources]) -> Resources:
    """The usage of the borrowing tiers, from the usage by tier."""
    return sum((tiers[name] for name in BORROWING if name in tiers), NOTHING)


def lent_use(offer: Resources | None, tiers: Mapping[str, Resources]) -> LentUse:
    """Splits the usage of one node's borrowing tiers. Without an offer nothing is lent."""
    lent = (offer or NOTHING).at_least_zero()
    used = usage_of_borrowers(tiers).at_least_zero()
    borrowed = used.smaller_of(lent)
    return LentUse(lent, borrowed, used - borrowed)


def pods_beyond(beyond: Resources, pods: Sequence[BorrowerUse]) -> tuple[str, ...]:
    """Names the pods that use more than the node's offer: those furthest above their own request first, until their
    use covers `beyond` in CPU and memory.
    """
    cpu = [(pod.name, pod.request.cpu_milli, pod.usage.cpu_milli) for pod in pods]
    memory = [(pod.name, pod.request.memory_bytes, pod.usage.memory_bytes) for pod in pods]
    return tuple(dict.fromkeys([*_covering(beyond.cpu_milli, cpu), *_covering(beyond.memory_bytes, memory)]))


def _covering(excess: int, pods: Sequence[tuple[str, int, int]]) -> list[str]:
    """The names of (name, requested, used) whose use covers the excess, those furthest above their request first."""
    offers = []
    for name, _, used in sorted(pods, key=lambda pod: (pod[1] - pod[2], pod[0])):
        if excess <= 0:
            break
        if used > 0:
            offers.append(name)
            excess -= used
    return offers

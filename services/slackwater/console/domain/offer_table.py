"""The newest offer of every node in the order of the log, and what of it is news to somebody at a position. Pure.

Positions are those of the log that holds offers and node descriptions: they rise, and the newest of a node replaces
the one before. So whoever reads slowly finds fewer things to read, never more.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.console.domain.views import OfferView


@dataclass(frozen=True, slots=True)
class WantedOffers:
    """Only of these nodes, only of this pool; what is empty lets everything pass."""

    nodes: frozenset[str] = frozenset()
    pool: str = ""

    def fingerprint(self) -> str:
        """Equal for equal filters: a position says nothing to somebody who looked through another one."""
        text = "\0".join([self.pool, *sorted(self.nodes)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class OfferChange:
    """News at a position: the offer in force, or None when the node does not pass the filter any more."""

    sequence: int
    node: str
    offer: OfferView | None


@dataclass(slots=True)
class _Row:
    sequence: int
    offer: OfferView | None = None
    offer_sequence: int = 0
    pool: str = ""
    pool_sequence: int = 0


class OfferTable:
    """Rows by node, those that changed last at the end."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, _Row] = OrderedDict()
        self.position = 0
        """Of the last thing taken in."""

    def offered(self, sequence: int, offer: OfferView) -> None:
        """Take in an offer. Positions must rise."""
        row = self._touched(offer.node, sequence)
        row.offer, row.offer_sequence = offer, sequence

    def described(self, sequence: int, node: str, pool: str) -> None:
        """Take in a node's pool: also if it is the same, news to who looks at a pool.

        The log keeps a node's last description only, so a table made later knows this one and none before. To every
        table a node must stand at the same position, or who goes on at another replica misses it.
        """
        row = self._touched(node, sequence)
        row.pool, row.pool_sequence = pool, sequence

    def _touched(self, node: str, sequence: int) -> _Row:
        if sequence <= self.position:
            raise ValueError(f"position {sequence} of {node} is not behind {self.position}")
        row = self._rows.setdefault(node, _Row(sequence))
        row.sequence = self.position = sequence
        self._rows.move_to_end(node)
        return row

    def news(self, after: int, known_from: int, wanted: WantedOffers, limit: int) -> tuple[Sequence[OfferChange], int]:
        """At most `limit` changes behind position `after`, in order, and the position that this reaches.

        `known_from` is where the reader began to look: what left the filter before then it never had.
        """
        newer: list[tuple[int, str, _Row]] = []
        for node, row in reversed(self._rows.items()):
            if row.sequence <= after:
                break
            place = _place(node, row, max(after, known_from), wanted)
            if place > after:
                newer.append((place, node, row))
        newer.sort(key=lambda each: each[0])
        told = newer[:limit]
        changes = [OfferChange(place, node, row.offer if _in_pool(row, wanted) else None) for place, node, row in told]
        return changes, changes[-1].sequence if len(newer) > limit else max(after, self.position)


def _in_pool(row: _Row, wanted: WantedOffers) -> bool:
    return wanted.pool in ("", row.pool)


def _place(node: str, row: _Row, known_from: int, wanted: WantedOffers) -> int:
    """Where the log has what this reader is to be told; 0 for nothing.

    A node leaves a pool where it was described, whatever was offered since: who has read past that was told there.
    """
    if wanted.nodes and node not in wanted.nodes:
        return 0
    if not _in_pool(row, wanted):
        return row.pool_sequence if row.pool_sequence > known_from else 0
    if row.offer is None:
        return 0
    return row.sequence if wanted.pool else row.offer_sequence

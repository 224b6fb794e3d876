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
        self._touched(offer.node, sequence).offer = offer

    def described(self, sequence: int, node: str, pool: str) -> None:
        """Take in a node's pool; it is news only if it is another one."""
        row = self._rows.get(node)
        if row is not None and row.pool == pool:
            self.position = sequence
            return
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
        newer = []
        for row_of in reversed(self._rows.items()):
            if row_of[1].sequence <= after:
                break
            newer.append(row_of)
        changes: list[OfferChange] = []
        for node, row in reversed(newer):
            change = _change(node, row, max(after, known_from), wanted)
            if change is None:
                continue
            if len(changes) == limit:
                return changes, changes[-1].sequence
            changes.append(change)
        return changes, max(after, self.position)


def _change(node: str, row: _Row, known_from: int, wanted: WantedOffers) -> OfferChange | None:
    if wanted.nodes and node not in wanted.nodes:
        return None
    if wanted.pool and row.pool != wanted.pool:
        return OfferChange(row.sequence, node, None) if row.pool_sequence > known_from else None
    return OfferChange(row.sequence, node, row.offer) if row.offer is not None else None

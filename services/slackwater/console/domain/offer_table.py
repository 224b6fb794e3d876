"""The newest offer of every node in log order, and the changes for a watcher at a position. Pure.

Positions are those of the log that holds offers and node descriptions: they rise, and a node's newest entry replaces
its previous one. A slow reader therefore reads fewer changes, never more.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.console.domain.views import OfferView


@dataclass(frozen=True, slots=True)
class WantedOffers:
    """A filter by nodes and pool; an empty field passes everything."""

    nodes: frozenset[str] = frozenset()
    pool: str = ""

    def fingerprint(self) -> str:
        """Equal for equal filters: a position is valid only with the filter that it was issued for."""
        text = "\0".join([self.pool, *sorted(self.nodes)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class OfferChange:
    """A change at a position: the offer in force, or None when the node no longer passes the filter."""

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
    """Rows by node, the most recently changed last."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, _Row] = OrderedDict()
        self.position = 0
        """Position of the last entry that was applied."""

    def offered(self, sequence: int, offer: OfferView) -> None:
        """Apply an offer, unless it is older than the node's offer in force: a repeat published late, after the broker
        had lost the ids of replaced messages, follows its successor in the log. Positions must rise.
        """
        known = self._rows.get(offer.node)
        if known is not None and known.offer is not None and _is_older(offer, known.offer):
            self._advance(offer.node, sequence)
            return
        row = self._touched(offer.node, sequence)
        row.offer, row.offer_sequence = offer, sequence

    def described(self, sequence: int, node: str, pool: str) -> None:
        """Apply a node's pool. An unchanged pool is also a change for a watcher of a pool.

        The log keeps only a node's last description, so a table made later knows only this one. Every table must place
        a node at the same position; otherwise a watcher that resumes at another replica misses it.
        """
        row = self._touched(node, sequence)
        row.pool, row.pool_sequence = pool, sequence

    def _touched(self, node: str, sequence: int) -> _Row:
        self._advance(node, sequence)
        row = self._rows.setdefault(node, _Row(sequence))
        row.sequence = sequence
        self._rows.move_to_end(node)
        return row

    def _advance(self, node: str, sequence: int) -> None:
        if sequence <= self.position:
            raise ValueError(f"position {sequence} of {node} is not after {self.position}")
        self.position = sequence

    def news(self, after: int, known_from: int, wanted: WantedOffers, limit: int) -> tuple[Sequence[OfferChange], int]:
        """At most `limit` changes after position `after`, in order, and the position that this reaches.

        `known_from` is where the watcher began: nodes that left the filter before it are not reported.
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


def _is_older(offer: OfferView, known: OfferView) -> bool:
    """A node that was deleted and is back begins a new count at a later time, and its offers are followed."""
    return offer.generation < known.generation and offer.offered_at <= known.offered_at


def _in_pool(row: _Row, wanted: WantedOffers) -> bool:
    return wanted.pool in ("", row.pool)


def _place(node: str, row: _Row, known_from: int, wanted: WantedOffers) -> int:
    """The log position of this node's change for this watcher; 0 for none.

    A node leaves a pool at its description, whatever was offered since. A watcher past that position has received it.
    """
    if wanted.nodes and node not in wanted.nodes:
        return 0
    if not _in_pool(row, wanted):
        return row.pool_sequence if row.pool_sequence > known_from else 0
    if row.offer is None:
        return 0
    return row.sequence if wanted.pool else row.offer_sequence

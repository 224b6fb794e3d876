"""The queue of one quota, by shape: claims that request the same in the same way wait for the same.

An arbitration that has found no room for a claim does not try the others of its shape, so that its time follows the
number of different requests and not that of the claims.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping

from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.queue_order import Rank, in_order, rank

Shape = tuple[object, ...]


def shape_of(claim: QuotaClaim) -> Shape:
    """Returns what decides whether a claim fits, its quota given."""
    partial = None if claim.partial_minimum is None else tuple(sorted(claim.partial_minimum.items()))
    return (claim.non_preemptible, claim.reclaims, tuple(sorted(claim.request.items())), partial)


class WaitingQueue:
    """Claims of one quota by shape, kept up to date. Not for two writers."""

    def __init__(self) -> None:
        self._by_shape: dict[Shape, dict[str, QuotaClaim]] = {}
        self._ordered: dict[Shape, list[QuotaClaim]] = {}
        self._aging_s: float | None = None

    def put(self, claim: QuotaClaim) -> None:
        shape = shape_of(claim)
        self._by_shape.setdefault(shape, {})[claim.id] = claim
        self._ordered.pop(shape, None)

    def remove(self, claim: QuotaClaim) -> None:
        shape = shape_of(claim)
        claims = self._by_shape[shape]
        del claims[claim.id]
        self._ordered.pop(shape, None)
        if not claims:
            del self._by_shape[shape]

    def shapes(self, aging_s: float | None) -> Mapping[Shape, list[QuotaClaim]]:
        """Returns the claims of each shape in order. Not to be changed."""
        if aging_s != self._aging_s:
            self._ordered.clear()
            self._aging_s = aging_s
        for shape, claims in self._by_shape.items():
            if shape not in self._ordered:
                self._ordered[shape] = in_order(claims.values(), aging_s)
        return self._ordered


class QueueCursor:
    """Goes through claims in order, and leaves out a shape once it is dropped."""

    def __init__(
        self, shapes: Mapping[Shape, list[QuotaClaim]], aging_s: float | None, gone: Container[str] = ()
    ) -> None:
        """`gone`: claims that are left out, also those that come into it later."""
        self._shapes = list(shapes.values())
        self._aging_s = aging_s
        self._gone = gone
        self._heap: list[tuple[Rank, int, int]] = [
            (rank(claims[0], aging_s), number, 0) for number, claims in enumerate(self._shapes) if claims
        ]
        heapq.heapify(self._heap)

    def peek(self) -> QuotaClaim | None:
        """Returns the next claim; None at the end."""
        while self._heap:
            _, number, place = self._heap[0]
            claim = self._shapes[number][place]
            if claim.id not in self._gone:
                return claim
            self.advance()
        return None

    def advance(self) -> None:
        """Go on to the next claim."""
        _, number, place = self._heap[0]
        claims = self._shapes[number]
        if place + 1 < len(claims):
            heapq.heapreplace(self._heap, (rank(claims[place + 1], self._aging_s), number, place + 1))
        else:
            heapq.heappop(self._heap)

    def drop_shape(self) -> None:
        """Leave out the next claim and all later ones of its shape."""
        heapq.heappop(self._heap)

    def __iter__(self) -> Iterator[QuotaClaim]:
        while (claim := self.peek()) is not None:
            self.advance()
            yield claim

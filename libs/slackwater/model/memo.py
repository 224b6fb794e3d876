"""Results that are computed once: of large shared values by their identity, of small ones by their value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
MOST_OUTCOMES: Final = 4096


class OnceByIdentity(Generic[A, T]):
    """Results of a pure function by the identity of its argument, a large value that is shared and never changed. The
    newest `most` are kept, with their arguments, so that no identity is used again meanwhile.
    """

    def __init__(self, compute: Callable[[A], T], most: int = 4) -> None:
        self._compute = compute
        self._most = most
        self._results: dict[int, tuple[A, T]] = {}

    def __call__(self, value: A) -> T:
        result = self._results.get(id(value))
        if result is None:
            result = value, self._compute(value)
            if len(self._results) >= self._most:
                del self._results[next(iter(self._results))]
            self._results[id(value)] = result
        return result[1]


class Outcomes(Generic[K]):
    """Outcomes of a pure test by its argument. When MOST_OUTCOMES are kept, they are dropped together."""

    __slots__ = ("_known", "_test")

    def __init__(self, test: Callable[[K], bool]) -> None:
        self._test = test
        self._known: dict[K, bool] = {}

    def __call__(self, value: K) -> bool:
        result = self._known.get(value)
        if result is None:
            if len(self._known) >= MOST_OUTCOMES:
                self._known.clear()
            result = self._known[value] = self._test(value)
        return result

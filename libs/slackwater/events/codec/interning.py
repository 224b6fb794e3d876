"""Interns decoded values by their bytes, so that a repeated value is decoded once.

A pod's description is a third of a report, and the same in the next one. Values are shared by all
callers, so they must not be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_LEAST = 4096
_MOST = 2**19
_TIMES = 4


class InternedValues(Generic[T]):
    """Caches values for two generations: a value not requested during two generations is dropped.

    A generation lasts four times as many lookups as the previous one had values: bytes that recur
    at a steady rate stay, and memory follows the working set without a clock. It is at most 2^19
    lookups: half a million values stay cached (a pod takes 1 KB), and a sender of ever-changing
    bytes cannot exhaust the memory.
    """

    def __init__(self, read: Callable[[bytes], T], most: int = _MOST) -> None:
        self._read = read
        self._most = most
        self._young: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}
        self._left = min(_LEAST, most)

    def __len__(self) -> int:
        """Returns the number of cached values."""
        return len(self._young.keys() | self._old.keys())

    def all(self, bodies: Iterable[bytes | memoryview]) -> list[T]:
        """Returns the value of each body. Raises what `read` raises; a refused body is not
        cached.
        """
        young, values = self._young, []
        for body in bodies:
            key = bytes(body)
            value = young.get(key)
            if value is None:
                value = young[key] = self._from_before(key)
            values.append(value)
        self._left -= len(values)
        if self._left <= 0:
            self._turn()
        return values

    def _from_before(self, key: bytes) -> T:
        value = self._old.get(key)
        return self._read(key) if value is None else value

    def _turn(self) -> None:
        self._old, self._young = self._young, {}
        self._left = min(self._most, max(_LEAST, _TIMES * len(self._old)))

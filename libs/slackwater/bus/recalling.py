"""Values by the bytes they were read from: what comes again and again is read once.

A pod's description is a third of what a report says, and the same in the next one. Values are shared by all who get
them, so they must not be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_LEAST = 4096
_MOST = 2**19
_TIMES = 4


class Recalled(Generic[T]):
    """What was asked for since the last turn, and in the turn before it; what nobody asks for is forgotten after two.

    A turn is four times as many questions as there were values in the last one: bytes that come at a steady rate stay,
    and the memory follows what is there, without a clock. It is at most 2^19 questions, whoever sends what: half a
    million values are found again (a pod takes 1 KB), and bytes that are never the same twice cannot fill the memory.
    """

    def __init__(self, read: Callable[[bytes], T], most: int = _MOST) -> None:
        self._read = read
        self._most = most
        self._young: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}
        self._left = min(_LEAST, most)

    def __len__(self) -> int:
        """How many values are kept."""
        return len(self._young.keys() | self._old.keys())

    def all(self, bodies: Iterable[bytes | memoryview]) -> list[T]:
        """The value of each. Raises what `read` raises; what it refuses is not kept."""
        young, found = self._young, []
        for body in bodies:
            key = bytes(body)
            value = young.get(key)
            if value is None:
                value = young[key] = self._from_before(key)
            found.append(value)
        self._left -= len(found)
        if self._left <= 0:
            self._turn()
        return found

    def _from_before(self, key: bytes) -> T:
        value = self._old.get(key)
        return self._read(key) if value is None else value

    def _turn(self) -> None:
        self._old, self._young = self._young, {}
        self._left = min(self._most, max(_LEAST, _TIMES * len(self._old)))

"""Storage of the fold: rows that stay, blocks that grow with them, and texts as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = np.iinfo(np.int64).min
"""In a block of integers: nothing is known. No bound of slackwater.model.bounds reaches it."""
FREE = -1


class Interned:
    """Numbers for texts that many rows share. A number is used again once no row holds it."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._texts: list[str] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many texts are held."""
        return len(self._ids)

    def acquire(self, text: str) -> int:
        """The number of a text, held once more."""
        number = self._ids.get(text)
        if number is None:
            number = self._add(text)
        self._holders[number] += 1
        return number

    def release(self, number: int) -> None:
        """One holder less."""
        self._holders[number] -= 1
        if self._holders[number] == 0:
            del self._ids[self._texts[number]]
            self._texts[number] = ""
            self._free.append(number)

    def texts(self) -> tuple[str, ...]:
        """By number; empty where a number is free."""
        return tuple(self._texts)

    def _add(self, text: str) -> int:
        if self._free:
            number = self._free.pop()
            self._texts[number] = text
        else:
            number = len(self._texts)
            self._texts.append(text)
            self._holders.append(0)
        self._ids[text] = number
        return number


class Rows:
    """Row numbers. A row stays until it is freed and may then be used again, with a higher incarnation."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._incarnation = Block(1, 0)
        self.count = 0
        """Rows that were ever used: the length of every column."""

    def allocate(self) -> int:
        if self._free:
            row = self._free.pop()
        else:
            row = self.count
            self.count += 1
        self._incarnation.reserve(self.count)
        self._incarnation.array[row] += 1
        return row

    def free(self, row: int) -> None:
        self._free.append(row)

    def incarnations(self) -> NDArray[np.int64]:
        return self._incarnation.copy(self.count)[:, 0]


class Block:
    """Columns of one source, by row. It grows with its rows and takes no memory before it is first written."""

    def __init__(self, width: int, fill: float, dtype: Any = np.int64) -> None:
        self._fill = fill
        self.array: NDArray[Any] = np.full((0, width), fill, dtype)

    def reserve(self, rows: int) -> None:
        """Room for so many rows."""
        have, width = self.array.shape
        if rows > have:
            grown = np.full((max(rows, have + have // 2, 64), width), self._fill, self.array.dtype)
            grown[:have] = self.array
            self.array = grown

    def clear(self, row: int) -> None:
        """Nothing is known of the row any more."""
        if row < len(self.array):
            self.array[row] = self._fill

    def copy(self, rows: int) -> NDArray[Any]:
        """The first rows."""
        if len(self.array) < rows:
            copied = np.full((rows, self.array.shape[1]), self._fill, self.array.dtype)
            copied[: len(self.array)] = self.array
            return copied
        return self.array[:rows].copy()

"""Columnar tables of many series, indexed by row id, without searches or objects.

A table's arrays have the series as their last axis, so an operation on the whole fleet at one time touches one
contiguous range of memory. A ring is a table whose first axis is time: one line per block of time, with the oldest line
reused for the newest block. Blocks follow the calendar (for example hours since 1970), so that two tables agree on
them. Late samples are stored in their block; samples older than the ring are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from slackwater.model.errors import InvalidInput
from slackwater.model.records import record
from slackwater.peaks.port import Rows

State = dict[str, NDArray[Any]]
_FIRST = 64


@record(frozen=True, slots=True)
class SeriesColumn:
    """One number per series (or one per block and series, where `blocked`); `empty` until written."""

    dtype: DTypeLike
    empty: float = 0
    blocked: bool = False


class Table:
    """Columns that grow, are pruned, saved and restored together. `used`: highest row id seen, plus one."""

    def __init__(self, columns: Mapping[str, SeriesColumn], depth: int = 1) -> None:
        self.columns = columns
        self.depth = depth
        self.used = 0
        self.arrays: State = {name: self._new(column, 0) for name, column in columns.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    def reach(self, rows: Rows) -> None:
        """Makes room before writing to these row ids."""
        self.use(int(rows.max()) + 1 if len(rows) else 0)

    def use(self, count: int) -> None:
        """Makes room before writing to row ids below `count`."""
        self._make_room(count)
        self.used = max(self.used, count)

    def see(self, rows: Rows) -> None:
        """Makes room before reading these row ids: unwritten ones read as empty, and the state does not change."""
        self._make_room(int(rows.max()) + 1 if len(rows) else 0)

    def _make_room(self, count: int) -> None:
        """Grows by half, so that growing one by one stays cheap."""
        have = len(next(iter(self.arrays.values())).T)
        if count <= have:
            return
        size = max(count, have + have // 2, _FIRST)
        for name, column in self.columns.items():
            grown = self._new(column, size)
            grown[..., :have] = self.arrays[name]
            self.arrays[name] = grown

    def forget(self, rows: Rows) -> None:
        """Resets these rows to empty; row ids beyond the table are ignored."""
        known = rows[rows < self.used]
        for name, column in self.columns.items():
            self.arrays[name][..., known] = column.empty

    def state(self) -> State:
        """Returns a copy of the used rows."""
        return {name: array[..., : self.used].copy() for name, array in self.arrays.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Replaces the state. Raises InvalidInput if it has another shape or type."""
        self._refuse_other(state)
        self.arrays = {name: np.array(state[name]) for name in self.columns}
        self.used = len(next(iter(self.arrays.values())).T)

    def _refuse_other(self, state: Mapping[str, NDArray[Any]]) -> None:
        widths = set()
        for name, column in self.columns.items():
            have = state.get(name)
            expected = self._new(column, 0)
            if have is None or have.dtype != expected.dtype or have.shape[:-1] != expected.shape[:-1]:
                actual = "missing" if have is None else f"{have.dtype} {have.shape}"
                raise unusable(name, f"is {actual}, must be {expected.dtype} {expected.shape[:-1]} by series")
            widths.add(have.shape[-1])
        if len(widths) > 1:
            raise unusable(name, f"columns have different numbers of series, {sorted(widths)}; they must be equal")

    def _new(self, column: SeriesColumn, size: int) -> NDArray[Any]:
        shape = (self.depth, size) if column.blocked else (size,)
        made = np.zeros(shape, column.dtype)  # zeros cost no memory until they are written
        if column.empty != 0:
            made.fill(column.empty)
        return made


class SeriesRing(Table):
    """A table over the last `depth` blocks of `block_seconds`, including the current one."""

    def __init__(self, columns: Mapping[str, SeriesColumn], depth: int, block_seconds: float) -> None:
        super().__init__(columns, depth)
        self.block_seconds = block_seconds
        self.newest: int | None = None

    def block_of(self, at_seconds: float) -> int:
        """Returns the block of a window that ends at `at_seconds`; a window that ends with a block belongs to it."""
        return math.ceil(at_seconds / self.block_seconds) - 1

    def line(self, block: int) -> int:
        """Returns the index of a block's line."""
        return block % self.depth

    def passing(self, block: int) -> Sequence[int]:
        """Returns the blocks that leave the ring when it advances to `block`, oldest first."""
        if self.newest is None or block <= self.newest:
            return ()
        return range(self.newest - self.depth + 1, min(block - self.depth, self.newest) + 1)

    def turn(self, block: int) -> bool:
        """Advances to `block` if it is newer. Returns False if `block` is older than the ring."""
        if self.newest is not None and block > self.newest:
            for old in self.passing(block):
                self._empty(self.line(old))
        self.newest = block if self.newest is None else max(block, self.newest)
        return block > self.newest - self.depth

    def blocks(self) -> Sequence[int]:
        """Returns the blocks in the ring, oldest first."""
        return () if self.newest is None else range(self.newest - self.depth + 1, self.newest + 1)

    def meet(self, other: SeriesRing) -> Sequence[tuple[int, int]]:
        """Makes room for everything of `other`. Returns pairs of lines of the same block, oldest first."""
        if other.newest is None:
            return ()
        self.use(other.used)
        self.turn(other.newest)
        both = set(self.blocks()) & set(other.blocks())
        return [(self.line(block), other.line(block)) for block in sorted(both)]

    def _empty(self, line: int) -> None:
        for name, column in self.columns.items():
            if column.blocked:
                self.arrays[name][line, : self.used] = column.empty

    def state(self) -> State:
        newest = np.array([] if self.newest is None else [self.newest], dtype=np.int64)
        return {**super().state(), "newest_block": newest, "block_seconds": np.array([self.block_seconds])}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        seconds, newest = state.get("block_seconds"), state.get("newest_block")
        if seconds is None or newest is None or seconds.tolist() != [self.block_seconds]:
            raise unusable("block_seconds", f"is {seconds}, the settings say {self.block_seconds}")
        super().restore(state)
        self.newest = int(newest[0]) if len(newest) else None


def named(part: str, state: Mapping[str, NDArray[Any]]) -> State:
    """Prefixes the names of a part's state, so that several parts fit one mapping."""
    return {f"{part}.{name}": array for name, array in state.items()}


def part_of(state: Mapping[str, NDArray[Any]], part: str) -> State:
    """Returns the state that `named` stored under this prefix."""
    return {name[len(part) + 1 :]: array for name, array in state.items() if name.startswith(part + ".")}


def unusable(field: str, why: str) -> InvalidInput:
    return InvalidInput(f"model state: {field} {why}", code="model_state_unusable", field=field)

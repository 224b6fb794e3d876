"""Keyed rows in memory (tests.support.store.MemoryDatabase), with the same guarantees as in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from slackwater.model.errors import Conflict
from slackwater.model.identifiers import partition_of
from slackwater.store.keyed import KeyedTable, note_unreadable
from slackwater.store.quarantine import Quarantine, described

T = TypeVar("T")


@dataclass(slots=True)
class MemoryRows:
    """The committed rows of one table. Rows in `broken` exist but cannot be read."""

    values: dict[str, Any] = field(default_factory=dict)
    broken: dict[str, Exception] = field(default_factory=dict)


class Unit(Protocol):
    """The part of tests.support.store.MemoryUnitOfWork that keyed rows need."""

    checks: list[Callable[[], None]]

    announce: Callable[[], None]

    def concerns(self, *keys: str) -> None: ...

    def on_commit(self, effect: Callable[[], None]) -> None: ...


class MemoryKeyedRows(Generic[T]):
    """See slackwater.store.keyed.KeyedRows. Locks are unnecessary, because units of work run one at a time."""

    def __init__(
        self, unit: Unit, rows: MemoryRows, table: KeyedTable[T], quarantine: Quarantine, changed: dict[str, T | None]
    ) -> None:
        self._unit = unit
        self._rows = rows
        self._table = table
        self._quarantine = quarantine
        self._changed = changed
        self._is_changed_last = False

    async def read(self, keys: Collection[str]) -> Mapping[str, T]:
        return self._readable(sorted(keys))

    async def read_all(self, partitions: Collection[int] | None = None) -> Mapping[str, T]:
        if partitions is not None:
            return self._readable([key for key in self._keys() if partition_of(key) in partitions])
        problems: dict[str, str] = {}
        values = self._readable(self._keys(), problems)
        if not self._table.of_nodes:
            self._quarantine.follow(self._table.name, problems)
        return values

    async def read_group(self, value: str) -> Mapping[str, T]:
        place = [column.name for column in self._table.columns].index(self._table.group)
        keys = [key for key in self._keys() if key in self._rows.broken or self._group_of(key, place) == value]
        return self._readable(keys)

    def _group_of(self, key: str, place: int) -> str | None:
        value = self._value(key)
        return None if value is None else str(self._table.encode(value)[place])

    async def page(self, after: str, limit: int) -> Mapping[str, T]:
        values = self._readable([key for key in self._keys() if key > after])
        return dict(islice(values.items(), limit))

    async def column(self, key: str, name: str) -> Any:
        value = self._value(key)
        if value is None:
            return None
        if name == self._table.version:
            return self._version(value)
        names = [column.name for column in self._table.columns]
        return self._table.encode(value)[names.index(name)]

    async def lock(self, keys: Collection[str]) -> Mapping[str, T]:
        self._fence(keys)
        if self._table.empty is not None:
            for key in keys:
                if self._value(key) is None and key not in self._rows.broken:
                    self._put(self._table.empty(key))
        return self._readable(sorted(keys))

    async def write(self, values: Sequence[T]) -> set[str]:
        self._fence(map(self._table.key_of, values))
        written = {self._table.key_of(value): value for value in values if self._is_newer(value)}
        for value in written.values():
            self._put(value)
        return set(written)

    async def insert(self, values: Sequence[T]) -> None:
        ordered = sorted(values, key=self._table.key_of)
        keys = [self._table.key_of(value) for value in ordered]
        self._fence(keys)
        stored = {key for key in keys if self._value(key) is not None or key in self._rows.broken}
        for key, value in zip(keys, ordered, strict=True):
            if key not in stored:
                self._put(value)
        if stored:
            kind = self._table.kind
            raise Conflict(f"{kind}: one of {len(keys)} from {keys[0]} to {keys[-1]} is stored already")

    async def replace(self, value: T, expected: int, *, last: bool = False) -> None:
        key = self._table.key_of(value)
        self._fence([key])

        def check() -> None:
            if self._version(self._value(key)) != expected:
                kind, version = self._table.kind, self._table.version
                raise Conflict(f"{kind} {key}: {version} {expected} is not the one that is stored")

        if last and expected:
            assert not self._is_changed_last, "a unit of work changes one row last"
            self._is_changed_last = True
            self._unit.checks.append(check)
            self._unit.on_commit(lambda: self._commit(key, value))
            return
        check()
        self._put(value)
        if self._table.announced:
            self._unit.on_commit(self._unit.announce)

    async def remove(self, keys: Collection[str]) -> None:
        self._fence(keys)
        for key in keys:
            self._changed[key] = None
            self._unit.on_commit(partial(self._drop, key))

    def _drop(self, key: str) -> None:
        self._rows.values.pop(key, None)
        self._rows.broken.pop(key, None)

    def _put(self, value: T) -> None:
        key = self._table.key_of(value)
        self._changed[key] = value
        self._unit.on_commit(lambda: self._commit(key, value))

    def _commit(self, key: str, value: T) -> None:
        self._rows.values[key] = value
        self._rows.broken.pop(key, None)

    def _value(self, key: str) -> T | None:
        value: T | None = self._changed.get(key, self._rows.values.get(key))
        return value

    def _version(self, value: T | None) -> int:
        if value is None:
            return 0
        assert self._table.version_of is not None
        return self._table.version_of(value)

    def _is_newer(self, value: T) -> bool:
        stored, newer = self._value(self._table.key_of(value)), self._table.newer
        if stored is None or not newer:
            return True
        place = [column.name for column in self._table.columns].index(newer)
        return bool(self._table.encode(stored)[place] <= self._table.encode(value)[place])

    def _keys(self) -> list[str]:
        return sorted(self._rows.values.keys() | self._rows.broken.keys() | self._changed.keys())

    def _fence(self, keys: Iterable[str]) -> None:
        if self._table.of_nodes:
            self._unit.concerns(*keys)

    def _readable(self, keys: Iterable[str], problems: dict[str, str] | None = None) -> dict[str, T]:
        table, values = self._table, dict[str, T]()
        for key in keys:
            if table.skips_held and table.of_nodes and self._quarantine.holds_node(key):
                continue
            value, error = self._value(key), self._rows.broken.get(key)
            if error is not None and key not in self._changed:
                if table.of_nodes or problems is None:
                    note_unreadable(table, key, error, str(error), self._quarantine)
                else:
                    problems[key] = described(error)
                if table.unreadable is not None:
                    values[key] = table.unreadable(key, self._version(value), described(error))
            elif value is not None:
                values[key] = value
        return values

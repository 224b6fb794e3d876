"""State that is one row per key: a service declares a table, and a unit of work reads and writes its rows.

`unit.keyed(TABLE, quarantine)` gives the rows in PostgreSQL (store.keyed_rows) or in memory (testing.keyed), which
pass the same tests. Rows are kept apart by a version (`replace`) or by a lock (`lock`); those of nodes are fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from slackwater.events.state_quarantined import QuarantineReason
from slackwater.model.errors import InvalidInput
from slackwater.store.quarantine import Quarantine, Unreadable

T = TypeVar("T")
UNREADABLE: Final = (InvalidInput, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""Exceptions of `decode` for a row that does not hold a valid value."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column beside key and version. `encode` gives text for `jsonb` and for arrays (`{1,2}`).

    With `as_text` it is read as text, for `decode` to parse; with `write_only` it is not read.
    """

    name: str
    type: str
    as_text: bool = False
    write_only: bool = False


@dataclass(frozen=True, eq=False)
class KeyedTable(Generic[T]):
    """A table with one row per key, and how its rows are decoded.

    `version` names the column that counts writes, `version_of` returns its value: `replace`
    compares it. `newer` names a column: `write` skips a row that has a greater value there. `empty`
    returns the value of a key that was never written; `lock` inserts it. `unreadable` builds the
    value of an unreadable row from its key, its version and the reason; by default the row is left
    out.
    """

    name: str
    key: str
    columns: Sequence[RowColumn]
    key_of: Callable[[T], str]
    encode: Callable[[T], Sequence[Any]]
    decode: Callable[[Any], T]
    """Builds the value from a row with one attribute per column. Raises one of UNREADABLE."""
    kind: str = "row"
    """Name of the row in a Conflict."""
    version: str = ""
    version_of: Callable[[T], int] | None = None
    newer: str = ""
    empty: Callable[[str], T] | None = None
    unreadable: Callable[[str, int, str], T] | None = None
    of_nodes: bool = True
    """The key is a node: writes are fenced by its partition, and an unreadable row quarantines the
    node.
    """
    skips_held: bool = True
    """Rows of a node that is in quarantine are not read."""
    touched: str = ""
    """Column with the time of the last write; its default is now."""
    group: str = ""
    """A text column by whose value rows are read together (`read_group`)."""
    announced: bool = False
    """Each `replace` is announced to the other replicas of the service."""


class KeyedRows(Protocol[T]):
    """The rows of one table within a unit of work, including its own writes.

    An unreadable row is recorded in the quarantine and left out, or read as `table.unreadable`
    defines.
    """

    async def read(self, keys: Collection[str]) -> Mapping[str, T]:
        """Returns the rows of these keys, without a lock."""
        ...

    async def read_all(self, partitions: Collection[int] | None = None) -> Mapping[str, T]:
        """Returns all rows, or those of these partitions, ordered by key."""
        ...

    async def read_group(self, value: str) -> Mapping[str, T]:
        """Returns the rows that have this value in `table.group`, ordered by key."""
        ...

    async def page(self, after: str, limit: int) -> Mapping[str, T]:
        """Returns the next rows in key order, at most `limit`; an empty page is the end."""
        ...

    async def column(self, key: str, name: str) -> Any:
        """Returns one column, or the version, of a row even if the row is unreadable; None without
        a row.
        """
        ...

    async def lock(self, keys: Collection[str]) -> Mapping[str, T]:
        """Returns the rows of these keys, locked until the unit ends; missing ones are inserted as
        `table.empty`.
        """
        ...

    async def write(self, values: Sequence[T]) -> set[str]:
        """Insert or overwrite these rows; returns the keys written (see `table.newer`)."""
        ...

    async def insert(self, values: Sequence[T]) -> None:
        """Insert these rows with one statement. Raises Conflict if one of the keys has a row."""
        ...

    async def replace(self, value: T, expected: int, *, last: bool = False) -> None:
        """Write over version `expected` of a row (0: insert it). Raises Conflict for any other
        version.

        `last`: the write, and a possible Conflict, happen with the events when the unit is left. At
        most one row per unit.
        """
        ...

    async def remove(self, keys: Collection[str]) -> None:
        """Deletes the rows of these keys, whatever they hold. A missing row is no error."""
        ...


def note_unreadable(table: KeyedTable[Any], key: str, error: Exception, document: object, to: Quarantine) -> None:
    """Quarantine a row; for a table of nodes, the whole node."""
    reason, node = QuarantineReason.UNREADABLE, key if table.of_nodes else ""
    to.note(table.name, key, error, reason=reason, node=node, document=document)


def only(rows: Mapping[str, T], key: str) -> T:
    """Returns the only row requested. Raises Unreadable where it was left out."""
    if key not in rows:
        raise Unreadable(f"the state of {key} cannot be read")
    return rows[key]

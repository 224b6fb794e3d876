"""Transactions at READ COMMITTED, their locks, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

from tests.support.postgres_twin.rows import Row, StoredTable, Values

ACCESS_SHARE: Final = 1
ROW_EXCLUSIVE: Final = 2
SHARE_ROW_EXCLUSIVE: Final = 4
ACCESS_EXCLUSIVE: Final = 8
_CONFLICTS: Final = {
    ACCESS_SHARE: ACCESS_EXCLUSIVE,
    ROW_EXCLUSIVE: SHARE_ROW_EXCLUSIVE | ACCESS_EXCLUSIVE,
    SHARE_ROW_EXCLUSIVE: ROW_EXCLUSIVE | SHARE_ROW_EXCLUSIVE | ACCESS_EXCLUSIVE,
    ACCESS_EXCLUSIVE: 15,
}


class Blocked(Exception):
    """A statement needs a lock that these transactions hold."""

    def __init__(self, blockers: Iterable[Transaction]) -> None:
        super().__init__()
        self.blockers = list(blockers)


class Transaction:
    """One open transaction."""

    __slots__ = (
        "advisory", "command", "has_failed", "is_implicit", "locked", "log", "notices", "now", "session", "tables",
        "undo", "waiters",
    )  # fmt: skip

    def __init__(self, session: Any, now: datetime, *, is_implicit: bool) -> None:
        self.session = session
        self.now = now
        self.is_implicit = is_implicit
        """It is one statement, which commits by itself."""
        self.command = 0
        self.has_failed = False
        self.log: list[tuple[StoredTable, Row, Any, Any, Any, int]] = []
        """Written rows, with what the write replaced."""
        self.locked: list[Row] = []
        self.tables: list[StoredTable] = []
        self.advisory: set[int] = set()
        self.notices: dict[tuple[str, str], None] = {}
        """Channels and payloads; PostgreSQL sends equal ones once."""
        self.undo: list[Callable[[bool], None]] = []
        """Called at the end, with whether it commits."""
        self.waiters: dict[Any, None] = {}
        """Statements that wait for this transaction, in their order."""

    def lock_table(self, table: StoredTable, mode: int) -> None:
        """Raises Blocked."""
        held = table.locks.get(self, 0)
        if held & mode or held > mode:
            return
        if table.locks:
            conflicts = 0
            for bit, others in _CONFLICTS.items():
                conflicts |= others if mode & bit else 0
            blockers = [other for other, modes in table.locks.items() if modes & conflicts and other is not self]
            if blockers:
                raise Blocked(blockers)
        if not held:
            self.tables.append(table)
        table.locks[self] = held | mode

    def lock_row(self, row: Row, *, shared: bool = False) -> None:
        """Raises Blocked."""
        if row.owner is self:
            return
        if row.owner is not None:
            raise Blocked([row.owner])
        sharers = row.sharers
        if shared:
            if sharers is None:
                row.sharers = {self}
            elif self in sharers:
                return
            else:
                sharers.add(self)
        else:
            if sharers is not None and (len(sharers) > 1 or self not in sharers):
                raise Blocked(other for other in sharers if other is not self)
            row.owner = self
        self.locked.append(row)

    def write(self, table: StoredTable, row: Row, values: Values | None) -> None:
        """Writes a row that this transaction has locked; None deletes it."""
        self.log.append((table, row, row.writer, row.pending, row.previous, row.command))
        row.previous = row.pending if row.writer is self else row.values
        row.writer, row.pending, row.command = self, values, self.command

    def revert(self, mark: int) -> None:
        """Undoes the writes of the current command, of which `mark` were before; its locks stay."""
        while len(self.log) > mark:
            table, row, writer, pending, previous, command = self.log.pop()
            written = row.pending
            row.writer, row.pending, row.previous, row.command = writer, pending, previous, command
            kept = (row.values, pending)
            for index in table.indexes:
                keys = {index.key_of(values) for values in kept if values is not None}
                if written is not None and index.key_of(written) not in keys:
                    index.remove(index.key_of(written), row)
            if writer is None and row.values is None and not row.history:
                table.rows.pop(row.number, None)

    def release(self) -> None:
        """Releases all locks."""
        for row in self.locked:
            if row.owner is self:
                row.owner = None
            if row.sharers is not None:
                row.sharers.discard(self)
                if not row.sharers:
                    row.sharers = None
        for table in self.tables:
            table.locks.pop(self, None)
        self.locked, self.tables = [], []

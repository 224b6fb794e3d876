"""The resource store in memory, with the same guarantees as in PostgreSQL."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from slackwater.events.envelope import Event
from slackwater.events.resource_changed import ResourceChanged
from slackwater.model.errors import Conflict, Unavailable
from slackwater.resources.changed_event import changed_event
from slackwater.resources.kind import Kind
from slackwater.resources.store import KEPT_GENERATIONS, PastGeneration, StoredResource

_CHANGED_AT = datetime(2026, 1, 1, tzinfo=UTC)


class _Transaction:
    unit = None

    def __init__(self, rows: dict[str, StoredResource], kind: str) -> None:
        self.rows = rows
        self.saved: list[StoredResource] = []
        self._kind = kind

    async def read_all(self) -> Sequence[StoredResource]:
        return [self.rows[name] for name in sorted(self.rows)]

    async def save(self, document: StoredResource) -> None:
        present = self.rows[document.name].generation if document.name in self.rows else 0
        if document.generation != present + 1:
            raise Conflict(f"{self._kind} {document.name}: generation {document.generation - 1} is not what is stored")
        self.rows[document.name] = copy.deepcopy(document)
        self.saved.append(self.rows[document.name])


class MemoryResourceStore:
    """`away=True` simulates a database that is down. `tells` are called after each change."""

    def __init__(self, kind: Kind | None = None) -> None:
        """With a kind, `published` holds the events of its changes."""
        self.rows: dict[str, StoredResource] = {}
        self.away = False
        self.tells: list[Callable[[], None]] = []
        self.published: list[Event[ResourceChanged]] = []
        self._kind = kind
        self._past: dict[str, list[PastGeneration]] = {}
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[_Transaction]:
        async with self._turn:
            self._refuse_if_away()
            transaction = _Transaction(dict(self.rows), "document" if self._kind is None else self._kind.noun)
            yield transaction
            changed, self.rows = transaction.rows != self.rows, transaction.rows
            for row in transaction.saved:
                self._record(row)
        if changed:
            for tell in self.tells:
                tell()

    async def read_all(self) -> Sequence[StoredResource]:
        self._refuse_if_away()
        return [self.rows[name] for name in sorted(self.rows)]

    async def history(self, name: str) -> Sequence[PastGeneration]:
        self._refuse_if_away()
        return self._past.get(name, [])[::-1]

    async def record_missing(self) -> int:
        self._refuse_if_away()
        known = {(name, past.generation) for name, pasts in self._past.items() for past in pasts}
        missing = [row for row in self.rows.values() if (row.name, row.generation) not in known]
        for row in missing:
            self._record(row)
        return len(missing)

    def _record(self, row: StoredResource) -> None:
        past = PastGeneration(row.generation, row.document, row.author, row.changed_at or _CHANGED_AT)
        if self._kind is not None:
            self.published.append(changed_event(self._kind, row, past.changed_at))
        self._past[row.name] = [*self._past.get(row.name, []), past][-KEPT_GENERATIONS:]

    def _refuse_if_away(self) -> None:
        if self.away:
            raise Unavailable("the database does not answer")

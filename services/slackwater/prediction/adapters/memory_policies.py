"""Policy documents in memory: same promises as PostgreSQL, for tests."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from slackwater.model.errors import Conflict, Unavailable
from slackwater.prediction.ports import StoredPolicy


class _Transaction:
    def __init__(self, rows: dict[str, StoredPolicy]) -> None:
        self.rows = rows

    async def policies(self) -> Sequence[StoredPolicy]:
        return [self.rows[name] for name in sorted(self.rows)]

    async def save(self, policy: StoredPolicy) -> None:
        present = self.rows[policy.name].generation if policy.name in self.rows else 0
        if policy.generation != present + 1:
            raise Conflict(f"predictpolicy {policy.name}: generation {policy.generation - 1} is not what is stored")
        self.rows[policy.name] = copy.deepcopy(policy)


class MemoryPolicyStore:
    """`away=True` makes it answer like a database that is down; `tell` is called after each change."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredPolicy] = {}
        self.away = False
        self.tells: list[Callable[[], None]] = []
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[_Transaction]:
        async with self._turn:
            self._refuse_if_away()
            transaction = _Transaction(dict(self.rows))
            yield transaction
            changed, self.rows = transaction.rows != self.rows, transaction.rows
        if changed:
            for tell in self.tells:
                tell()

    async def policies(self) -> Sequence[StoredPolicy]:
        self._refuse_if_away()
        return [self.rows[name] for name in sorted(self.rows)]

    def _refuse_if_away(self) -> None:
        if self.away:
            raise Unavailable("the database does not answer")

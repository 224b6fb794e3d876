"""Reads of one tree that wait at the same time share one transaction.

A read takes the tree's turn, as a write does. Where a transaction is slow, reads of many callers would otherwise hold
up each other and all writes, longer than the callers wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from slackwater.quota.domain.ledger_records import KeptClaim
from slackwater.quota.domain.tree_ledger import TreeLedger
from slackwater.quota.ports import LedgerStore, LedgerUnit

R = TypeVar("R")
Reading = Callable[[TreeLedger, Mapping[str, KeptClaim]], R]
"""What is read of the claims that have not ended, and of the ended ones that reads name. It must not wait."""


@dataclass(slots=True, eq=False)
class PendingRead(Generic[R]):
    """One read, and what came of it."""

    reading: Reading[R]
    claim: str
    result: R | None = None
    error: Exception | None = None
    is_done: bool = False

    def carry_out(self, current: TreeLedger, ended: Mapping[str, KeptClaim]) -> None:
        """An error stays with this read."""
        try:
            self.result = self.reading(current, ended)
        except Exception as error:  # noqa: BLE001 - of this read alone
            self.error = error
        self.is_done = True


class SharedReads:
    """Of one tree. Each read sees what was stored when it was asked for, or later."""

    def __init__(
        self,
        turn: asyncio.Lock,
        store: LedgerStore,
        current: Callable[[LedgerUnit], Awaitable[TreeLedger]],
    ) -> None:
        """`current` gives the claims as they are stored now."""
        self._turn = turn
        self._store = store
        self._current = current
        self._pending: list[PendingRead[Any]] = []

    async def read(self, reading: Reading[R], claim: str = "") -> R:
        """Returns what `reading` returns of the tree as it is stored now; a `claim` that it needs is looked for among
        the ended ones too. Raises its error, Unavailable."""
        mine = PendingRead(reading, claim)
        self._pending.append(mine)
        try:
            async with self._turn:
                if not mine.is_done:
                    await self._carry_out()
        finally:
            if mine in self._pending:  # the caller left before its turn
                self._pending.remove(mine)
        if mine.error is not None:
            raise mine.error
        return mine.result  # type: ignore[return-value]  # it is done, so its result is of R

    async def _carry_out(self) -> None:
        """Carry out all reads that wait. If this caller leaves meanwhile, the next one's turn begins again."""
        reads, self._pending = self._pending, []
        try:
            await self._answer(reads)
        except Exception as error:  # noqa: BLE001 - of all reads that it kept from being carried out
            for read in reads:
                if not read.is_done:
                    read.error, read.is_done = error, True
        except BaseException:
            self._pending = [*(read for read in reads if not read.is_done), *self._pending]
            raise

    async def _answer(self, reads: Sequence[PendingRead[Any]]) -> None:
        async with self._store.unit_of_work() as unit:
            current = await self._current(unit)
            missing = {read.claim for read in reads if read.claim} - current.kept.keys()
            ended = await unit.find(sorted(missing)) if missing else {}
            for read in reads:
                read.carry_out(current, ended)

"""Reads of a tree that wait at the same time: one transaction, an answer of its own for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from slackwater.model.errors import Unavailable
from slackwater.quota.domain.ledger_records import KeptClaim, StoredTree
from slackwater.quota.domain.tree_ledger import TreeLedger
from slackwater.quota.ports import LedgerStore, LedgerUnit
from slackwater.quota.usecases.shared_reads import SharedReads


class SlowStore:
    """Transactions wait until they may begin; another replica changes the tree after each look."""

    def __init__(self) -> None:
        self.begun = 0
        self.generation = 0
        self.may_begin = asyncio.Event()
        self.refuses = False
        self.looked_for: list[list[str]] = []

    @asynccontextmanager
    async def unit_of_work(self) -> AsyncIterator[LedgerUnit]:
        self.begun += 1
        await self.may_begin.wait()
        if self.refuses:
            raise Unavailable("PostgreSQL does not answer")
        yield cast("LedgerUnit", self)

    async def find(self, ids: Sequence[str]) -> Mapping[str, KeptClaim]:
        self.looked_for.append(list(ids))
        return {}

    async def current(self, unit: LedgerUnit) -> TreeLedger:
        self.generation += 1
        return TreeLedger(StoredTree("", generation=self.generation), [])


class Readers:
    """Reads of one tree, and its turn."""

    def __init__(self) -> None:
        self.store = SlowStore()
        self.turn = asyncio.Lock()
        self.reads = SharedReads(self.turn, cast("LedgerStore", self.store), self.store.current)

    async def ask(self, claim: str = "") -> asyncio.Task[int]:
        """A read that has begun to wait."""
        task = asyncio.create_task(self.reads.read(generation_of, claim))
        await asyncio.sleep(0)
        return task


def generation_of(current: TreeLedger, _: Mapping[str, KeptClaim]) -> int:
    return current.stored.generation


async def test_reads_that_wait_together_share_a_transaction() -> None:
    readers = Readers()
    async with readers.turn:  # a write is under way
        tasks = [await readers.ask(f"c{number % 3}") for number in range(20)]
    readers.store.may_begin.set()
    assert await asyncio.gather(*tasks) == [1] * 20
    assert readers.store.begun == 1
    assert readers.store.looked_for == [["c0", "c1", "c2"]]


async def test_a_read_is_not_told_what_was_read_before_it_was_asked_for() -> None:
    readers = Readers()
    first = await readers.ask()
    assert readers.store.begun == 1
    late = await readers.ask()
    readers.store.may_begin.set()
    assert await first == 1
    assert await late == 2
    assert readers.store.begun == 2


async def test_an_error_of_one_read_is_its_own() -> None:
    readers = Readers()

    def broken(current: TreeLedger, _: Mapping[str, KeptClaim]) -> Any:
        raise LookupError("mine")

    async with readers.turn:
        good, bad = await readers.ask(), asyncio.create_task(readers.reads.read(broken))
        await asyncio.sleep(0)
    readers.store.may_begin.set()
    with pytest.raises(LookupError, match="mine"):
        await bad
    assert await good == 1


async def test_a_database_that_does_not_answer_is_told_to_all_and_asked_again_by_the_next() -> None:
    readers = Readers()
    readers.store.refuses = True
    readers.store.may_begin.set()
    async with readers.turn:
        tasks = [await readers.ask() for _ in range(3)]
    for task in tasks:
        with pytest.raises(Unavailable):
            await task
    readers.store.refuses = False
    assert await (await readers.ask()) == 1


@pytest.mark.parametrize("leaves", [0, 1])
async def test_a_caller_that_leaves_takes_no_other_with_it(leaves: int) -> None:
    readers = Readers()
    async with readers.turn:
        tasks = [await readers.ask() for _ in range(3)]
    while not readers.store.begun:
        await asyncio.sleep(0)
    tasks[leaves].cancel()  # 0 carries the reads out, 1 waits for its turn
    readers.store.may_begin.set()
    with pytest.raises(asyncio.CancelledError):
        await tasks[leaves]
    assert [await task for task in tasks if task is not tasks[leaves]] == [1, 1]

"""Blocks of agents are stored alike in PostgreSQL and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from tests.support.clock import EPOCH
from tests.support.ingestion.blocks import MemoryBlocks
from tests.support.postgres_server import FreshDatabase
from tests.support.store import MemoryDatabase

from slackwater.ingestion.adapters.blocks import PostgresBlockBook
from slackwater.ingestion.domain.blocks import AgentBlock
from slackwater.ingestion.ports import BlockBooks
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.port import Database


@dataclass
class Kept:
    """A database and its books."""

    database: Database
    books: BlockBooks


@pytest.fixture(params=["memory", "postgres"])
async def kept(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[Kept]:
    if request.param == "memory":
        yield Kept(MemoryDatabase(), MemoryBlocks().books())
        return
    database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", SystemClock())
    yield Kept(database, PostgresBlockBook)
    await database.close()


BLOCK = AgentBlock("n", 1, blocked=True, reason="schickt Gift ☠", changed_by="ada", since=EPOCH)


async def test_the_last_change_of_a_node_counts(kept: Kept) -> None:
    lifted = replace(BLOCK, generation=2, blocked=False, changed_by="bob")
    other = replace(BLOCK, node="a")
    for change in (BLOCK, lifted, other):
        async with kept.database.unit_of_work() as unit:
            book = kept.books(unit)
            await book.lock()
            await book.append(change)
    async with kept.database.unit_of_work() as unit:
        book = kept.books(unit)
        assert await book.last("n") == lifted
        assert await book.last("nobody") is None
        assert await book.in_force() == [other]


async def test_what_is_rolled_back_is_not_kept(kept: Kept) -> None:
    async def fail() -> None:
        async with kept.database.unit_of_work() as unit:
            await kept.books(unit).append(BLOCK)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await fail()
    async with kept.database.unit_of_work() as unit:
        assert await kept.books(unit).in_force() == []

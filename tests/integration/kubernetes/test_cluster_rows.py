"""Evictions and the ledger of documents in PostgreSQL, in its twin and in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from tests.support.clock import EPOCH
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.store import MemoryDatabase

from slackwater.events.envelope import event_of
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome, completion_id
from slackwater.kubernetes.adapters.document_rows import KeyedDocumentLedger
from slackwater.kubernetes.adapters.eviction_rows import KeyedEvictionStore
from slackwater.kubernetes.domain.document_plan import FollowStatus, FollowVerdict, LedgerEntry
from slackwater.kubernetes.domain.eviction_plan import EvictionPhase, TrackedEviction
from slackwater.kubernetes.ports import StoredEvictions
from slackwater.model.errors import Conflict
from slackwater.model.identifiers import ALL_PARTITIONS, partition_of
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.quarantine_memory import unstored

EVICTION = TrackedEviction(
    *("d-0", "u", "ensurance", "d", 4.5, EPOCH, "event"),
    pod="jobs/one",
    phase=EvictionPhase.COMPLETED,
    calls=2,
    due_at=EPOCH,
    accepted_at=EPOCH,
    refusal="a budget",
    outcome=EvictionOutcome.KILLED,
    detail="late",
    completed_at=EPOCH,
)
ENTRY = LedgerEntry("autonomies/gold", "u", 3, 2, 7, FollowVerdict(FollowStatus.FALSE, "NodePoolTaken", "pool 'gold'"))


@pytest_asyncio.fixture(params=["memory", "twin", "postgres"])
async def database(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[Any]:
    if request.param == "memory":
        yield MemoryDatabase()
        return
    if request.param == "twin":
        database: Any = twin_of("kubernetes")
    else:
        addresses = await fresh_database(["kubernetes"])
        database = connect_database(addresses["kubernetes"], "kubernetes", SystemClock())
    yield database
    await database.close()


async def test_evictions_are_read_as_written_by_partition_and_kept_apart_by_version(database: Any) -> None:
    store = KeyedEvictionStore(database, unstored())
    end = EvictionCompleted(
        id="d-0",
        node="n.1",
        pod_uid="u",
        writer="ensurance",
        outcome=EvictionOutcome.KILLED,
        completed_at=EPOCH,
        decision_id="d",
    )
    event = event_of(end, source="kubernetes", time=EPOCH, id=completion_id("n.1", "d-0"))
    rows = [StoredEvictions("n.1", 0, (EVICTION,)), StoredEvictions("n.2", 0, (replace(EVICTION, id="d-1"),))]
    written = await store.save(rows, [event])
    assert [row.version for row in written] == [1, 1]
    assert sorted(await store.load(ALL_PARTITIONS), key=lambda row: row.node) == list(written)
    assert [row.node for row in await store.load([partition_of("n.1")])] in (["n.1"], ["n.1", "n.2"])
    with pytest.raises(Conflict):
        await store.save([StoredEvictions("n.1", 0)], [])
    (emptied,) = await store.save([replace(written[0], evictions=())], [])
    assert emptied in await store.load(ALL_PARTITIONS)


async def test_the_ledger_is_read_as_written(database: Any) -> None:
    ledger = KeyedDocumentLedger(database, unstored())
    await ledger.write(ENTRY)
    changed = replace(ENTRY, generation=4, in_force=4, verdict=FollowVerdict(FollowStatus.TRUE, "Followed", ""))
    await ledger.write(changed)
    await ledger.write(replace(ENTRY, key="autonomies/silver"))
    assert {entry.key: entry for entry in await ledger.load()}["autonomies/gold"] == changed
    await ledger.remove("autonomies/silver")
    await ledger.remove("autonomies/silver")
    assert list(await ledger.load()) == [changed]

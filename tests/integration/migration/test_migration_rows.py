"""What is kept of moves comes back as it was, and two writers never write the same generation: on PostgreSQL, and on
the twin of the simulated world."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of

from slackwater.events.envelope import event_of
from slackwater.migration.adapters.migration_rows import RESERVATION_ROWS, KeyedMigrationStore
from slackwater.migration.domain.job_asks import JobAsk
from slackwater.migration.domain.reservation_round import reservation_for
from slackwater.migration.domain.stored_jobs import (
    ArbitrationState,
    EvictionAnswer,
    EvictionGrant,
    GrantAnswer,
    MigrationLedger,
    MovedPod,
    NodeDocument,
    StoredJob,
    TakenPod,
)
from slackwater.migration.usecases.job_records import job_event
from slackwater.model.errors import Conflict
from slackwater.model.time import SystemClock
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob
from slackwater.podmigration.lifecycle import MoveView, OldPod, ReservationState, admit, advance, start
from slackwater.podmigration.limits import HoldFilter, JobHold
from slackwater.podmigration.rate import LimiterBucket, LimiterScope, MigrationQueue
from slackwater.store.engine import connect_database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_table import PostgresQuarantine

NOW_S = 1_767_571_200.25


@pytest.fixture(params=["twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[KeyedMigrationStore]:
    if request.param == "twin":
        database = twin_of("migration")
    else:
        database = connect_database((await fresh_database(["migration"]))["migration"], "migration", SystemClock())
    quarantine = Quarantine("migration", PostgresQuarantine(database, "migration"), SystemClock())
    yield KeyedMigrationStore(database, quarantine)
    await database.close()


def full_ledger() -> MigrationLedger:
    """A job under way with its reservation, one that waits, and every field of the state."""
    pod = MovedPod("uid-1", "web-0", "shop", "shop/web", requests={"cpu": 2_000}, peak={"cpu": 900}, reported_s=NOW_S)
    pod = replace(pod, labels={"app": "web"})
    job = start(admit(MigrationJob("first-1", "uid-1", "n0", NOW_S), NOW_S), NOW_S)
    job = advance(job, MoveView(OldPod.RUNNING, ReservationState.PENDING), NOW_S) or job
    moving = StoredJob(job, JobRequest("first", 1, "uid-1"), pod, grant=EvictionGrant("r-1", NOW_S, NOW_S + 120))
    hold = JobHold(HoldFilter.NODE, "n0", 2, 2, NOW_S)
    waiting = StoredJob(MigrationJob("second-1", "uid-2", "n0", NOW_S), JobRequest("second", 1, "uid-2"), pod, hold)
    state = ArbitrationState(
        round_s=NOW_S,
        queue=MigrationQueue(("third",), LimiterBucket(0.5, NOW_S)),
        buckets={(LimiterScope.WORKLOAD, "shop/web"): LimiterBucket(0.25, NOW_S)},
        documents={"n0": NodeDocument(3, ("first-1-1",), NOW_S)},
        taken=(TakenPod("uid-0", "shop", {"app": "web"}, NOW_S),),
    )
    kept = reservation_for(moving, NOW_S)
    return MigrationLedger(state, {"first": moving, "second": waiting}, {kept.name: kept})


async def test_the_ledger_comes_back_as_it_was_and_goes_row_by_row(store: KeyedMigrationStore) -> None:
    first = await store.load()
    assert first == MigrationLedger()
    clock = SystemClock()
    wanted = full_ledger()
    event = event_of(job_event(wanted.jobs["first"], clock.now()), source="migration", time=clock.now())
    written = await store.commit(first, wanted, [event])
    jobs = {name: replace(stored, version=1) for name, stored in wanted.jobs.items()}
    assert as_rows(await store.load()) == as_rows(replace(wanted, state=replace(wanted.state, generation=1), jobs=jobs))
    assert await store.generation() == 1
    assert as_rows(written) == as_rows(await store.load())
    with pytest.raises(Conflict):
        await store.commit(first, wanted, ())
    assert (await store.load()).state.generation == 1, "the second writer of a generation wrote nothing"
    changed = replace(written.jobs["second"], attempt=2)
    written = await store.commit(written, replace(written, jobs={**written.jobs, "second": changed}), ())
    assert {name: stored.version for name, stored in (await store.jobs()).items()} == {"first": 1, "second": 2}
    emptied = replace(written, jobs={"second": written.jobs["second"]}, reservations={})
    written = await store.commit(written, emptied, ())
    assert as_rows(await store.load()) == as_rows(written)


def as_rows(ledger: MigrationLedger) -> list[object]:
    """A list that was read and a tuple that was written are one JSON."""
    rows = [RESERVATION_ROWS.encode(stored) for stored in ledger.reservations.values()]
    return [ledger.state, ledger.jobs, rows]


async def test_asks_and_answers_are_kept_until_they_are_taken(store: KeyedMigrationStore) -> None:
    proposed = JobAsk("move-1", NOW_S, JobRequest("move-1", pod_uid="uid-1", source="descheduler"))
    await store.ask([proposed, JobAsk("other", NOW_S)])
    await store.ask([JobAsk("move-1", NOW_S + 9, replace(proposed.request or JobRequest(""), reason="again"))])
    assert await store.asks() == {"propose/move-1": proposed, "abort/other": JobAsk("other", NOW_S)}
    ledger = await store.load()
    await store.commit(ledger, ledger, (), ["propose/move-1"])
    assert set(await store.asks()) == {"abort/other"}

    evicted = EvictionAnswer("n1", "first-1-1", "terminated", "", NOW_S, NOW_S)
    grant = GrantAnswer("migration-2", ("first-1",), "", None, NOW_S + 120)
    forged = replace(evicted, node="n2", outcome="pod_gone")
    for said in (forged, evicted, grant, replace(evicted, outcome="failed")):
        await store.answer(said)
    assert sorted(await store.answers([evicted.key, "migration-2", "none"]), key=lambda said: said.id) == [
        evicted,
        grant,
    ]
    assert await store.drop_answers(NOW_S + 60) == 2
    assert await store.answers([evicted.key, "migration-2"]) == [grant]

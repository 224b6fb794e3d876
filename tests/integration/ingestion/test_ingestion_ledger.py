"""The ledger keeps its promises on PostgreSQL and in memory alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.support.clock import EPOCH
from tests.support.ingestion.ledger import Books
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of
from tests.support.reports import described, host_app, pod_usage, report
from tests.support.store import MemoryDatabase

from slackwater.ingestion.adapters.postgres import PostgresUsageLedger
from slackwater.ingestion.domain.columns import columns_of
from slackwater.ingestion.domain.reports import HistoryRow, KnownNode, Pressures, SequenceTrack
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.domain.windowing import Before, close_windows
from slackwater.ingestion.domain.windowing_columnar import close_windows_columnar
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.errors import InvalidInput
from slackwater.model.nodes import Liveness
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.model.time import SystemClock
from slackwater.store.engine import connect_database
from slackwater.store.port import Database


@dataclass
class Kept:
    """A database and its ledgers; `ledgers` is Any because the tests also use what the port does not need."""

    database: Database
    ledgers: Any


@pytest.fixture(params=["memory", "twin", "postgres"])
async def kept(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[Kept]:
    if request.param == "memory":
        yield Kept(MemoryDatabase(), Books().ledgers())
        return
    if request.param == "twin":
        database = twin_of("ingestion")
    else:
        database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", SystemClock())
    yield Kept(database, PostgresUsageLedger.remembering())
    await database.close()


NODE = KnownNode(
    "n",
    track=SequenceTrack("boot-2", ("boot-1", "boot-0"), 2**40, (7, 9)),
    last_report_at=EPOCH,
    liveness=Liveness.FRESH,
    newest_at=EPOCH,
    closed_until=None,
    gaps=2,
)


async def save(kept: Kept, *nodes: KnownNode) -> None:
    async with kept.database.unit_of_work() as unit:
        await kept.ledgers(unit).save(nodes)


async def test_a_node_is_found_as_it_was_saved(kept: Kept) -> None:
    await save(kept, NODE, KnownNode("m"))
    async with kept.database.unit_of_work() as unit:
        assert await kept.ledgers(unit).nodes(["n", "m", "x"]) == {"n": NODE, "m": KnownNode("m")}


async def test_what_is_not_committed_did_not_happen(kept: Kept) -> None:
    async def fail() -> None:
        async with kept.database.unit_of_work() as unit:
            ledger = kept.ledgers(unit)
            await ledger.save([NODE])
            await ledger.keep_days([EPOCH.date()])
            await ledger.append(columns_of([history_row("n", 1, 3, "a")]))
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await fail()
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        assert await ledger.nodes(["n"]) == {}
        assert await ledger.pods() == []
        assert await ledger.days() == []


async def test_a_description_sets_the_capacity_and_an_older_one_changes_nothing(kept: Kept) -> None:
    await save(kept, NODE)
    for at, cpu, taken in ((EPOCH, 4000, True), (EPOCH - timedelta(hours=1), 1, False), (EPOCH, 8000, True)):
        async with kept.database.unit_of_work() as unit:
            data = described("n", at, cpu)
            assert await kept.ledgers(unit).describe(data.facts, data.boot_epoch, data.described_at) is taken
    await save(kept, replace(NODE, gaps=3))
    async with kept.database.unit_of_work() as unit:
        found = (await kept.ledgers(unit).nodes(["n"]))["n"]
    assert found == replace(NODE, gaps=3, capacity=Resources(8000, data.facts.capacity.memory_bytes))


def history_row(node: str, sequence: int, at_seconds: float, *pods: str) -> HistoryRow:
    sampled_at = EPOCH + timedelta(seconds=at_seconds)
    measured = [pod_usage(uid) for uid in pods]
    data = report_from(report(node, sequence, sampled_at, pods=measured))
    return HistoryRow(replace(data, pressures=Pressures(prod_cpu_last=0.5)), sampled_at, 3, late=sequence == 2)


async def append(kept: Kept, *rows: HistoryRow) -> None:
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        await ledger.keep_days(sorted({row.report.midpoint_at.date() for row in rows}))
        await ledger.append(columns_of(rows))


async def test_history_gives_back_what_was_appended(kept: Kept) -> None:
    rows = [history_row("n", 1, 3, "a", "b"), history_row("n", 2, 8), history_row("m", 1, 8, "c")]
    bare = replace(rows[1].report, system_cpu=None, system_memory=None)
    rows[1] = replace(rows[1], report=bare)
    await append(kept, *rows)
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        assert await ledger.history(["n"], EPOCH, EPOCH + timedelta(minutes=1)) == rows[:2]
        assert await ledger.history(["n", "m"], EPOCH + timedelta(seconds=5.5), EPOCH + timedelta(minutes=1)) == [
            rows[2], rows[1],
        ]  # fmt: skip
        assert await ledger.history(["n"], EPOCH, rows[0].report.midpoint_at) == []


async def test_host_applications_are_kept_with_the_report_they_came_in(kept: Kept) -> None:
    rows = [history_row("n", 1, 3, "a"), history_row("n", 2, 8, "a"), history_row("n", 3, 9)]
    told = report_from(report("n", 1, EPOCH, host_apps=[host_app("nginx"), host_app("yarn", Tier.BATCH)])).host_apps
    rows[0] = replace(rows[0], report=replace(rows[0].report, host_apps=told))
    await append(kept, *rows)
    span = (EPOCH, EPOCH + timedelta(minutes=1))
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        assert await ledger.history(["n"], *span) == rows
        found = close_windows_columnar(await ledger.columns_within({"n": span}), 60)
    assert found == close_windows(rows, 60)
    assert [app.name for window in found for app in window.host_apps] == ["nginx", "yarn"]


async def test_columns_hold_what_the_rows_do(kept: Kept) -> None:
    rows = [history_row("n", 1, 3, "a", "b"), history_row("n", 2, 8), history_row("m", 1, 8, "c", "a")]
    await append(kept, *rows)
    span = (EPOCH, EPOCH + timedelta(minutes=1))
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        found = await ledger.columns_within({"n": span, "m": span, "nobody": span})
        reference = close_windows(await ledger.history(["n", "m"], *span), 60)
        assert close_windows_columnar(found, 60) == reference
        assert [(window.node, window.reports, len(window.pods)) for window in reference] == [("m", 1, 2), ("n", 1, 2)]
        later = await ledger.columns_within({"n": (EPOCH + timedelta(seconds=30), EPOCH + timedelta(minutes=1))})
    assert list(later.rows) == []


async def test_a_report_that_is_stored_between_two_looks_is_left_out(
    fresh_database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows are read without locks: 500 was the answer when a report came between its two statements."""
    database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", SystemClock())
    kept = Kept(database, PostgresUsageLedger.remembering())
    await append(kept, history_row("n", 1, 3, "a"))
    looking = AsyncConnection.execute

    async def execute(connection: AsyncConnection, statement: Any, *values: Any) -> Any:
        if "FROM report_pods" in str(statement):  # the reports have been read, their pods have not
            await append(kept, history_row("n", 2, 8, "a", "b"))
        return await looking(connection, statement, *values)

    monkeypatch.setattr(AsyncConnection, "execute", execute)
    async with database.unit_of_work() as unit:
        found = await kept.ledgers(unit).columns_within({"n": (EPOCH, EPOCH + timedelta(minutes=1))})
    assert [row.report.sequence for row in found.rows] == [1]
    assert len(close_windows_columnar(found, 60)[0].pods) == 1
    await database.close()


async def test_a_pod_that_left_is_gone_lost_and_seen_again(kept: Kept) -> None:
    await report_once(kept, 1, "a")
    await report_once(kept, 6, "b")
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        gone = await ledger.gone_pods(EPOCH + timedelta(seconds=30))
        assert [pod.uid for pod in gone] == ["a"]
        await ledger.save_pods([replace(gone[0], liveness=Liveness.LOST)])
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        assert await ledger.gone_pods(EPOCH + timedelta(seconds=30)) == []
        assert [(pod.uid, pod.liveness) for pod in await ledger.pods()] == [
            ("a", Liveness.LOST), ("b", Liveness.FRESH),
        ]  # fmt: skip
    await report_once(kept, 7, "a")
    async with kept.database.unit_of_work() as unit:
        assert {pod.liveness for pod in await kept.ledgers(unit).pods()} == {Liveness.FRESH}


async def test_a_pod_that_stays_is_seen_with_every_report_and_one_that_left_is_not(kept: Kept) -> None:
    for number, pods in enumerate(("ab", "ab", "ab", "b", "b"), 1):
        await report_once(kept, number, *pods)
    assert await seen(kept) == {"a": 30, "b": 50}
    for until_seconds in (40, 51):
        async with kept.database.unit_of_work() as unit:
            gone = await kept.ledgers(unit).gone_pods(EPOCH + timedelta(seconds=until_seconds))
        assert [(pod.uid, pod.last_seen_at) for pod in gone] == [("a", EPOCH + timedelta(seconds=30))]


async def test_pods_that_a_node_reported_last_are_as_alive_as_the_node(kept: Kept) -> None:
    for number, pods in enumerate(("ab", "a"), 1):
        await report_once(kept, number, *pods)
    for liveness in (Liveness.STALE, Liveness.LOST):
        async with kept.database.unit_of_work() as unit:
            ledger = kept.ledgers(unit)
            await ledger.save([replace(node, liveness=liveness) for node in (await ledger.nodes(["n"])).values()])
        async with kept.database.unit_of_work() as unit:
            found = {pod.uid: pod.liveness for pod in await kept.ledgers(unit).pods()}
        assert found == {"a": liveness, "b": Liveness.FRESH}  # of b its own silence tells
    await report_once(kept, 3, "a")
    async with kept.database.unit_of_work() as unit:
        assert {pod.liveness for pod in await kept.ledgers(unit).pods()} == {Liveness.FRESH}


async def test_a_report_that_was_rolled_back_is_not_believed_to_be_written(kept: Kept) -> None:
    await report_once(kept, 1, "a")
    with pytest.raises(RuntimeError, match="on purpose"):
        await report_once(kept, 2, "a", "b", fail=True)
    await report_once(kept, 2, "a", "b")
    await report_once(kept, 3, "a", "b")
    assert await seen(kept) == {"a": 30, "b": 30}


async def test_what_another_writer_did_in_between_is_noticed(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", SystemClock())
    ours, theirs = (Kept(database, PostgresUsageLedger.remembering()) for _ in range(2))
    await report_once(ours, 1, "a")
    await report_once(theirs, 2, "b")
    await report_once(ours, 3, "a")
    assert await seen(ours) == {"a": 30, "b": 20}
    await report_once(ours, 4, "a")
    assert await seen(ours) == {"a": 40, "b": 20}
    await database.close()


async def test_old_pods_are_forgotten_unless_their_node_still_reports_them(kept: Kept) -> None:
    await report_once(kept, 1, "a", "b")
    await report_once(kept, 2, "b")
    await report_once(kept, 10_000, "b")
    async with kept.database.unit_of_work() as unit:
        await kept.ledgers(unit).delete_before(EPOCH.date() + timedelta(days=1))
    assert await seen(kept) == {"b": 100_000}


async def report_once(kept: Kept, sequence: int, *pods: str, fail: bool = False) -> None:
    """As accepting a report does it: load the node, append, save it as received now; ten seconds between two."""
    row = history_row("n", sequence, 10 * sequence, *pods)
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        node = (await ledger.nodes(["n"])).get("n", KnownNode("n"))
        await ledger.keep_days([row.report.midpoint_at.date()])
        await ledger.append(columns_of([row]))
        await ledger.save([replace(node, last_report_at=row.received_at, liveness=Liveness.FRESH)])
        if fail:
            raise RuntimeError("on purpose")


async def seen(kept: Kept) -> dict[str, float]:
    """Seconds after EPOCH at which each pod was last seen."""
    async with kept.database.unit_of_work() as unit:
        return {pod.uid: (pod.last_seen_at - EPOCH).total_seconds() for pod in await kept.ledgers(unit).pods()}


async def test_silent_nodes_have_spoken_once_and_are_not_lost(kept: Kept) -> None:
    late = EPOCH + timedelta(minutes=1)
    await save(
        kept,
        NODE,
        replace(NODE, name="stale", liveness=Liveness.STALE),
        replace(NODE, name="lost", liveness=Liveness.LOST),
        replace(NODE, name="speaking", last_report_at=late),
        KnownNode("never"),
    )
    async with kept.database.unit_of_work() as unit:
        found = await kept.ledgers(unit).silent_nodes(late)
        counted = await kept.ledgers(unit).count_by_liveness(EPOCH)
        later = await kept.ledgers(unit).count_by_liveness(late)
    assert [node.name for node in found] == ["n", "stale"]
    assert dict(counted) == {"fresh": 2, "stale": 1, "lost": 1, "silent": 1}
    assert dict(later) == {"fresh": 2, "stale": 1, "silent": 1}, "lost for so long that it is not counted"


async def test_open_nodes_have_a_window_to_close(kept: Kept) -> None:
    minute = timedelta(minutes=1)
    await save(
        kept,
        NODE,
        replace(NODE, name="closed", closed_until=EPOCH + minute),
        replace(NODE, name="full", closed_until=EPOCH - minute),
        replace(NODE, name="going", closed_until=EPOCH, last_report_at=EPOCH + minute),
        replace(NODE, name="silent", closed_until=EPOCH),
        replace(NODE, name="nothing new", closed_until=EPOCH, newest_at=EPOCH - minute),
        KnownNode("never"),
    )
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        found = [node.name for node in await ledger.open_nodes(EPOCH + minute, EPOCH, 60, "", 10)]
        assert found == ["full", "n", "silent"]
        assert [node.name for node in await ledger.open_nodes(EPOCH + minute, EPOCH, 60, "full", 1)] == ["n"]
        named = await ledger.open_nodes(EPOCH + minute, EPOCH, 60, "", 10, among=["silent", "closed", "unknown"])
        assert [node.name for node in named] == ["silent"]


async def test_what_came_before_a_report_is_the_newest_in_time_and_the_late_ones_after_it(kept: Kept) -> None:
    late = replace(history_row("a", 6, 35), late=True)
    await append(kept, history_row("a", 3, 15), history_row("a", 5, 25), late, history_row("b", 7, 38))
    wanted = {("a", "boot-1"): history_row("a", 8, 45), ("b", "boot-1"): history_row("b", 7, 38)}
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        found = await ledger.before(wanted, EPOCH)
        forgotten = await ledger.before(wanted, EPOCH + timedelta(seconds=30))
    assert found == {("a", "boot-1"): Before(5, 1), ("b", "boot-1"): Before(None, 0)}
    assert forgotten["a", "boot-1"] == Before(None, 1)


async def test_what_came_before_a_report_is_found_where_the_clock_was_set_back_or_forward(kept: Kept) -> None:
    late = replace(history_row("a", 7, 12), late=True)
    rows = [history_row("a", 4, 25), history_row("a", 5, 14), history_row("a", 6, 16), late]
    await append(kept, *rows, history_row("b", 3, 15), history_row("b", 4, 59))
    wanted = {("a", "boot-1"): history_row("a", 8, 45), ("b", "boot-1"): history_row("b", 6, 38)}
    async with kept.database.unit_of_work() as unit:
        found = await kept.ledgers(unit).before(wanted, EPOCH)
    assert found == {("a", "boot-1"): Before(6, 1), ("b", "boot-1"): Before(4, 0)}


async def test_refusals_add_up(kept: Kept) -> None:
    for _ in range(2):
        async with kept.database.unit_of_work() as unit:
            counts = {("n", Refusal.ABSURD): 2, ("m", Refusal.NEGATIVE): 1}
            await kept.ledgers(unit).count_refusals(counts, EPOCH)
    async with kept.database.unit_of_work() as unit:
        assert await kept.ledgers(unit).refusals() == {("n", Refusal.ABSURD): 4, ("m", Refusal.NEGATIVE): 2}


async def test_days_are_kept_ahead_and_dropped_behind(kept: Kept) -> None:
    days = [date(2026, 1, day) for day in (3, 4, 5, 6)]
    for _ in range(2):
        async with kept.database.unit_of_work() as unit:
            await kept.ledgers(unit).keep_days(days)
    await append(kept, history_row("n", 1, -86400, "old"), history_row("n", 3, 10, "new"))
    async with kept.database.unit_of_work() as unit:
        await kept.ledgers(unit).delete_before(EPOCH.date())
    async with kept.database.unit_of_work() as unit:
        ledger = kept.ledgers(unit)
        assert await ledger.days() == days[2:]
        assert [pod.uid for pod in await ledger.pods()] == ["new"]
        found = await ledger.history(["n"], EPOCH - timedelta(days=2), EPOCH + timedelta(days=2))
        assert [row.report.sequence for row in found] == [3]


async def test_of_a_day_analyze_leaves_out_what_no_statement_looks_for(fresh_database: FreshDatabase) -> None:
    database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", SystemClock())
    async with database.unit_of_work() as unit:
        await PostgresUsageLedger.remembering()(unit).keep_days([EPOCH.date()])
        analyzed = await unit.connection.execute(
            text(
                "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
                " WHERE c.relname IN ('node_usage_20260105', 'report_pods_20260105')"
                " AND a.attndims > 0 AND a.attstattarget IS DISTINCT FROM 0"
            )
        )
        assert analyzed.all() == []
    await database.close()


@pytest.mark.parametrize("poison", [{"boot_epoch": "x\x00"}, {"sequence": 2**70}, {"boot_epoch": "\ud800"}])
async def test_what_postgresql_cannot_hold_is_an_invalid_input(
    fresh_database: FreshDatabase, poison: dict[str, Any]
) -> None:
    database = connect_database((await fresh_database(["ingestion"]))["ingestion"], "ingestion", SystemClock())
    row = history_row("n", 1, 3)
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await append(
            Kept(database, PostgresUsageLedger.remembering()), replace(row, report=replace(row.report, **poison))
        )
    bad = history_row("n", 1, 3, "a")
    first = bad.report.pods[0]
    pod = first._replace(pod=replace(first.pod, labels={"x": "\x00"}))
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await append(
            Kept(database, PostgresUsageLedger.remembering()), replace(bad, report=replace(bad.report, pods=(pod,)))
        )
    await database.close()

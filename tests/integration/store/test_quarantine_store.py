"""The promises of a quarantine, in memory and in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text
from tests.support.clock import FakeClock
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of

from slackwater.model.errors import InvalidInput, NotFound, Unavailable
from slackwater.store.engine import connect_database
from slackwater.store.quarantine import DOCUMENT_CHARACTERS, MOST_ITEMS, Item, Quarantine, QuarantineStore
from slackwater.store.quarantine_memory import MemoryQuarantine
from slackwater.store.quarantine_table import PostgresQuarantine


@pytest.fixture(params=["memory", "twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[QuarantineStore]:
    if request.param == "memory":
        yield MemoryQuarantine()
        return
    if request.param == "twin":
        database = twin_of("colocation")
    else:
        database = connect_database((await fresh_database(["colocation"]))["colocation"], "colocation", FakeClock())
    yield PostgresQuarantine(database, "colocation")
    await database.close()


def quarantine_of(store: QuarantineStore) -> Quarantine:
    return Quarantine("colocation", store, FakeClock())


async def test_what_is_noted_is_out_at_once_and_kept_with_what_stood_there(store: QuarantineStore) -> None:
    quarantine = quarantine_of(store)
    quarantine.note(
        "nodes", "n", InvalidInput("too large", code="unstorable"), node="n", document="\0" * 9000 + "\ud800"
    )
    assert quarantine.holds("nodes", "n")
    assert quarantine.holds_node("n")
    assert not quarantine.holds("nodes", "m")
    await quarantine.work()
    (item,) = await store.items()
    assert (item.table, item.row, item.node, item.reason, item.detail) == ("nodes", "n", "n", "unstorable", "too large")
    assert 0 < len(item.document) <= 2 * DOCUMENT_CHARACTERS
    other = quarantine_of(store)
    await other.load()
    assert other.holds_node("n")


async def test_repeats_count_and_do_not_grow(store: QuarantineStore) -> None:
    quarantine = quarantine_of(store)
    for _ in range(3):
        quarantine.note("nodes", "n", "broken", node="n")
    await quarantine.work()
    quarantine.note("nodes", "n", "broken", node="n")
    await quarantine.work()
    assert [item.count for item in await store.items()] == [4]


async def test_a_release_lets_go_on_every_replica_and_a_failure_brings_it_back(store: QuarantineStore) -> None:
    quarantine, other = quarantine_of(store), quarantine_of(store)
    tried: list[str] = []

    async def again(item: Item) -> None:
        tried.append(item.row)

    other.on_release(again)
    quarantine.note("nodes", "n", "broken", node="n")
    await quarantine.work()
    await other.load()
    (item,) = await store.items()
    await quarantine.release(item.id)
    await other.load()
    assert tried == ["n"]
    assert not quarantine.holds_node("n")
    assert not other.holds_node("n")
    with pytest.raises(NotFound):
        await quarantine.release(item.id)
    quarantine.note("nodes", "n", "broken", node="n")
    await quarantine.work()
    assert [one.id for one in await store.items()] == [item.id]


async def test_there_are_so_many_items_at_most(store: QuarantineStore) -> None:
    now = FakeClock().now()
    first = Item("colocation", "nodes", "n-0", "", "unreadable", "", "", now, now)  # type: ignore[arg-type] # a word
    quarantine = quarantine_of(store)
    for number in range(MOST_ITEMS + 2):
        quarantine.note("nodes", f"n-{number}", "broken", node=f"n-{number}")
    await quarantine.work()
    assert len(await store.items()) == MOST_ITEMS
    assert quarantine.holds_node(f"n-{MOST_ITEMS + 1}")
    assert await store.put(replace(first, reason=(await store.items())[0].reason, failed_at=now + timedelta(1)))


async def test_an_outage_is_no_rows_failure(store: QuarantineStore) -> None:
    quarantine = quarantine_of(store)
    with pytest.raises(Unavailable), quarantine.isolating("nodes", "n", node="n"):
        raise Unavailable("away")
    assert not quarantine.holds_node("n")
    with quarantine.isolating("nodes", "n", node="n"):
        raise OverflowError("too large")
    assert quarantine.holds_node("n")


async def test_a_document_that_can_be_read_again_is_released_by_itself(store: QuarantineStore) -> None:
    quarantine = quarantine_of(store)
    quarantine.follow("policies", {"default": "no spec"})
    await quarantine.work()
    assert quarantine.holds("policies", "default")
    quarantine.follow("policies", {})
    await quarantine.work()
    assert not quarantine.holds("policies", "default")
    assert await store.items() == []


@pytest.mark.parametrize("column", ["since", "failed_at"])
@pytest.mark.parametrize("at", ["infinity", "12000-01-01Z", "4000-01-01 BC"])
async def test_an_item_with_an_absurd_time_or_an_unknown_reason_is_listed_and_released(
    fresh_database: FreshDatabase, column: str, at: str
) -> None:
    database = connect_database((await fresh_database(["colocation"]))["colocation"], "colocation", FakeClock())
    try:
        quarantine = Quarantine("colocation", PostgresQuarantine(database, "colocation"), FakeClock())
        for node in ("n", "m"):
            quarantine.note("nodes", node, "broken", node=node)
        await quarantine.work()
        async with database.unit_of_work() as unit:
            await unit.connection.execute(
                text(f"UPDATE quarantine SET {column} = '{at}', reason = 'of a later version' WHERE node = 'n'")  # noqa: S608
            )
        other = Quarantine("colocation", PostgresQuarantine(database, "colocation"), FakeClock())
        await other.load()
        assert sorted(other.nodes) == ["m", "n"]
        (planted,) = [item for item in await other.items() if item.node == "n"]
        await other.release(planted.id)
        assert sorted(other.nodes) == ["m"]
    finally:
        await database.close()


async def test_an_item_whose_release_fails_comes_back_and_ends_nothing(store: QuarantineStore) -> None:
    quarantine = quarantine_of(store)

    async def fail(item: Item) -> None:
        raise ValueError("still broken")

    quarantine.on_release(fail)
    quarantine.note("nodes", "n", "broken", node="n")
    await quarantine.work()
    (item,) = await store.items()
    await quarantine.release(item.id)
    assert quarantine.holds_node("n")
    await quarantine.work()
    (again,) = await store.items()
    assert (again.id, again.detail) == (item.id, "ValueError: still broken")


async def test_what_failed_in_another_process_is_retried_once_by_the_owner_of_its_node(store: QuarantineStore) -> None:
    failed, restarted = quarantine_of(store), quarantine_of(store)
    failed.retry_inherited(lambda item: True)
    failed.note("nodes", "n", TypeError("half an upgrade"), node="n")
    failed.note("nodes", "m", TypeError("half an upgrade"), node="m")
    for _ in range(2):
        await failed.work()
    assert sorted(failed.nodes) == ["m", "n"], "the process that saw it fail does not retry it"

    retried: list[str] = []

    async def retry(item: Item) -> None:
        retried.append(item.row)
        if item.row == "m":
            raise ValueError("fails here too")

    owned: set[str] = set()
    restarted.on_release(retry)
    restarted.retry_inherited(lambda item: item.node in owned)
    await restarted.work()
    assert sorted(restarted.nodes) == ["m", "n"], "another replica may own them"
    owned |= {"m", "n"}
    for _ in range(3):
        await restarted.work()
    assert sorted(retried) == ["m", "n"]
    assert list(restarted.nodes) == ["m"]
    assert [(item.row, item.detail) for item in await store.items()] == [("m", "ValueError: fails here too")]
    await failed.work()
    assert list(failed.nodes) == ["m"], "the news of the release reaches the others, and none retries again"

"""The use cases on twins, in virtual time."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingestion_world import LATENESS, SILENCE, WINDOW, World
from tests.support.clock import EPOCH
from tests.support.ingestion.ledger import MemoryUsageLedger
from tests.support.reports import described, pod_usage, received, report

from slackwater.bus.port import Done, Received, Reject, Retry
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.usage_reported import UsageReported
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion.domain.columns import HistoryColumns
from slackwater.ingestion.domain.validation import Refusal
from slackwater.ingestion.usecases.watch_liveness import WatchLiveness
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.model.nodes import Liveness


@pytest.fixture
def world() -> World:
    return World()


async def test_the_good_of_a_batch_are_kept_and_the_others_refused_each_with_its_reason(world: World) -> None:
    now = world.clock.now()
    await world.describe(_description("n", 4000))
    batch = [
        received(report("n", 1, now)),
        received(report("n", 2, now).model_copy(update={"window_seconds": math.nan})),
        received(report("n", 1, now)),
        received(report("n", 3, now), key="m"),
        received(report("n", 4, now, cpu_milli=50_000)),
        received(report("n", 5, now - timedelta(days=1))),
        received(report("n", 6, now)),
    ]
    verdicts = await world.accept(batch)
    assert [verdict.reason if isinstance(verdict, Reject) else verdict for verdict in verdicts] == [
        Done(), Refusal.NOT_FINITE, Refusal.REPLAYED_SEQUENCE, Refusal.WRONG_NODE, Refusal.ABSURD, Refusal.CLOCK_SKEW,
        Done(),
    ]  # fmt: skip
    assert [row.report.sequence for row in world.books.rows] == [1, 6]
    assert world.books.refusals["m", Refusal.WRONG_NODE] == 1
    assert world.books.refusals["n", Refusal.ABSURD] == 1
    assert world.books.nodes["n"].gaps == 4
    assert "m" not in world.books.nodes


def _description(node: str, cpu_milli: int, key: str | None = None) -> Received[Any]:
    event = received(report(node, 1, EPOCH)).event.model_copy(update={"data": described(node, EPOCH, cpu_milli)})
    return Received(event, 0, 1, key or node)


async def test_a_description_under_a_foreign_name_or_without_capacity_is_refused(world: World) -> None:
    assert await world.describe(_description("n", 4000, key="m")) == Reject(
        Refusal.WRONG_NODE, "node: 'n' on the subject of 'm'; both must name the same node"
    )
    refused = await world.describe(_description("n", 0))
    assert isinstance(refused, Reject)
    assert refused.reason == Refusal.MALFORMED
    assert world.books.nodes == {}


async def test_a_redelivery_of_what_was_committed_is_done_and_of_what_was_not_is_taken(world: World) -> None:
    first, second = (received(report("n", sequence, world.clock.now()), deliveries=2) for sequence in (1, 2))
    assert await world.accept([second]) == [Done()]
    assert await world.accept([second]) == [Done()]
    third = received(report("n", 4, world.clock.now()))
    assert await world.accept([third]) == [Done()]
    between = received(report("n", 3, world.clock.now()), deliveries=2)
    assert await world.accept([between]) == [Done()]
    assert await world.accept([first]) == [Done()]
    assert [row.report.sequence for row in world.books.rows] == [2, 4, 3, 1]
    assert world.books.nodes["n"].gaps == 0
    assert world.books.refusals == {}


async def test_while_the_store_is_away_the_batch_is_held(world: World) -> None:
    world.database.away = True
    held = asyncio.create_task(world.report(1))
    await world.clock.advance(60)
    assert not held.done()
    world.database.away = False
    await world.clock.advance(1)
    assert held.result() == Done()


async def test_a_commit_whose_answer_was_lost_does_not_make_its_reports_replays(world: World) -> None:
    world.database.goes_after_commit = True
    held = asyncio.create_task(world.report(1))
    await world.clock.advance(1)
    assert held.result() == Done()
    assert len(world.books.rows) == 1
    assert world.books.refusals == {}


async def test_a_replica_that_stops_while_the_store_is_away_returns_its_batch(world: World) -> None:
    world.database.away = True
    held = asyncio.create_task(world.report(1))
    await world.clock.advance(1)
    world.reports.leave()
    await world.clock.advance(1)
    assert isinstance(held.result(), Retry)
    assert world.books.rows == []


async def test_a_window_waits_for_a_report_that_is_delivered_again(world: World) -> None:
    await world.clock.advance(50)
    await world.report(1)
    lost = received(report("n", 2, world.clock.now() + timedelta(seconds=5)), deliveries=2)
    await world.clock.advance(20)
    await world.report(3)
    assert await world.close() == 0
    assert await world.accept([lost]) == [Done()]
    assert await world.close() == 1
    (window,) = world.published(UsageWindowed)
    assert (window.reports, window.gaps) == (2, 0)


@pytest.mark.parametrize(("comes", "missing"), [(True, 0), (False, 1)])
async def test_missing_are_those_that_never_came_not_those_that_came_later(
    world: World, comes: bool, missing: int
) -> None:
    """The second report belongs to the first window and is noticed to be missing in the second one."""
    await world.clock.advance(50)
    await world.report(1)
    second = received(report("n", 2, world.clock.now() + timedelta(seconds=5)), deliveries=2)
    await world.clock.advance(20)
    await world.report(3)
    if comes:
        await world.accept([second])
    await world.clock.advance(20)
    assert await world.close() == 1
    await world.clock.advance(45)
    await world.report(4)
    await world.clock.advance(20)
    assert await world.close() == 1
    assert sum(window.gaps for window in world.published(UsageWindowed)) == missing
    assert world.books.nodes["n"].gaps == missing
    assert world.registry.get_sample_value("slackwater_ingestion_reports_missing_total") == missing


async def test_a_window_does_not_wait_for_ever_for_a_report_that_never_comes(world: World) -> None:
    await world.clock.advance(50)
    await world.report(1)
    await world.clock.advance(20)
    await world.report(3)
    await world.clock.advance(14)
    assert await world.close() == 0
    await world.clock.advance(1)
    assert await world.close() == 1


async def test_one_report_that_cannot_be_stored_does_not_take_the_others_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = MemoryUsageLedger.append

    async def picky(ledger: MemoryUsageLedger, history: HistoryColumns) -> None:
        if any(row.report.sequence == 2 for row in history.rows):
            raise InvalidInput("cannot hold it")
        await append(ledger, history)

    monkeypatch.setattr(MemoryUsageLedger, "append", picky)
    batch = [received(report("n", sequence, world.clock.now())) for sequence in (1, 2, 3)]
    assert await world.accept(batch) == [Done(), Reject(Refusal.UNSTORABLE, "cannot hold it"), Done()]
    assert [row.report.sequence for row in world.books.rows] == [1, 3]


async def test_a_number_that_no_column_holds_is_refused_alone(world: World) -> None:
    huge = report("n", 2, world.clock.now(), pods=[pod_usage("a", cpu_milli=2**70)])
    batch = [received(report("n", 1, world.clock.now())), received(huge), received(report("n", 3, world.clock.now()))]
    first, second, third = await world.accept(batch)
    assert (first, third) == (Done(), Done())
    assert isinstance(second, Reject)
    assert second.reason == Refusal.ABSURD
    assert [row.report.sequence for row in world.books.rows] == [1, 3]


async def test_a_report_that_is_not_called_sound_is_judged_with_all_its_pods(world: World) -> None:
    data = report("n", 1, world.clock.now(), pods=[pod_usage("a", cpu_milli=-5), pod_usage("b")])
    verdict, _ = await world.accept([received(data), received(report("n", 2, world.clock.now()))])
    assert isinstance(verdict, Reject)
    assert "of a" in verdict.detail


async def test_a_defect_costs_its_report_after_two_tries(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(ledger: MemoryUsageLedger, history: HistoryColumns) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(MemoryUsageLedger, "append", broken)
    verdict = await world.report(1)
    assert isinstance(verdict, Reject)
    assert (verdict.reason, world.books.rows) == ("handler_failed", [])


async def test_a_node_is_fresh_at_its_first_report_then_stale_then_lost_then_fresh_again(world: World) -> None:
    await world.report(1, pods=[pod_usage("a")])
    assert world.liveness() == [Liveness.FRESH]
    for seconds, expected in ((15, 1), (1, 2), (44, 2), (1, 3), (60, 3)):
        await world.clock.advance(seconds)
        await world.watch()
        assert len(world.liveness()) == expected
    assert world.liveness() == [Liveness.FRESH, Liveness.STALE, Liveness.LOST]
    async with world.database.unit_of_work() as unit:
        assert [pod.liveness for pod in await world.books.ledgers()(unit).pods()] == ["lost"]
    await world.report(2)
    changes = world.published(NodeLivenessChanged)
    assert (changes[-1].liveness, changes[-1].previous) == (Liveness.FRESH, Liveness.LOST)
    assert changes[-1].last_report_at == world.clock.now()


async def test_a_node_that_leaves_is_lost_at_once_until_it_reports_again(world: World) -> None:
    await world.report(1)
    await world.clock.advance(5)
    assert await world.report(2, trigger="leave") == Done()
    assert world.liveness() == [Liveness.FRESH, Liveness.LOST]
    await world.clock.advance(5)
    await world.report(1, boot_epoch="next")
    assert world.liveness() == [Liveness.FRESH, Liveness.LOST, Liveness.FRESH]


async def test_a_change_caused_by_a_report_names_it(world: World) -> None:
    message = received(report("n", 1, world.clock.now()))
    await world.accept([message])
    assert world.database.published[0].causedby == message.event.id


async def test_messages_in_hand_of_a_dead_replica_make_no_node_stale_and_close_no_window(world: World) -> None:
    """Its successor waits until the broker has delivered that again, before silence is the node's."""
    await world.report(1)
    await world.clock.advance(10)  # the second one went to the replica that died
    world.watch.listen_anew(5)
    world.close = world.closer()
    world.close.listen_anew(5)
    world.watch.listen_anew()  # what is asked later does not shorten it
    for _ in range(19):  # five seconds, then fifteen of silence
        await world.clock.advance(1)
        assert await world.watch() == await world.close() == 0
    await world.clock.advance(2)
    assert await world.watch() == await world.close() == 1


async def test_a_bus_that_is_away_makes_no_node_stale(world: World) -> None:
    await world.report(1)
    world.hearing = False
    for _ in range(100):
        await world.clock.advance(1)
        await world.watch()
    world.hearing = True
    await world.clock.advance(10)
    await world.watch()
    assert world.liveness() == [Liveness.FRESH]
    await world.clock.advance(10)
    await world.watch()
    assert world.liveness() == [Liveness.FRESH, Liveness.STALE]


async def test_a_new_ingestion_listens_before_it_judges(world: World) -> None:
    await world.report(1)
    await world.clock.advance(1000)
    fresh = WatchLiveness(world.database, world.books.ledgers(), world.clock, SILENCE, world._hearing)
    assert await fresh() == 0
    await world.clock.advance(16)
    assert await fresh() == 1
    assert world.liveness() == [Liveness.FRESH, Liveness.STALE]


async def test_only_nodes_that_are_named_are_looked_at(world: World) -> None:
    for sequence in range(1, 14):
        await world.clock.advance(5)
        await world.report(sequence)
        await world.report(sequence, node="m")
    assert await world.close(["m", "unknown"]) == 1
    assert [window.node for window in world.published(UsageWindowed)] == ["m"]
    assert await world.close(()) == 0
    assert await world.close() == 1


async def test_a_window_is_closed_once_after_its_wait(world: World) -> None:
    for sequence in range(1, 13):
        await world.clock.advance(5)
        await world.report(sequence, pods=[pod_usage("a")])
    assert await world.close() == 0
    await world.clock.advance(4.9)
    assert await world.close() == 0
    await world.clock.advance(0.1)
    await world.report(13)
    assert await world.close() == 1
    assert await world.close() == 0
    (window,) = world.published(UsageWindowed)
    assert (window.reports, window.gaps, window.node_usage.samples) == (12, 0, 60)
    assert (window.window_start, window.number * 60) == (EPOCH, EPOCH.timestamp())
    assert window.pods[0].usage.cpu_max_milli == 500
    assert set(window.tiers) == {"prod"}


async def test_a_late_report_is_kept_in_history_but_its_window_stays_closed(world: World) -> None:
    await world.clock.advance(30)
    stuck = received(report("n", 1, world.clock.now()))
    await world.report(2)
    await world.clock.advance(40)
    assert await world.close() == 1
    assert await world.accept([stuck]) == [Done()]
    late = received(report("n", 3, EPOCH + timedelta(seconds=40)))
    assert await world.accept([late]) == [Done()]
    await world.clock.advance(60)
    assert await world.close() == 0
    assert [row.late for row in world.books.rows] == [False, True, True]


async def test_a_backlog_is_windowed_as_if_it_had_come_in_time(world: World) -> None:
    await world.clock.advance(600)
    for sequence in range(1, 61):
        await world.accept([received(report("n", sequence, EPOCH + timedelta(seconds=5 * sequence)))])
        await world.close()
    await world.clock.advance(SILENCE.stale_seconds)
    await world.close()
    assert [(window.reports, window.gaps) for window in world.published(UsageWindowed)] == [(12, 0)] * 5


async def test_a_window_that_was_not_committed_is_made_again_and_one_that_was_is_not(world: World) -> None:
    await world.clock.advance(10)
    await world.report(1)
    await world.clock.advance(60)
    world.database.away = True
    with pytest.raises(Unavailable):
        await world.close()
    world.database.away = False
    restarted = world.closer()
    assert await restarted() == 0  # it has not listened long enough to call the node silent
    await world.clock.advance(15)
    assert await restarted() == 1
    assert await world.close() == 0
    assert len(world.published(UsageWindowed)) == 1


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.floats(0.5, 40), st.booleans(), st.booleans()), min_size=1, max_size=40
    )
)
async def test_the_samples_of_all_windows_are_those_accepted_in_time(
    steps: list[tuple[str, float, bool, bool]],
) -> None:
    world = World()
    sequences = dict.fromkeys("abc", 0)
    for node, pause, close, repeat in steps:
        await world.clock.advance(pause)
        sequences[node] += 1
        await world.report(sequences[node], node)
        if repeat:
            await world.report(sequences[node], node)
        if close:
            await world.close()
    await world.clock.advance(WINDOW + LATENESS + 60)
    await world.close()
    windows = world.published(UsageWindowed)
    in_time = sum(row.report.cpu.samples for row in world.books.rows if not row.late)
    assert sum(window.node_usage.samples for window in windows) == in_time
    assert len(world.books.rows) == sum(sequences.values())
    assert len({(window.node, window.number) for window in windows}) == len(windows)


async def test_history_past_retention_is_forgotten(world: World) -> None:
    await world.report(1, pods=[pod_usage("a")])
    await world.keep()
    assert len(world.books.days) == 4  # yesterday, today and two ahead
    await world.clock.advance(3 * 86400)
    await world.keep()
    assert (world.books.rows, world.books.pods) == ([], {})
    assert min(world.books.days) == (EPOCH + timedelta(days=1)).date()


async def test_a_subject_that_no_node_can_have_is_refused_and_not_looked_up(world: World) -> None:
    message: Received[UsageReported] = received(report("n", 1, world.clock.now()), key="x\x00")
    (verdict,) = await world.accept([message])
    assert isinstance(verdict, Reject)
    assert dict(world.books.refusals) == {("?", Refusal.WRONG_NODE): 1}

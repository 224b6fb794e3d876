"""What the pages choose to show: where charts begin, how long a limit is drawn, which decisions are listed."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from itertools import pairwise

import httpx2
from console_app import console_app
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.bus.admin.broker_admin import ClosedAdmin
from slackwater.console.domain.views import DecisionFilter, UsagePoint
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.decision_pages import PAGE, READ, decision_list
from slackwater.console.usecases.node_page import limit_spans, node_page
from slackwater.console.usecases.overview import overview_page
from slackwater.console.usecases.pictures import LEAST_SPAN, SPAN, begin_of
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import DecisionRecord, Replay
from slackwater.model.quantities import Resources

NOW = EPOCH + timedelta(hours=1)


def report(second: float, limit: int | None) -> UsagePoint:
    return UsagePoint(
        event_id=str(second),
        node="n",
        sampled_at=EPOCH + timedelta(seconds=second),
        window_seconds=5,
        trigger="interval",
        usage=Resources(),
        system=None,
        tiers={},
        node_pressure=None,
        prod_pressure=None,
        batch_limit_milli=limit,
        throttled_pods=int(limit is not None),
        pods=1,
    )


def test_equal_limits_are_one_span_until_the_next_report() -> None:
    points = [report(0, None), report(5, 600), report(10, 600), report(15, 300), report(20, None)]
    spans = [(a - EPOCH, b - EPOCH, milli) for a, b, milli in limit_spans(points, EPOCH + timedelta(seconds=25))]
    seconds = timedelta(seconds=1)
    assert spans == [(5 * seconds, 15 * seconds, 600), (15 * seconds, 20 * seconds, 300)]


def test_a_limit_is_not_drawn_where_nothing_was_reported() -> None:
    until = EPOCH + timedelta(seconds=900)
    spans = limit_spans([report(0, 600), report(400, 600), report(405, 600)], until)
    assert [(b - a).total_seconds() for a, b, _ in spans] == [5, 10]


@given(st.lists(st.tuples(st.integers(1, 120), st.none() | st.integers(1, 3)), max_size=30))
def test_spans_follow_each_other_and_hold_only_limits_that_were_reported(
    found: list[tuple[int, int | None]],
) -> None:
    at, points = 0, []
    for gap, limit in found:
        at += gap
        points.append(report(at, limit))
    spans = limit_spans(points, EPOCH + timedelta(seconds=at + 5))
    assert all(begin < end for begin, end, _ in spans)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    for point in points:
        covering = [milli for begin, end, milli in spans if begin <= point.sampled_at < end]
        assert covering == ([] if point.batch_limit_milli is None else [point.batch_limit_milli])


def test_charts_begin_with_the_samples_but_are_never_too_short() -> None:
    assert begin_of(NOW, []) == NOW - LEAST_SPAN
    assert begin_of(NOW, [NOW - timedelta(seconds=20)]) == NOW - LEAST_SPAN
    assert begin_of(NOW, [NOW - timedelta(minutes=8), NOW]) == NOW - timedelta(minutes=8)
    assert begin_of(NOW, [NOW - SPAN]) == NOW - SPAN


def decision(number: int, kind: DecisionKind) -> DecisionRecord:
    return DecisionRecord(
        id=f"{number:03}",
        kind=kind,
        node="n",
        subject="cpu",
        service="s",
        rule="r",
        reason=Reason.OFFER_CHANGED,
        decided_at=NOW - timedelta(seconds=100 - number),
        trigger_event_id=None,
        inputs=(),
        terms=(),
        result=0,
        unit="milli",
        replay=Replay(function="m:f", arguments={}),
    )


async def test_the_feed_of_a_node_has_what_was_done_there_newest_first(model: MemoryReadModel) -> None:
    kinds = [DecisionKind.PREDICTION, DecisionKind.THROTTLE, DecisionKind.OFFER] * 10
    await model.save_decisions([decision(number, kind) for number, kind in enumerate(kinds)])
    await model.save_liveness([("n", "fresh", NOW)])
    found = (await node_page(model, ClosedAdmin(), "n", NOW)).decisions
    newest = [row.newest for row in found]
    assert {each.kind for each in newest} == {DecisionKind.THROTTLE}, "offers have a chart of their own"
    assert [each.id for each in newest] == sorted((each.id for each in newest), reverse=True)
    assert newest[0].id == "028"
    assert {row.newest.kind for row in (await overview_page(model, NOW)).actions} == {DecisionKind.THROTTLE}


async def test_a_mark_is_not_pushed_off_the_timeline_by_decisions_that_are_no_actions(model: MemoryReadModel) -> None:
    """With windows of five seconds (`slackwater up`) a quarter of an hour has far more predictions than actions."""
    records = [replaced(decision(0, DecisionKind.THROTTLE), NOW - timedelta(minutes=2))]
    records += [replaced(decision(number, DecisionKind.PREDICTION), NOW) for number in range(1, 400)]
    await model.save_decisions(records)
    await model.save_liveness([("n", "fresh", NOW)])
    page = await node_page(model, ClosedAdmin(), "n", NOW)
    for picture in (page.usage, page.pressure):
        assert 'href="/decisions/000"' in picture.wide


def replaced(record: DecisionRecord, at: datetime) -> DecisionRecord:
    return record.model_copy(update={"decided_at": at})


def step(number: int, episode: str, kind: DecisionKind = DecisionKind.THROTTLE) -> DecisionRecord:
    return decision(number, kind).model_copy(update={"episode": episode, "step": number})


async def test_an_episode_is_one_row_that_links_to_its_steps(
    model: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    steps = [step(number, "001") for number in range(1, 60)]
    await model.save_decisions([*steps, decision(60, DecisionKind.EVICT), step(62, "061")])
    app = console_app(model, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        body = (await client.get("/decisions")).text
        assert body.count('<th scope="row">') == 3
        assert "59 steps</a> in 58 s: 59 \N{MULTIPLICATION SIGN} throttle" in body
        (address,) = re.findall(r'href="([^"]+)">59 steps', body)
        listed = (await client.get(unescape(address))).text
        assert listed.count('<th scope="row">') == PAGE, "of one episode every step has a row"
        assert "/decisions/060" not in listed
        assert "Older" in listed
        items = (await client.get("/v1/decisions?limit=1")).json()["items"]
        assert (items[0]["episode"], items[0]["step"]) == ("061", 62)


async def test_a_page_of_the_longest_episode_goes_on_behind_what_it_has_read(model: MemoryReadModel) -> None:
    await model.save_decisions([step(number, "000") for number in range(READ + 30)])
    first = await decision_list(model, DecisionFilter(), NOW)
    (row,) = first.rows
    assert len(row.steps) == READ
    assert first.older == row.steps[-1]
    second = await decision_list(model, DecisionFilter(before=(first.older.decided_at, first.older.id)), NOW)
    assert [len(row.steps) for row in second.rows] == [30]
    assert second.older is None

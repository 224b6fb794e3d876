"""Pages with little data: no reports, nodes that never reported, wrong addresses, long names."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import httpx2
import pytest
from console_app import console_app
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import story

from slackwater.charts.pool_chart import PoolLevel, pool_chart, pool_frame
from slackwater.charts.stacks import StackLayer
from slackwater.console.edge.stream import Streams
from slackwater.console.edge.templates_environment import NOTHING, environment
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.node_described import NodeDescribed
from slackwater.model.time import Clock


class At:
    """A clock that stands."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def client_of(model: MemoryReadModel, streams: Streams, clock: Clock) -> httpx2.AsyncClient:
    app = console_app(model, streams, clock)
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")


async def text(client: httpx2.AsyncClient, path: str, status: int = 200) -> str:
    """Without tags, with single blanks."""
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


@pytest.fixture
def pages(told_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return told_client


async def test_an_overview_without_reports_shows_a_note_and_no_zeros(
    told: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    """It said `Used 0.0 of 0.0 cores`, and in green that no pod is held back."""
    async with client_of(told, streams, At(clock.now() + timedelta(minutes=5))) as client:
        body = await text(client, "/")
    both = f"{NOTHING} cores {NOTHING} GiB"
    for title in ("Used", "Offered to batch", "Borrowed, within offers", "Beyond offers"):
        assert f"{title} {both}" in body
    assert f"Throttled now {NOTHING} pods {NOTHING} nodes above the waterline" in body
    assert "No node reports now: whether pods are throttled is unknown." in body
    assert "No pod is held back" not in body


async def test_the_guard_says_of_how_many_nodes_it_knows(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, "/")
    assert "no node is above its waterline, on the 3 nodes that report. Of the 1 silent it is not known." in body


async def test_what_a_node_uses_that_never_reported_is_unknown_and_not_zero(
    model: MemoryReadModel, streams: Streams, clock: FakeClock, record: RecordEvents
) -> None:
    await record.described([event for event in story(clock.now()) if isinstance(event.data, NodeDescribed)])
    async with client_of(model, streams, clock) as client:
        row = (await text(client, "/nodes")).partition("edge-7 unknown ")[2].partition("edge-8")[0]
    assert row.strip().endswith(
        f"{NOTHING} / 8 {NOTHING} {NOTHING} {NOTHING} / 32 {NOTHING} {NOTHING} {NOTHING} {NOTHING} never"
    )


async def test_a_fresh_installation_has_no_chart_of_nothing(
    model: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    """Its axis was of 0.0005 cores."""
    async with client_of(model, streams, clock) as client:
        assert "0.0005" not in await text(client, "/")


async def test_a_page_behind_the_last_is_not_taken_for_an_empty_fleet(pages: httpx2.AsyncClient) -> None:
    body = await text(pages, "/nodes?page=99")
    assert "There is no page 99: 4 nodes are shown on 1 page." in body
    assert "No node has reported yet" not in body
    assert "of 1" not in body.partition("The last one")[2]


@pytest.mark.parametrize("path", ["/nodes?page=0", "/nodes?page=two", "/deadletters?before=x", "/deadletters/0"])
async def test_a_mistyped_address_shows_an_error_page(pages: httpx2.AsyncClient, path: str) -> None:
    """It was JSON, in a browser."""
    assert "is not allowed; allowed: a whole number from 1" in await text(pages, path, 400)


async def test_every_part_that_changes_is_fetched_again_when_the_stream_is_back(pages: httpx2.AsyncClient) -> None:
    """console.js asks #part (or #newer) for it; the pages of a node and of a decision had neither."""
    for path in ("/", "/nodes", "/nodes/edge-7", "/loop", "/strategies", "/quotas", "/moves"):
        body = (await pages.get(path)).text
        (part,) = re.findall(r'<div id="part"[^>]*>', body)
        assert re.search(r'hx-trigger="[^"]*\brefresh\b', part), path


async def test_the_page_of_a_node_that_falls_silent_goes_on_counting(pages: httpx2.AsyncClient) -> None:
    """No event tells of it any more; `last report 4 s ago` stood there for ever."""
    assert 'hx-trigger="every 5s, ' in (await pages.get("/nodes/edge-7")).text


async def test_times_of_another_day_come_with_their_date(
    told: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    async with client_of(told, streams, At(clock.now() + timedelta(days=1))) as client:
        body = await text(client, "/nodes/edge-7?span=24h")
    assert "5 s window, 5 pods 2026-01-05 10:00:00" in body


def test_a_long_name_is_wrapped_and_a_short_one_is_as_it_is() -> None:
    named = environment().filters["named"]
    assert named("edge-<7>") == "edge-&lt;7&gt;"
    assert named("x" * 33 + "<") == f'<span class="longname">{"x" * 33}&lt;</span>'


@pytest.mark.parametrize("width", [360, 1000])
def test_the_name_of_a_pool_leaves_room_for_its_figures(width: int) -> None:
    level = PoolLevel("a-pool-" * 30, "/", 8000, (StackLayer("prod", 0, 4000),), "12.62 of 32 cores offered, 1 silent")
    drawn = pool_chart(pool_frame(1, width), [level], str, "pools")
    title, shown = re.findall(r"<title>(a-pool[^<]*)</title>(a-pool[^<]*)<", drawn)[0]
    assert title == level.pool
    assert shown.endswith("…")
    assert len(shown) * 7.5 + len(level.said) * 6 < width

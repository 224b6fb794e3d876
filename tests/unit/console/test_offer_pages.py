"""What the pages tell of offers: each amount as a sum, at any time; changes with their reasons; pools side by side."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import httpx2
import pytest
from console_app import console_app
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import FLEET, SURGE, UNPREDICTED, identifier

from slackwater.console.domain.pools import PoolRow
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.overview import RESOURCES, overview_page
from slackwater.console.usecases.pool_levels import DRAWN, pool_levels
from slackwater.model.quantities import Resources

LENGTH = 900


@pytest.fixture
def pages(told_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return told_client


async def page(pages: httpx2.AsyncClient, path: str) -> str:
    answer = await pages.get(path)
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text)


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("batch-cpu", "Why 2.66 cores for batch"),
        ("batch-memory", "Why 16.8Gi for batch"),
        ("mid-cpu", "Why 0.42 cores for mid"),
        ("mid-memory", "Why 1Gi for mid"),
    ],
)
async def test_any_amount_can_be_asked_about(pages: httpx2.AsyncClient, subject: str, said: str) -> None:
    text = await page(pages, f"/nodes/edge-7?subject={subject}")
    assert said in text
    assert "the terms add up" in text
    assert text.count(f"subject={subject}") >= 4, "the choice stays when another span is chosen, and when news come"


async def test_a_past_moment_shows_the_sum_that_was_in_force_then(pages: httpx2.AsyncClient) -> None:
    ago = LENGTH - (SURGE[0] + 80)
    then = await page(pages, f"/nodes/edge-7?subject=mid-cpu&at=-{ago}s")
    assert "Why 0 cores for mid" in then
    assert "an offer is never negative" in then
    assert f'value="-{ago}s"' in then
    assert f"at=-{ago}s" in then.partition("hx-trigger")[0], "news must not bring back the sum of now"
    for subject in ("batch-cpu", "mid-cpu"):
        assert "ask for a later time" in await page(pages, f"/nodes/edge-7?subject={subject}&at=-2d")


async def test_an_invalid_time_is_reported_beside_the_rest_of_the_page(pages: httpx2.AsyncClient) -> None:
    text = await page(pages, "/nodes/edge-7?at=yesterday")
    assert "'yesterday' is not a time" in text
    assert "checkout-0" in text


async def test_changes_are_marked_with_their_reasons_and_lead_to_their_records(pages: httpx2.AsyncClient) -> None:
    text = await page(pages, "/nodes/edge-8?span=15m")
    first = identifier("edge-8", "offer", UNPREDICTED[0])
    assert re.search(rf'<a href="/decisions/{first}"><rect [^>]*class="flag offer_degraded"', text)
    assert "offer degraded: batch 1.24, mid 0.42 cores; no prediction for 15 min" in text
    assert text.count('class="caution"') == 2, "one span, drawn for wide and for narrow windows"
    rows = re.findall(r'<td class="from">(offer \w+)', text)
    assert rows == ["offer recovered", "offer degraded", "offer first"]


async def test_zones_and_strategies_are_shown_where_there_are_any(pages: httpx2.AsyncClient) -> None:
    nine, eight = await page(pages, "/nodes/edge-9"), await page(pages, "/nodes/edge-8")
    assert "Batch by NUMA zone" in nine
    assert "node1" in nine
    assert "cluster@3 < pool/edge@2 < node-annotation" in nine
    assert "Batch by NUMA zone" not in eight


async def test_unknown_query_values_show_the_default_view(pages: httpx2.AsyncClient) -> None:
    assert "Why 2.66 cores for batch" in await page(pages, "/nodes/edge-7?subject=gold-cpu&span=1y")


async def test_a_node_that_offers_nothing_to_mid_says_why(
    model: MemoryReadModel, told: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    node = await told.node("edge-7")
    assert node is not None
    assert node.offer is not None
    batch_alone = {subject: each for subject, each in node.offer.decision_ids.items() if subject.startswith("batch")}
    await model.save_offers([replace(node.offer, mid=Resources(), decision_ids=batch_alone)])
    await clock.advance(60)
    app = console_app(model, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        assert "Nothing is offered to mid here: by its strategy" in await page(client, "/nodes/edge-7?subject=mid-cpu")
        answer = await client.get("/v1/why", params={"node": "edge-7", "subject": "mid-cpu"})
        assert (answer.status_code, answer.json()["code"]) == (404, "nothing_in_force")


async def test_the_front_page_shows_each_pool_with_what_it_holds_and_offers(
    told: MemoryReadModel, clock: FakeClock
) -> None:
    view = await overview_page(told, clock.now())
    found = {layer.name: layer.amount for layer in view.pool_levels.layers}
    (row,) = view.pools
    assert found["system"] == row.reserve.cpu_milli
    assert found["prod"] + found["expected"] == row.expected.cpu_milli
    assert view.pool_levels.capacity == sum(node.capacity_milli for node in FLEET if node.name != "edge-10")
    assert view.pool_levels.picture is not None
    assert "1 silent" in view.pool_levels.picture.wide
    assert f"{(row.batch + row.mid).cpu_milli / 1000:.1f} of 32 cores offered" in view.pool_levels.picture.narrow
    memory = await overview_page(told, clock.now(), "1h", "memory")
    assert memory.pool_levels.picture is not None
    assert "GiB offered" in memory.pool_levels.picture.wide


def test_many_pools_are_drawn_as_far_as_they_fit_and_the_rest_is_counted() -> None:
    rows = [
        PoolRow(f"p{place:02}", 3, 3 if place else 0, 0, 0, place % 2, Resources(1000, 1000), batch=Resources(100, 0))
        for place in range(DRAWN + 5)
    ]
    levels = pool_levels(rows, "cpu", RESOURCES["cpu"])
    assert (levels.drawn, levels.known) == (DRAWN, DRAWN + 5)
    assert levels.picture is not None
    assert "p00" not in levels.picture.wide, "a pool that does not report has no level"
    assert "1 degraded" in levels.picture.wide
    assert pool_levels([], "cpu", RESOURCES["cpu"]).picture is None

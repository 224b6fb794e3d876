"""Listed events: the list of REST, the page with columns of a type, and the links to nodes, decisions and traces."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from console_app import console_app
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.edge.events import projections, routes
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.event_list import LISTED, columns_of
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import event_of
from slackwater.events.node_liveness_changed import NodeLivenessChanged
from slackwater.events.state_quarantined import QuarantineReason, StateQuarantined

TRACE = "0af7651916cd43dd8448eb211c80319c"
LIVENESS = "node.liveness_changed"
HOSTILE = "<script>hacked</script>"


@pytest.fixture
async def client(
    told_anew: MemoryReadModel, record: RecordEvents, streams: Streams, clock: FakeClock
) -> AsyncIterator[httpx2.AsyncClient]:
    """A console with the events of the story, and of a quarantine that a trace belongs to."""
    now = clock.now()
    item = StateQuarantined(
        service="prediction",
        id="q1",
        table="series",
        row="edge-7/web",
        node="edge-7",
        reason=QuarantineReason.UNREADABLE,
        detail=HOSTILE,
        since=now,
        count=2,
        told_at=now,
    )
    event = event_of(item, source="prediction", time=now, traceparent=f"00-{TRACE}-b7ad6b7169203331-01", id="e-q1")
    recorder = RecordEvents(told_anew, clock, usage_retention=timedelta(days=1), decision_retention=timedelta(days=1))
    await routes(recorder)[StateQuarantined]([event])
    app = console_app(told_anew, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http:
        yield http


async def items(client: httpx2.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    answer = await client.get(f"/v1/events{query}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def words(client: httpx2.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text)))


def test_a_listed_event_is_recorded_by_its_projection_too(record: RecordEvents) -> None:
    assert set(routes(record)) - set(projections(record)) == {
        one for one in LISTED.values() if one not in projections(record)
    }
    assert NodeLivenessChanged in projections(record)


async def test_the_list_is_filtered_by_type_node_time_and_trace(client: httpx2.AsyncClient) -> None:
    every = await items(client)
    assert every[0]["id"] == "e-q1"
    assert every == sorted(every, key=lambda item: (item["time"], item["id"]), reverse=True)
    assert {item["type"] for item in every} == {LIVENESS, "state.quarantined", "migration.changed"}
    assert every[0]["data"]["detail"] == HOSTILE
    assert [item["node"] for item in await items(client, f"?types={LIVENESS}&node=edge-10")] == ["edge-10"] * 2
    assert await items(client, f"?trace={TRACE}") == await items(client, "?types=state.*") == every[:1]
    assert await items(client, "?since=1s") == every[:1]
    assert every[0] not in await items(client, "?until=1s&since=1h")


async def test_pages_follow_each_other_without_a_gap(client: httpx2.AsyncClient) -> None:
    every, found, token = await items(client), list[dict[str, Any]](), ""
    while True:
        page = (await client.get(f"/v1/events?limit=2{token}")).json()
        found += page["items"]
        if page["continue"] is None:
            break
        token = f"&continue={page['continue']}"
    assert found == every


@pytest.mark.parametrize(
    ("query", "field"),
    [("types=usage.reported", "types"), ("since=now", "since"), ("continue=x", "continue"), ("trace=x", "trace")],
)
async def test_a_mistake_in_the_query_is_named(client: httpx2.AsyncClient, query: str, field: str) -> None:
    answer = await client.get(f"/v1/events?{query}")
    assert answer.status_code in (400, 422)
    assert field in answer.text


async def test_the_page_names_the_fields_and_links_node_and_trace(client: httpx2.AsyncClient) -> None:
    text = await words(client, "/events")
    fields = "service prediction , id q1 , table series , row edge-7/web , reason unreadable , detail"
    assert f"state.quarantined edge-7 {fields} {HOSTILE}" in text
    source = (await client.get("/events")).text
    assert HOSTILE not in source
    assert 'href="/nodes/edge-7"' in source
    assert f'href="/events?trace={TRACE}"' in source
    assert "sse:state.quarantined throttle:1s" in source


async def test_a_type_has_its_declared_fields_as_columns(client: httpx2.AsyncClient) -> None:
    text = await words(client, f"/events?type={LIVENESS}&node=edge-10")
    assert "Node Liveness Previous Last report at Changed at Duplicate Source Why" in text
    assert "edge-10 stale fresh" in text
    assert "state.quarantined edge-7" not in text
    part = (await client.get(f"/events?type={LIVENESS}&part=true")).text
    assert "<html" not in part
    assert "edge-10" in part


async def test_a_decision_is_linked_where_an_event_names_one() -> None:
    assert "decision_id" not in columns_of(EffectMeasured)
    assert "node" not in columns_of(EffectMeasured)
    assert "metric" in columns_of(EffectMeasured)


@pytest.mark.parametrize("query", ["type=usage.reported", "since=now", "cursor=x", "since=1m&until=1h"])
async def test_a_mistake_in_the_form_is_shown_above_it(client: httpx2.AsyncClient, query: str) -> None:
    answer = await client.get(f"/events?{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert "<form" in answer.text


async def test_no_match_and_no_events_are_distinguished(client: httpx2.AsyncClient) -> None:
    assert "No event matches." in await words(client, "/events?node=nowhere")

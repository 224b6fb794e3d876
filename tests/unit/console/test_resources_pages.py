"""The pages of resources: kinds with counts, the documents of a kind in its columns, and one with its history."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
import pytest_asyncio
from console_app import console_app
from served import record_all
from tests.support.bus import MemoryBus
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story_resources import resources

from slackwater.console.domain.resources import KEPT_GENERATIONS, ResourceView
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.resources import catalog
from slackwater.resources.kinds.autonomy import AUTONOMY
from slackwater.resources.store import KEPT_GENERATIONS as KEPT_BY_SERVICES

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.fixture
def model() -> MemoryReadModel:
    return MemoryReadModel()


@pytest_asyncio.fixture
async def client(model: MemoryReadModel) -> AsyncIterator[httpx2.AsyncClient]:
    clock, month = FakeClock(AT), timedelta(days=30)
    await record_all(RecordEvents(model, clock, usage_retention=month, decision_retention=month), resources(AT))
    app = console_app(model, Streams(MemoryBus(clock=clock), clock), clock)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as found:
        yield found


def rows(page: str) -> list[list[str]]:
    """The text of the cells of every row."""
    found = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]
    return [[" ".join(html.unescape(re.sub(r"<[^>]+>", "", cell)).split()) for cell in row] for row in cells]


async def test_the_kinds_are_counted(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/resources")).text
    counted = {row[0]: row[3] for row in rows(page)[1:]}
    assert list(counted) == [kind.name for kind in catalog.KINDS]
    assert counted == {**dict.fromkeys(counted, "0"), "Autonomy": "1", "PredictPolicy": "1", "ColocationStrategy": "2"}


async def test_the_documents_of_a_kind_are_shown_in_its_columns(client: httpx2.AsyncClient) -> None:
    head, edge = rows((await client.get("/resources/autonomies")).text)
    assert head == ["Name", "Pool", "Mode", "Per hour", "Hold", "Generation", "Changed"]
    assert edge == ["edge", "edge", "evict", "4", "600", "3", "06:00:00 by mara"]
    policies = rows((await client.get("/resources/predictpolicies")).text)
    assert policies[0] == ["Name", "Pool", "Generation", "Changed"], "what the status says is not stored"


async def test_documents_are_filtered_by_name(client: httpx2.AsyncClient) -> None:
    strategies = rows((await client.get("/resources/colocationstrategies")).text)
    assert [row[0] for row in strategies] == ["Name", "default", "night"]
    shown = rows((await client.get("/resources/colocationstrategies?name=NIG")).text)
    assert [row[0] for row in shown] == ["Name", "night"]
    assert "No document matches" in (await client.get("/resources/colocationstrategies?name=none")).text
    assert "There is no NodeQOS yet" in (await client.get("/resources/nodeqos")).text


async def test_a_document_is_shown_with_its_history(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/resources/autonomies/edge")).text
    document = html.unescape(page.split("<pre", 1)[1].split("</pre>")[0])
    assert "  mode: evict\n" in document
    assert "slackwater apply -f edge.yaml --dry-run" in page
    assert rows(page)[1:] == [
        ["3", "06:00:00", "mara", "spec.evictionsPerHour", "2", "4"],
        ["2", "2026-01-04 03:00:00", "jon", "spec.mode", "throttle", "evict"],
        ["1", "2025-12-26 09:00:00", "mara", "created"],
    ]


async def test_a_deleted_document_keeps_its_page(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/resources/autonomies/trial")).text
    assert "It was deleted" in page
    assert [row[-1] for row in rows(page)[1:]] == ["deleted", "created"]


@pytest.mark.parametrize("path", ["/resources/unknown", "/resources/autonomies/nothing", "/resources/unknown/x"])
async def test_what_is_not_there_is_named(client: httpx2.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_documents_of_another_shape_and_too_large_ones_are_shown(
    client: httpx2.AsyncClient, model: MemoryReadModel
) -> None:
    odd = ResourceView("ensurance", "NodeQOS", "odd", 7, "", AT, False, {"spec": 5, "metadata": {"labels": {"a": "b"}}})
    large = replace(odd, name="large", document=None)
    await model.save_resources([odd, large])
    assert [row[0] for row in rows((await client.get("/resources/nodeqos")).text)] == ["Name", "large", "odd"]
    page = (await client.get("/resources/nodeqos/odd")).text
    assert "Labels: a=b" in page
    assert rows(page)[1][-1] == "stored; the generation before is not known here"
    assert "too large for an event" in (await client.get("/resources/nodeqos/large")).text


async def test_hostile_text_stays_text(client: httpx2.AsyncClient, model: MemoryReadModel) -> None:
    script = "<script>alert(1)</script>"
    document = {"spec": {"mode": script}, "metadata": {"name": "x"}}
    await model.save_resources([ResourceView("ensurance", AUTONOMY.name, "x", 1, script, AT, False, document)])
    for path in ("/resources/autonomies", "/resources/autonomies/x"):
        assert script not in (await client.get(path)).text


def test_the_console_keeps_as_many_generations_as_the_services() -> None:
    assert KEPT_GENERATIONS == KEPT_BY_SERVICES

"""The pages of pods, workloads, pools and policies: rows, filters, sort order, and invalid queries."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from console_app import console_app
from tests.support.bus import MemoryBus
from tests.support.clock import EPOCH, FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import story

from slackwater.console.domain.policies import policy_state
from slackwater.console.domain.resources import ResourceView
from slackwater.console.domain.strategies import StrategyView
from slackwater.console.edge.events import routes
from slackwater.console.edge.stream import Streams
from slackwater.console.usecases.record_events import RecordEvents
from slackwater.events.usage_reported import UsageReported
from slackwater.model.identifiers import new_id

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


def cells(page: str) -> list[list[str]]:
    """The text of the cells of every row of the body."""
    found = re.findall(r"<tr>(.*?)</tr>", page.partition("<tbody>")[2], re.DOTALL)
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in found]
    return [[" ".join(html.unescape(re.sub(r"<[^>]+>", "", cell)).split()) for cell in row] for row in rows]


async def get(client: httpx2.AsyncClient, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.text


async def test_pods_show_memory_beside_cpu_and_are_sorted_by_the_server(told_client: httpx2.AsyncClient) -> None:
    page = await get(told_client, "/pods?sort=-cpu")
    rows = cells(page)
    used = [float(row[5]) for row in rows]
    assert used == sorted(used, reverse=True)
    assert len(set(used)) > 3
    assert {row[8] for row in rows} == {"1.00"}
    assert '<th scope="col" class="num" aria-sort="descending"><a href="/pods?sort=cpu">CPU used</a></th>' in page
    assert page.count("aria-sort") == 1


async def test_filters_stay_in_the_links_of_headers(told_client: httpx2.AsyncClient) -> None:
    page = await get(told_client, "/pods?tier=batch&node=edge-7")
    assert {(row[2], row[3].split()[0]) for row in cells(page)} == {("edge-7", "batch")}
    assert 'href="/pods?tier=batch&amp;node=edge-7&amp;sort=-memory"' in page


async def test_workloads_sum_their_pods_and_lead_to_them(told_client: httpx2.AsyncClient) -> None:
    page = await get(told_client, "/workloads?sort=-pods")
    rows = {row[0]: row for row in cells(page)}
    pods = cells(await get(told_client, "/pods?workload=encode-video&namespace=media"))
    assert rows["encode-video media"][2] == str(len(pods))
    assert float(rows["encode-video media"][5]) == pytest.approx(sum(float(pod[5]) for pod in pods), abs=0.005 * 9)
    assert "/pods?workload=encode-video&amp;namespace=media&amp;tier=batch" in page


async def test_pools_show_both_resources(told_client: httpx2.AsyncClient) -> None:
    page = await get(told_client, "/pools?sort=-memory-offered")
    assert [row[0] for row in cells(page)] == ["edge"]
    assert "Memory offered" in page
    assert 'aria-sort="descending"' in page


async def test_nothing_matches(told_client: httpx2.AsyncClient) -> None:
    assert "No pod matches" in await get(told_client, "/pods?name=nothing-like-this")
    assert "No workload matches" in await get(told_client, "/workloads?pool=nowhere")
    assert "The last page is 1" in await get(told_client, "/pods?page=9")


@pytest.mark.parametrize("path", ["/pods?sort=price", "/pods?tier=gold", "/workloads?page=0", "/policies?sort=-"])
async def test_invalid_queries_name_what_is_allowed(told_client: httpx2.AsyncClient, path: str) -> None:
    assert "allowed" in await get(told_client, path, status=400)


@pytest.mark.parametrize("path", ["/pods", "/workloads", "/pools", "/policies"])
async def test_the_part_is_a_part_of_its_page(told_client: httpx2.AsyncClient, path: str) -> None:
    whole, part = await get(told_client, path), await get(told_client, f"{path}?part=true")
    assert "<html" in whole
    assert "<html" not in part
    assert cells(part) == cells(whole)


async def test_a_limit_that_the_agent_could_not_read_is_marked(told_anew: MemoryReadModel) -> None:
    now = EPOCH + timedelta(hours=10)
    clock = FakeClock(now)
    reports = [event for event in story(now) if isinstance(event.data, UsageReported) and event.data.node == "edge-7"]
    newest = max(reports, key=lambda event: event.data.sampled_at)
    [first, *others] = newest.data.pods
    unread = newest.data.model_copy(update={"pods": (replace(first, unread="permission_denied"), *others)})
    later = unread.model_copy(update={"sampled_at": unread.sampled_at + timedelta(seconds=5)})
    days = timedelta(days=1)
    recorder = RecordEvents(told_anew, clock, usage_retention=days, decision_retention=days)
    await routes(recorder)[UsageReported]([newest.model_copy(update={"id": new_id(), "data": later})])
    streams = Streams(MemoryBus(clock=clock), clock)
    app = console_app(told_anew, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        rows = {row[0].split()[0]: row for row in cells(await get(client, "/pods?node=edge-7"))}
        assert [name for name, row in rows.items() if row[9].endswith(" unread")] == [first.pod.name]
        assert (await get(client, "/pods?node=edge-7")).count("(permission_denied)") == 1  # in its title
        assert (await get(client, "/nodes/edge-7")).count(">unread</span>") == 1
        items = (await client.get("/v1/pods?node=edge-7")).json()["items"]
    assert {item["name"]: item["unread"] for item in items if item["unread"]} == {first.pod.name: "permission_denied"}


def view(spec: dict[str, object], kind: str = "NodeQOS", generation: int = 2) -> ResourceView:
    return ResourceView("ensurance", kind, "edge", generation, "mara", AT, False, {"spec": spec})


STRATEGY = StrategyView("edge", 2, 2, "pool edge", 1, {}, {}, "", "mara", AT, False, AT)


def test_a_policy_is_published_or_a_dry_run_in_force_or_degraded() -> None:
    assert policy_state(view({"mode": "observe"}), None).stage == "dry run"
    assert policy_state(view({"mode": "evict"}), None).stage == "published"
    assert policy_state(view({}), None).state == "stored"
    assert policy_state(view({}), STRATEGY).state == "in force"
    assert policy_state(view({"enable": False}), STRATEGY).state == "disabled"
    refused = policy_state(view({}), replace(STRATEGY, problem="950 is not allowed"))
    assert (refused.state, refused.problem) == ("degraded", "950 is not allowed")
    assert policy_state(view({}, generation=3), STRATEGY).state == "degraded"

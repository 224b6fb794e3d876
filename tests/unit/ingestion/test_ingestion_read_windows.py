"""The history of a node, window by window: the same windows as were published, in pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from test_ingestion_usecases import WINDOW, World
from tests.support.reports import pod_usage

from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion.edge.http import window_router
from slackwater.ingestion.usecases.read_windows import ReadWindows
from slackwater.runtime.http import build_app
from slackwater.runtime.settings import HttpSettings


async def reported(count: int, gaps: range = range(0)) -> tuple[World, list[UsageWindowed]]:
    """A report every five seconds, its pod using one milli-core more each time; and the windows that were published."""
    world = World()
    for sequence in range(1, count + 1):
        if sequence not in gaps:
            await world.report(sequence, cpu_milli=100 + sequence, pods=[pod_usage("a")])
        await world.close()
        await world.clock.advance(5)
    await world.clock.advance(3 * WINDOW)
    await world.close()
    return world, world.published(UsageWindowed)


def reader(world: World, **changes: Any) -> ReadWindows:
    options = {"seconds": WINDOW, "retention_days": 2, **changes}
    return ReadWindows(world.database, world.books.ledgers(), world.clock, **options)


async def pages(read: ReadWindows, since: datetime, until: datetime, limit: int) -> list[list[int]]:
    found, behind = [], since
    while True:
        page = await read("n", behind, until, limit)
        found.append([window.number for window in page.windows])
        if page.behind is None:
            return found
        behind = page.behind


async def test_the_windows_are_those_that_were_published() -> None:
    world, told = await reported(60)
    page = await reader(world)("n", told[0].window_start, world.clock.now(), 100)
    assert len(told) >= 4
    assert [window.number for window in page.windows] == [each.number for each in told]
    assert page.behind is None
    for window, each in zip(page.windows, told, strict=True):
        assert window.usage.cpu.p95 == each.node_usage.cpu_p95_milli
        assert [amounts.memory.p95 for _, amounts in window.pods] == [pod.usage.memory_p95_bytes for pod in each.pods]
        assert (window.reports, window.gaps) == (each.reports, each.gaps)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_have_every_window_once_also_over_a_hole(limit: int) -> None:
    world, told = await reported(120, gaps=range(30, 80))
    found = await pages(reader(world), told[0].window_start, world.clock.now(), limit)
    assert [number for page in found for number in page] == [each.number for each in told]
    assert all(len(page) <= limit for page in found)


async def test_only_whole_windows_within_the_span_and_none_for_a_stranger() -> None:
    world, told = await reported(60)
    read = reader(world)
    second = told[1].window_start
    page = await read("n", second - timedelta(seconds=1), second + timedelta(seconds=2 * WINDOW - 1), 100)
    assert [window.number for window in page.windows] == [told[1].number]
    assert (await read("nobody", second, world.clock.now(), 100)).windows == []
    assert (await read("n", world.clock.now(), second, 100)).windows == ()


async def test_any_time_may_be_asked_for() -> None:
    world, told = await reported(30)
    far = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]
    found = await pages(reader(world), far[0], far[1], 1000)
    assert [number for page in found for number in page] == [each.number for each in told]
    assert (await reader(world)("n", far[1], far[1], 10)).windows == ()


def served(world: World) -> FastAPI:
    async def healthy() -> list[Any]:
        return []

    return build_app([window_router(reader(world))], healthy, HttpSettings.local())


async def test_the_route_hands_out_pages_that_follow_each_other() -> None:
    world, told = await reported(60)
    transport = httpx2.ASGITransport(app=served(world))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        params = {"since": told[0].window_start.isoformat(), "until": world.clock.now().isoformat(), "limit": 2}
        first = (await client.get("/v1/nodes/n/windows", params=params)).json()
        second = (await client.get("/v1/nodes/n/windows", params={**params, "since": first["continue"]})).json()
        bad = await client.get("/v1/nodes/n/windows", params={**params, "limit": 0})
    numbers = [item["number"] for page in (first, second) for item in page["items"]]
    assert numbers == [each.number for each in told[:4]]
    pod = first["items"][0]["pods"][0]
    assert pod["usage"]["cpu_milli"] == told[0].pods[0].usage.cpu_p95_milli
    assert pod["request"] == {
        "cpu_milli": told[0].pods[0].pod.request.cpu_milli,
        "memory_bytes": told[0].pods[0].pod.request.memory_bytes,
    }
    for name in ("name", "namespace", "priority", "labels"):
        assert pod[name] == getattr(told[0].pods[0].pod, name)
    assert bad.status_code == 422

"""Large bodies take turns with pauses, too many of them are refused, and a route may take less than others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest_asyncio
from fastapi import Body

from slackwater.resources.changed_event import MOST_BYTES as MOST_DOCUMENT_BYTES
from slackwater.runtime.http import build_app
from slackwater.runtime.large_bodies import LARGE_BYTES, MOST_WAITING
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.settings import HttpSettings


async def well() -> list[object]:
    return []


class Store:
    """Requests are held until `released`; `inside` and `most` are how many are handled at once, now and at most."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.inside = self.most = 0

    def routes(self) -> Routes:
        router = Routes()

        @router.put("/documents", role=Role.OPERATOR)
        async def store(said: list[int] = Body(), dry_run: DryRun = False) -> int:  # noqa: B008 - as FastAPI wants it
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.released.wait()
            self.inside -= 1
            return len(said)

        @router.put("/small", role=Role.OPERATOR, most_bytes=1000)
        async def small(said: list[int] = Body(), dry_run: DryRun = False) -> int:  # noqa: B008 - as FastAPI wants it
            return len(said)

        return router


@pytest_asyncio.fixture
async def store() -> Store:
    return Store()


@pytest_asyncio.fixture
async def client(store: Store) -> AsyncIterator[httpx2.AsyncClient]:
    app = build_app([store.routes()], well, HttpSettings(host="127.0.0.1", port=0))  # type: ignore[arg-type]
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


def padded(size: int) -> bytes:
    return b"[1]".ljust(size)


async def put(client: httpx2.AsyncClient, size: int, path: str = "/documents") -> httpx2.Response:
    return await client.put(path, content=padded(size), headers={"content-type": "application/json"})


async def test_large_bodies_are_handled_one_at_a_time_and_too_many_are_refused(
    client: httpx2.AsyncClient, store: Store
) -> None:
    tasks = [asyncio.create_task(put(client, LARGE_BYTES + 1)) for _ in range(MOST_WAITING + 3)]
    refused, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    while len(refused) < 2:
        ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        refused |= ended
    for task in refused:
        answer = task.result()
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_large_bodies")
        assert answer.headers["retry-after"] == "1"
    assert store.inside == 1
    store.released.set()
    answers = await asyncio.gather(*waiting)
    assert [answer.status_code for answer in answers] == [200] * (MOST_WAITING + 1)
    assert store.most == 1


async def test_small_bodies_do_not_wait_for_large_ones(client: httpx2.AsyncClient, store: Store) -> None:
    tasks = [asyncio.create_task(put(client, size)) for size in (LARGE_BYTES + 1, LARGE_BYTES, LARGE_BYTES)]
    while store.inside < 3:
        await asyncio.sleep(0)
    store.released.set()
    assert [answer.status_code for answer in await asyncio.gather(*tasks)] == [200] * 3


async def test_a_route_may_take_less_than_others(client: httpx2.AsyncClient) -> None:
    assert (await put(client, 1000, "/small")).status_code == 200
    refused = await put(client, 1001, "/small")
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    assert "the body exceeds 1000 bytes" in refused.json()["detail"]

    async def undeclared() -> AsyncIterator[bytes]:
        yield padded(1001)

    headers = {"content-type": "application/json"}
    assert (await client.put("/small", content=undeclared(), headers=headers)).status_code == 413


def test_every_document_that_is_taken_fits_its_event() -> None:
    assert LARGE_BYTES < MOST_DOCUMENT_BYTES == 262_144

"""A body that is larger than any document is refused, whether it says so before or not, and never kept whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import Body

from slackwater.runtime.body_limit import MOST_BYTES
from slackwater.runtime.http import build_app
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.settings import HttpSettings

PIECE = b" " * 65536


async def well() -> list[object]:
    return []


async def put(pieces: int, *, declared: bool) -> tuple[httpx2.Response, int]:
    """The answer, and how many pieces were taken."""
    router, taken = Routes(), 0

    @router.put("/documents", role=Role.OPERATOR)
    async def store(said: list[int] = Body(), dry_run: DryRun = False) -> int:  # noqa: B008 - as FastAPI wants it
        return len(said)

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        yield b"["
        for _ in range(pieces):
            taken += 1
            yield PIECE
        yield b"1]"

    settings = HttpSettings(host="127.0.0.1", port=0)
    transport = httpx2.ASGITransport(build_app([router], well, settings))  # type: ignore[arg-type]  # no checks
    headers = {"content-type": "application/json"}
    if declared:
        headers["content-length"] = str(pieces * len(PIECE) + 3)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.put("/documents", content=body(), headers=headers), taken


@pytest.mark.parametrize("declared", [True, False])
async def test_what_fits_is_read_and_what_does_not_is_refused_with_its_code(declared: bool) -> None:
    fits, _ = await put(MOST_BYTES // len(PIECE) - 1, declared=declared)
    assert (fits.status_code, fits.json()) == (200, 1)
    most = MOST_BYTES // len(PIECE)
    refused, taken = await put(10 * most, declared=declared)
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")
    assert taken == (0 if declared else most)

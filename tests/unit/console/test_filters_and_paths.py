"""An unknown pool: nothing in a filtered list, and an error where the path names it (docs/how-to/read-offers.md)."""

from __future__ import annotations

import httpx2
import pytest
from console_app import console_app
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel

from slackwater.console.edge.stream import Streams


@pytest.mark.parametrize("path", ["/v1/offers", "/v1/nodes", "/v1/pods", "/v1/decisions"])
async def test_every_list_takes_an_unknown_pool_alike(
    path: str, told: MemoryReadModel, streams: Streams, clock: FakeClock
) -> None:
    app = console_app(told, streams, clock)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as client:
        known, unknown = await client.get(path, params={"pool": "edge"}), await client.get(path, params={"pool": "no"})
        named = await client.get("/v1/pools/no/offers")
    assert known.json()["items"]
    assert (unknown.status_code, unknown.json()["items"]) == (200, [])
    assert (named.status_code, named.json()["code"]) == (404, "pool_not_found")

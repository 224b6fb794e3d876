"""Which requests count as sent by a page of another site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import httpx2
import pytest
from starlette.datastructures import Headers

from slackwater.runtime.cross_site import other_origin
from slackwater.runtime.http import build_app
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

HOST = "127.0.0.1:8460"
EVIL = "https://evil.example"


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, None),
        ({"origin": f"http://{HOST}"}, None),
        ({"origin": f"https://{HOST}"}, None),  # TLS ends at a proxy
        ({"origin": EVIL}, EVIL),
        ({"origin": "null"}, "null"),
        ({"origin": "null", "host": ""}, "null"),
        ({"origin": "http://127.0.0.1:3000"}, "http://127.0.0.1:3000"),
        ({"origin": f"{EVIL}/{'x' * 500}"}, f"{EVIL}/{'x' * 500}"[:80]),
        ({"sec-fetch-site": "same-origin"}, None),
        ({"sec-fetch-site": "same-origin", "origin": "https://console.example"}, None),  # a proxy that renames the host
        ({"sec-fetch-site": "none"}, None),
        ({"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:3000"}, "http://127.0.0.1:3000"),
        ({"sec-fetch-site": "cross-site"}, "another site"),
        ({"sec-fetch-site": "cross-site", "origin": f"http://{HOST}"}, f"http://{HOST}"),
        ({"sec-fetch-site": "cross-site", "authorization": "Bearer x"}, None),
        ({"sec-fetch-site": "cross-site", "authorization": "Basic eDp5"}, "another site"),
    ],
)
def test_the_origin_of_another_site(headers: Mapping[str, str], refused: str | None) -> None:
    assert other_origin(Headers({"host": HOST, **headers})) == refused


async def test_only_changes_are_refused_and_with_a_problem() -> None:
    router = Routes()

    @router.get("/read", role=Role.VIEWER)
    async def read() -> bool:
        return True

    @router.post("/change", role=Role.OPERATOR)
    async def change(dry_run: DryRun = False) -> bool:
        return dry_run

    async def no_checks() -> Sequence[Check]:
        return ()

    app = build_app([router], no_checks, HttpSettings(port=0))
    headers = {"origin": EVIL, "sec-fetch-site": "cross-site"}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=f"http://{HOST}") as client:
        read_, head = await client.get("/read", headers=headers), await client.head("/read", headers=headers)
        refused, own = await client.post("/change", headers=headers), await client.post("/change")
    assert (read_.status_code, head.status_code, own.status_code) == (200, 200, 200)
    assert (refused.status_code, refused.json()["code"]) == (409, "other_site")
    assert EVIL in refused.json()["detail"]

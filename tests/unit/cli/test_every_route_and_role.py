"""Every route of everything that runs, console pages included, against every role and none."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NoReturn

import httpx2
import pytest
from fastapi import FastAPI

from slackwater.cli.offline_services import offline_services
from slackwater.model.errors import Unavailable
from slackwater.runtime.http import build_app
from slackwater.runtime.roles import OPEN, Needed, Role
from slackwater.runtime.routes import READS, guarded_routes
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

TOKENS = {role: f"the-long-token-of-the-{role}" for role in Role}
PROBES = {"/livez", "/readyz"}


async def ready() -> list[Check]:
    return []


def whole_app(tokens_file: Path | None) -> FastAPI:
    routers = [router for service in offline_services() for router in service.routers()]
    return build_app(routers, ready, HttpSettings(host="127.0.0.1", port=0, tokens_file=tokens_file))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    path = tmp_path_factory.mktemp("access") / "tokens"
    path.write_text("".join(f"{role} {role} {token}\n" for role, token in TOKENS.items()))
    path.chmod(0o600)
    return whole_app(path)


async def status(app: FastAPI, method: str, path: str, token: str | None) -> tuple[int, str]:
    """What the doors answer; 0 if the request was let in, however it would have fared behind them."""
    inside = httpx2.ASGITransport(app=app)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(transport=inside, base_url="http://127.0.0.1", headers=headers) as client:
        answer = await client.request(method, path)
    return answer.status_code, answer.text


@pytest.fixture(autouse=True)
def nothing_behind_the_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    async def arrived(*_: object) -> NoReturn:
        raise Unavailable("arrived", code="arrived")

    monkeypatch.setattr("fastapi.routing.APIRoute.handle", arrived)


async def test_every_route_lets_in_exactly_the_roles_that_it_says(app: FastAPI) -> None:
    """One test: a parameter for each route would build the application while tests are collected, in each lane."""
    wrong = []
    for path, methods, needed in guarded_routes(app):
        for method in sorted(methods):
            wrong += [f"{method} {path}: {what}" for what in await surprises(app, method, path, needed)]
    assert wrong == []


async def surprises(app: FastAPI, method: str, path: str, needed: Needed) -> list[str]:
    """What a route answers otherwise than its role says."""
    address, found = re.sub(r"\{[^}]*\}", "x", path), []
    for role, token in TOKENS.items():
        code, text = await status(app, method, address, token)
        if role.allows(needed):
            is_right = code == 503 and "arrived" in text
        else:
            says = f"needs the role {needed}" in text and f"has the role {role}" in text
            is_right = code == 403 and "arrived" not in text and says
        found += [] if is_right else [f"{code} to the role {role}, which needs {needed}: {text}"]
    for wrong in (None, "the-long-token-of-nobody"):
        code = (await status(app, method, address, wrong))[0]
        found += [] if code == (503 if needed == OPEN else 401) else [f"{code} to the token {wrong}"]
    return found


async def test_no_page_of_another_site_changes_anything(app: FastAPI) -> None:
    """With the user's cookie, and on loopback without tokens, where each request is admin's."""
    cookie = {"cookie": f"slackwater-token={TOKENS[Role.ADMIN]}"}
    changed, wrong = set[str](), []
    for doors, proof in ((app, cookie), (whole_app(None), {})):
        for path, methods, _ in guarded_routes(doors):
            for method in methods - READS:
                changed.add(f"{method} {path}")
                wrong += [
                    f"{method} {path}: {what}" for what in await surprises_from_elsewhere(doors, method, path, proof)
                ]
    assert wrong == []
    assert len(changed) > 25
    assert changed > {
        "POST /v1/deadletters/{id}/replay",
        "POST /v1/move-plans/{plan}/apply",
        "POST /v1/quarantine/quota/{id}/release",
        "POST /v1/quotas/{quota}/claims/{claim}/start",
    }


async def surprises_from_elsewhere(app: FastAPI, method: str, path: str, proof: dict[str, str]) -> list[str]:
    """What is answered otherwise to a page of another site, or to one of this server."""
    address, found = re.sub(r"\{[^}]*\}", "x", path), []
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1", headers=proof
    ) as client:
        for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
            answer = await client.request(method, address, headers=headers)
            if answer.status_code != 409 or answer.json()["code"] != "other_site":
                found.append(f"{answer.status_code} to {headers}")
        for headers in ({}, own):
            answer = await client.request(method, address, headers=headers)
            if "arrived" not in answer.text:
                found.append(f"{answer.status_code} to {headers}")
    return found


async def test_only_probes_are_open_and_whatever_changes_something_needs_more_than_a_viewer(app: FastAPI) -> None:
    found = list(guarded_routes(app))
    assert {path for path, _, needed in found if needed == OPEN} == PROBES
    assert {path for path, _, _ in found} >= {"/", "/metrics", "/v1/nodes", "/nodes/{name}", "/v1/openapi.json"}
    for path, methods, needed in found:
        if methods - {"GET"}:
            assert needed in (Role.OPERATOR, Role.ADMIN, Role.AGENT), path


async def test_unauthenticated_callers_cannot_detect_what_exists(app: FastAPI) -> None:
    codes = await asyncio.gather(
        status(app, "GET", "/nowhere", None),
        status(app, "POST", "/v1/nodes", None),
        status(app, "GET", "/nowhere", TOKENS[Role.VIEWER]),
    )
    assert [code for code, _ in codes] == [401, 401, 404]

"""/v1/podqos, /v1/avoidanceactions, /v1/autonomies, /v1/nodeqos: preconditions, dry run, errors that name the field."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from guard_documents import BE, EVICT, PRESSED, DocumentScene

from slackwater.runtime.http import build_app
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

SPECS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "/v1/podqos": ("PodQOS", BE),
    "/v1/avoidanceactions": ("AvoidanceAction", EVICT),
    "/v1/autonomies": ("Autonomy", {"mode": "evict", "nodePool": "gold pool"}),
    "/v1/nodeqos": ("NodeQOS", {"selector": {"matchLabels": {"pool": "x"}}, "rules": [PRESSED]}),
}
every_path = pytest.mark.parametrize("path", SPECS)


async def no_checks() -> list[Check]:
    return []


@pytest_asyncio.fixture
async def scene() -> DocumentScene:
    scene = DocumentScene()
    await scene.open()
    return scene


@pytest_asyncio.fixture
async def client(scene: DocumentScene) -> AsyncIterator[httpx2.AsyncClient]:
    app = build_app([resource_router(change) for change in scene.changes.values()], no_checks, HttpSettings.local())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        yield client


def document(path: str, **spec: Any) -> dict[str, Any]:
    kind, known = SPECS[path]
    return {"kind": kind, "metadata": {"name": "gold"}, "spec": {**known, **spec}}


@every_path
async def test_a_document_is_made_read_changed_and_removed(client: httpx2.AsyncClient, path: str) -> None:
    url = f"{path}/gold"
    assert (await client.get(url)).status_code == 404
    made = await client.put(url, json=document(path))
    assert (made.status_code, made.headers["etag"], made.json()["metadata"]["changedBy"]) == (201, '"1"', "local")
    read = await client.get(url)
    assert read.json() == made.json()
    assert (await client.get(url, headers={"if-none-match": '"1"'})).status_code == 304
    names = [one["metadata"]["name"] for one in (await client.get(path)).json()["items"]]
    assert names == (["default", "gold"] if path == "/v1/nodeqos" else ["gold"])
    same = await client.put(url, json=read.json())
    assert (same.status_code, same.headers["etag"]) == (200, '"1"')
    assert (await client.delete(url, headers={"if-match": '"7"'})).status_code == 412
    assert (await client.delete(url, headers={"if-match": '"1"'})).json()["metadata"]["name"] == "gold"
    assert (await client.get(url)).status_code == 404
    again = await client.put(url, json=document(path))
    assert (again.status_code, again.headers["etag"]) == (201, '"3"'), "a generation never means two things"


@every_path
async def test_a_dry_run_shows_and_stores_nothing(client: httpx2.AsyncClient, path: str) -> None:
    tried = await client.put(f"{path}/gold?dryRun=true", json=document(path))
    assert tried.json()["document"]["metadata"]["generation"] == 1
    assert {"field": "kind", "after": SPECS[path][0]} in tried.json()["changes"]
    assert (await client.get(f"{path}/gold")).status_code == 404


@every_path
async def test_the_name_in_the_path_is_that_of_the_document(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.put(f"{path}/silver", json=document(path))
    assert (answer.status_code, answer.json()["field"]) == (422, "metadata.name")


@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        ("/v1/podqos", {"allowedActions": ["Not A Name"]}, "body.spec.allowedActions.0"),
        ("/v1/avoidanceactions", {"throttle": {"minCpu": "1m"}}, "body.spec.throttle.minCpu"),
        ("/v1/autonomies", {"mode": "everything"}, "body.spec.mode"),
        ("/v1/nodeqos", {"rules": [PRESSED | {"metricRule": {"name": "moon", "value": 1}}]}, "body.spec.rules.0"),
    ],
)
async def test_a_field_that_is_wrong_is_named(
    client: httpx2.AsyncClient, path: str, spec: dict[str, Any], field: str
) -> None:
    answer = await client.put(f"{path}/gold", json=document(path, **spec))
    assert answer.status_code == 422
    assert field in answer.json()["detail"]


async def test_a_pool_has_one_autonomy(client: httpx2.AsyncClient) -> None:
    await client.put("/v1/autonomies/gold", json=document("/v1/autonomies"))
    second = document("/v1/autonomies") | {"metadata": {"name": "silver"}}
    answer = await client.put("/v1/autonomies/silver", json=second)
    assert (answer.status_code, answer.json()["code"]) == (409, "node_pool_taken")


async def test_every_node_follows_at_once(scene: DocumentScene, client: httpx2.AsyncClient) -> None:
    generation = scene.intents()[-1].generation
    everywhere = document("/v1/nodeqos", selector=None)
    everywhere["spec"]["rules"] = [PRESSED | {"metricRule": {"name": "node_cpu_usage_ratio", "value": "85%"}}]
    await client.put("/v1/nodeqos/gold", json=everywhere)
    intent = scene.intents()[-1]
    assert intent.generation == generation + 1
    assert {(line.metric, line.value) for line in intent.waterlines} == {
        ("prod_cpu_pressure", 0.1),
        ("prod_memory_refaults", 32 * 2**20),
        ("node_memory_usage_ratio", 0.9),
        ("node_cpu_usage_ratio", 0.85),
    }
    await client.delete("/v1/nodeqos/gold")
    assert len(scene.intents()[-1].waterlines) == 3


async def test_the_clusters_own_document_cannot_be_removed(client: httpx2.AsyncClient) -> None:
    answer = await client.delete("/v1/nodeqos/default")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")

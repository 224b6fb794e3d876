"""PUT /v1/nodeqos/default: preconditions, dry run, and every node's intent at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from ensurance_scene import Scene

from slackwater.resources.kinds.node_qos import NODE_QOS
from slackwater.runtime.http import build_app
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

URL = "/v1/nodeqos/default"


@pytest_asyncio.fixture
async def scene() -> Scene:
    return await Scene().open("n1", "n2")


def asking(scene: Scene) -> httpx2.AsyncClient:
    app = build_app([resource_router(scene.changes[NODE_QOS])], no_checks, HttpSettings.local())
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1")


async def no_checks() -> list[Check]:
    return []


@pytest_asyncio.fixture
async def client(scene: Scene) -> AsyncIterator[httpx2.AsyncClient]:
    async with asking(scene) as client:
        yield client


async def changed(client: httpx2.AsyncClient, **spec: Any) -> dict[str, Any]:
    document: dict[str, Any] = (await client.get(URL)).json()
    document["metadata"].pop("generation")
    document["spec"] |= spec
    return document


async def test_the_first_document_comes_from_the_settings(client: httpx2.AsyncClient) -> None:
    answer = await client.get(URL)
    assert answer.headers["etag"] == '"1"'
    assert answer.json()["spec"]["rules"] == [
        {
            "name": "prod-cpu",
            "metricRule": {"name": "prod_cpu_pressure", "value": 0.1},
            "actionName": "throttle",
            "strategy": "None",
            "avoidanceThreshold": 1,
            "restoreThreshold": 2,
            "coolDownSeconds": 3.0,
        },
        {
            "name": "prod-refaults",
            "metricRule": {"name": "prod_memory_refaults", "value": "32Mi"},
            "actionName": "throttle",
            "strategy": "None",
            "avoidanceThreshold": 3,
            "restoreThreshold": 3,
            "coolDownSeconds": 60.0,
        },
        {
            "name": "node-memory",
            "metricRule": {"name": "node_memory_usage_ratio", "value": "90%"},
            "actionName": "throttle",
            "strategy": "None",
            "avoidanceThreshold": 2,
            "restoreThreshold": 3,
            "coolDownSeconds": 60.0,
        },
    ]


async def test_a_change_reaches_every_node_at_once_and_is_stored(scene: Scene, client: httpx2.AsyncClient) -> None:
    answer = await client.put(URL, json=await changed(client, weights="by-request"), headers={"if-match": '"1"'})
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    for node in ("n1", "n2"):
        assert (scene.intents(node)[-1].weights, scene.intents(node)[-1].generation) == ("by-request", 2)
    assert scene.stores[NODE_QOS].rows["default"].generation == 2


async def test_a_policy_has_its_author_whatever_the_caller_sends(client: httpx2.AsyncClient) -> None:
    document = await changed(client, mode="observe")
    document["metadata"]["changedBy"] = "another user"
    assert (await client.put(URL, json=document)).json()["metadata"]["changedBy"] == "local"
    assert (await client.get(URL)).json()["metadata"]["changedBy"] == "local"


async def test_the_same_spec_again_changes_nothing(scene: Scene, client: httpx2.AsyncClient) -> None:
    before = len(scene.database.published)
    answer = await client.put(URL, json=await changed(client))
    assert answer.headers["etag"] == '"1"'
    assert len(scene.database.published) == before


async def test_a_dry_run_shows_and_stores_nothing(scene: Scene, client: httpx2.AsyncClient) -> None:
    answer = await client.put(f"{URL}?dryRun=true", json=await changed(client, mode="observe"))
    assert answer.json()["document"]["metadata"]["generation"] == 2
    assert answer.json()["changes"] == [{"field": "spec.mode", "before": "throttle", "after": "observe"}]
    assert "etag" not in answer.headers
    assert (await client.get(URL)).json()["spec"]["mode"] == "throttle"
    assert len(scene.intents()) == 1


async def test_what_was_read_must_still_be_there(client: httpx2.AsyncClient) -> None:
    document = await changed(client, mode="observe")
    refused = await client.put(URL, json=document, headers={"if-match": '"7"'})
    assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    document["metadata"]["generation"] = 7
    conflict = await client.put(URL, json=document)
    assert (conflict.status_code, conflict.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mode": "everything"}, "body.spec.mode"),
        ({"rules": [{"name": "A", "metricRule": {"name": "prod_cpu_pressure", "value": 0}}]}, "body.spec.rules.0.name"),
    ],
)
async def test_a_wrong_field_is_named(client: httpx2.AsyncClient, spec: dict[str, Any], field: str) -> None:
    answer = await client.put(URL, json=await changed(client, **spec))
    assert answer.status_code == 422
    assert field in answer.json()["detail"]


async def test_another_name_does_not_exist(client: httpx2.AsyncClient) -> None:
    document = await changed(client)
    document["metadata"]["name"] = "other"
    answer = await client.put(URL, json=document)
    assert (answer.status_code, answer.json()["field"]) == (422, "metadata.name")


async def test_observe_gives_every_throttle_back_in_the_same_transaction(
    scene: Scene, client: httpx2.AsyncClient
) -> None:
    await scene.report(0.2)
    assert scene.limits() == {"b1": 725}
    writes = scene.database.writes
    await client.put(URL, json=await changed(client, mode="observe"))
    assert scene.database.writes == writes + 1
    assert scene.limits() == {}
    assert scene.records()[-1].reason == "restore_mode_changed"


async def test_observe_previews_once_and_declares_nothing(scene: Scene, client: httpx2.AsyncClient) -> None:
    await client.put(URL, json=await changed(client, mode="observe"))
    intents = len(scene.intents())
    for _ in range(5):
        await scene.report(0.2)
    assert [record.reason for record in scene.records()] == ["throttle_observed_only"]
    assert scene.records()[0].result == 275
    assert len(scene.intents()) == intents


async def test_before_the_policy_is_read_the_answer_is_to_try_again() -> None:
    async with asking(Scene()) as client:
        answer = await client.get(URL)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")

"""/v1/predictpolicies and /v1/predictors as a client meets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio
from policy_scene import Replica, document, model
from tests.support.resources import MemoryResourceStore

from slackwater.prediction.edge.predictor_routes import predictor_router
from slackwater.runtime.http import build_app
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

URL = "/v1/predictpolicies"


async def no_checks() -> list[Check]:
    return []


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    replica = await Replica(MemoryResourceStore()).open()
    routers = [resource_router(replica.change), predictor_router(replica.catalogue)]
    app = build_app(routers, no_checks, HttpSettings.local())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        yield client


def said(answer: httpx2.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()["code"]


async def test_a_document_is_made_changed_and_removed(client: httpx2.AsyncClient) -> None:
    made = await client.put(f"{URL}/gold", json=document("gold", violationRate=0.01))
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json()["status"]["effective"]["cpu"]["settings"] == {"violation_rate": 0.01}
    changed = await client.put(f"{URL}/gold", json=document("gold", protectLSR=True), headers={"if-match": '"1"'})
    assert (changed.status_code, changed.headers["etag"], changed.json()["metadata"]["changedBy"]) == (
        200,
        '"2"',
        "local",
    )
    listed = (await client.get(URL)).json()["items"]
    assert [one["metadata"]["name"] for one in listed] == ["default", "gold"]
    gone = await client.delete(f"{URL}/gold", headers={"if-match": '"2"'})
    assert (gone.status_code, gone.json()["spec"]["protectLSR"]) == (200, True)
    assert said(await client.get(f"{URL}/gold")) == (404, "predictpolicy_not_found")
    assert said(await client.delete(f"{URL}/gold")) == (404, "predictpolicy_not_found")


async def test_what_is_read_can_be_written_back(client: httpx2.AsyncClient) -> None:
    read = (await client.get(f"{URL}/default")).json()
    assert read["status"]["effective"]["cadence"]["checkPredictionIntervalSeconds"] == 20
    answer = await client.put(f"{URL}/default", json=read)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')


async def test_preconditions_are_kept(client: httpx2.AsyncClient) -> None:
    assert (await client.get(f"{URL}/default", headers={"if-none-match": '"1"'})).status_code == 304
    other = {"if-match": '"7"'}
    body = document("default", protectLSR=True)
    assert said(await client.put(f"{URL}/default", json=body, headers=other)) == (412, "precondition_failed")
    fresh = document("gold")
    for wanted in ('"1"', "*"):
        answer = await client.put(f"{URL}/gold", json=fresh, headers={"if-match": wanted})
        assert said(answer) == (412, "precondition_failed")
    assert said(await client.put(f"{URL}/default", json=document("default", 7))) == (409, "conflict")
    assert said(await client.delete(f"{URL}/gold", headers=other)) == (412, "precondition_failed")
    assert said(await client.delete(f"{URL}/default")) == (409, "predictpolicy_needed")


async def test_trying_says_what_would_change(client: httpx2.AsyncClient) -> None:
    tried = await client.put(f"{URL}/gold?dryRun=true", json=document("gold", protectLSR=True))
    assert tried.status_code == 200
    changes = {one["field"]: one["after"] for one in tried.json()["changes"]}
    assert changes["spec.protectLSR"] is True
    assert tried.json()["document"]["metadata"]["generation"] == 1
    assert said(await client.get(f"{URL}/gold")) == (404, "predictpolicy_not_found")
    await client.put(f"{URL}/gold", json=document("gold", protectLSR=True))
    gone = await client.delete(f"{URL}/gold?dryRun=true")
    assert gone.json()["document"] is None
    assert {"field": "spec.protectLSR", "before": True, "after": None} in gone.json()["changes"]
    assert (await client.get(f"{URL}/gold")).status_code == 200


async def test_a_refusal_names_the_field_and_what_is_allowed(client: httpx2.AsyncClient) -> None:
    wrong = document("gold", models={"cpu": model("nsigma-v1", sigmas=-1)})
    answer = await client.put(f"{URL}/gold", json=wrong)
    assert said(answer) == (422, "predictor_settings")
    assert "spec.models.cpu: model nsigma-v1: setting sigmas is -1" in answer.json()["detail"]
    unknown = await client.put(f"{URL}/gold", json=document("gold", models={"cpu": model("prophet")}))
    assert said(unknown) == (422, "predictor_unknown")
    other = await client.put(f"{URL}/gold", json=document("silver"))
    assert said(other) == (422, "invalid_input")
    await client.put(f"{URL}/gold", json=document("gold"))
    taken = await client.put(f"{URL}/ours", json=document("ours", nodePool="gold"))
    assert said(taken) == (409, "node_pool_taken")


async def test_models_are_listed_with_what_can_be_set(client: httpx2.AsyncClient) -> None:
    found = {one["name"]: one for one in (await client.get("/v1/predictors")).json()["items"]}
    ours = found["workload-profile"]
    assert (ours["origin"], ours["takes_rate"], ours["defaults"]["history_hours"]) == ("slackwater", True, 336)
    assert not found["nsigma-v1"]["takes_rate"]
    (rate,) = [one for one in ours["settings"] if one["name"] == "violation_rate"]
    assert (rate["default"], rate["allowed"]) == ("null", "number > 0, < 1, or null")
    assert ours["settings_schema"]["properties"]["knob"]["description"]
    assert (await client.get("/v1/predictors/histogram")).json() == found["histogram"]
    assert said(await client.get("/v1/predictors/prophet")) == (404, "predictor_not_found")

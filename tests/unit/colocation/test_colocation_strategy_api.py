"""/v1/colocationstrategies as a client meets it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio
from strategy_scene import Replica, document

from slackwater.runtime.http import build_app
from slackwater.runtime.resource_routes import resource_router
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

URL = "/v1/colocationstrategies"


async def no_checks() -> list[Check]:
    return []


@pytest_asyncio.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    replica = await Replica().open()
    await replica.node("a")
    await replica.node("b", pool="gold")
    app = build_app([resource_router(replica.change)], no_checks, HttpSettings.local())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        yield client


def said(answer: httpx2.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()["code"]


async def test_a_document_is_made_changed_and_removed(client: httpx2.AsyncClient) -> None:
    made = await client.put(f"{URL}/gold", json=document("gold", riseWindows=4))
    assert (made.status_code, made.headers["etag"]) == (201, '"1"')
    assert made.json()["status"]["effective"]["riseWindows"] == 4
    wanted = document("gold", riseWindows=5)
    changed = await client.put(f"{URL}/gold", json=wanted, headers={"if-match": '"1"'})
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    assert changed.json()["metadata"]["changedBy"] == "local"
    listed = (await client.get(URL)).json()["items"]
    assert [one["metadata"]["name"] for one in listed] == ["default", "gold"]
    gone = await client.delete(f"{URL}/gold", headers={"if-match": '"2"'})
    assert (gone.status_code, gone.json()["spec"]["riseWindows"]) == (200, 5)
    assert said(await client.get(f"{URL}/gold")) == (404, "colocationstrategy_not_found")
    assert said(await client.delete(f"{URL}/gold")) == (404, "colocationstrategy_not_found")


async def test_what_is_read_can_be_written_back(client: httpx2.AsyncClient) -> None:
    read = (await client.get(f"{URL}/default")).json()
    assert read["status"]["nodes"] == 2
    assert [one["status"] for one in read["status"]["conditions"]] == ["True", "True"]
    answer = await client.put(f"{URL}/default", json=read)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')


async def test_preconditions_are_kept(client: httpx2.AsyncClient) -> None:
    assert (await client.get(f"{URL}/default", headers={"if-none-match": '"1"'})).status_code == 304
    other = {"if-match": '"7"'}
    body = document("default", riseWindows=4)
    assert said(await client.put(f"{URL}/default", json=body, headers=other)) == (412, "precondition_failed")
    assert said(await client.put(f"{URL}/gold", json=document("gold"), headers=other)) == (412, "precondition_failed")
    assert said(await client.put(f"{URL}/default", json=document("default", 7))) == (409, "conflict")
    assert said(await client.delete(f"{URL}/gold", headers=other)) == (412, "precondition_failed")
    assert said(await client.delete(f"{URL}/default")) == (409, "colocationstrategy_needed")


async def test_a_refusal_says_which_field_and_what_is_allowed(client: httpx2.AsyncClient) -> None:
    answer = await client.put(f"{URL}/gold", json=document("gold", midCPUThresholdPercent=101, riseWindows=0))
    assert said(answer) == (422, "invalid_input")
    told = answer.text
    assert "midCPUThresholdPercent: 101 is not allowed; a whole number from 0 to 100" in told
    assert "riseWindows: 0 is not allowed; a whole number from 1" in told
    other = await client.put(f"{URL}/silver", json=document("gold"))
    assert said(other) == (422, "invalid_input")
    assert "is not the name in the path" in other.json()["detail"]
    assert [one["metadata"]["name"] for one in (await client.get(URL)).json()["items"]] == ["default"]


async def test_trying_says_what_would_change_and_what_would_be_offered(client: httpx2.AsyncClient) -> None:
    wanted = document("gold", cpuReclaimThresholdPercent=30)
    tried = (await client.put(f"{URL}/gold?dryRun=true", json=wanted)).json()
    assert {"field": "spec.cpuReclaimThresholdPercent", "before": None, "after": 30} in tried["changes"]
    assert tried["document"]["metadata"]["generation"] == 1
    first = tried["offers"]["nodes"][0]
    cores = {when: first[when]["batch"]["cpu_milli"] for when in ("in_force", "before", "after")}
    assert (first["node"], cores) == ("b", {"in_force": 2500, "before": 2500, "after": 100})
    assert [pool["pool"] for pool in tried["offers"]["pools"]] == ["default", "gold"]
    few = (await client.put(f"{URL}/gold?dryRun=true&limit=0", json=wanted)).json()["offers"]
    assert (few["nodes"], few["left_out"], few["pools"]) == ([], 2, tried["offers"]["pools"])
    assert said(await client.get(f"{URL}/gold")) == (404, "colocationstrategy_not_found")
    await client.put(f"{URL}/gold", json=wanted)
    gone = (await client.delete(f"{URL}/gold?dryRun=true")).json()
    assert gone["document"] is None
    assert gone["offers"]["nodes"][0]["after"]["batch"]["cpu_milli"] == 2500
    assert (await client.get(f"{URL}/gold")).status_code == 200

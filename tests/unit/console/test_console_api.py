"""REST over the in-memory read model, through the same application that a process serves."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import httpx2
import pytest
from tests.support.clock import FakeClock
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import FLEET, SURGE, identifier


async def _no_checks() -> list[Any]:
    return []


@pytest.fixture
def api(told_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    return told_client


async def answer(api: httpx2.AsyncClient, path: str, **params: Any) -> Any:
    response = await api.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def problem(api: httpx2.AsyncClient, path: str, status: int, **params: Any) -> Any:
    response = await api.get(path, params=params)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()


async def test_nodes_are_listed_by_name_with_usage_and_offer(api: httpx2.AsyncClient) -> None:
    items = (await answer(api, "/v1/nodes"))["items"]
    assert [item["name"] for item in items] == sorted(node.name for node in FLEET)
    seven = next(item for item in items if item["name"] == "edge-7")
    assert seven["facts"]["capacity"]["cpu_milli"] == 8000
    assert seven["liveness"] == "fresh"
    parts = seven["usage"]
    assert (
        sum(t["cpu_milli"] for t in parts["tiers"].values()) + parts["system"]["cpu_milli"]
        == parts["usage"]["cpu_milli"]
    )
    assert seven["offer"]["batch"]["cpu_milli"] > 0


async def test_an_unknown_node_is_a_problem_that_names_its_neighbours(api: httpx2.AsyncClient) -> None:
    body = await problem(api, "/v1/nodes/edge-77", 404)
    assert body["code"] == "node_not_found"
    assert "did you mean 'edge-7'" in body["detail"]


@pytest.mark.parametrize("path", ["pods", "usage", "forecast", "offers"])
async def test_every_part_of_an_unknown_node_is_a_problem(api: httpx2.AsyncClient, path: str) -> None:
    await problem(api, f"/v1/nodes/nowhere/{path}", 404)


async def test_pods_carry_their_limits(api: httpx2.AsyncClient) -> None:
    items = (await answer(api, "/v1/nodes/edge-7/pods"))["items"]
    assert {item["tier"] for item in items} == {"prod", "mid", "batch"}
    assert all(item["cpu_limit_milli"] is None and not item["throttled"] for item in items)
    assert len((await answer(api, "/v1/pods"))["items"]) == len(items) * len(FLEET)


async def test_usage_shows_the_throttle_and_its_end(api: httpx2.AsyncClient) -> None:
    items = (await answer(api, "/v1/nodes/edge-7/usage", since="-15m"))["items"]
    assert [item["sampled_at"] for item in items] == sorted(item["sampled_at"] for item in items)
    assert {item["batch_limit_milli"] for item in items} >= {None, 2000, 1000}
    assert max(item["throttled_pods"] for item in items) == 2
    assert items[-1]["throttled_pods"] == 0


async def test_a_span_that_ends_before_it_begins_is_refused(api: httpx2.AsyncClient) -> None:
    body = await problem(api, "/v1/nodes/edge-7/usage", 422, since="-1m", until="-2m")
    assert body["field"] == "since"


@pytest.mark.parametrize("text", ["yesterday", "-5", "5 minutes", "2026-13-01", "", "-99999999999d"])
async def test_a_time_that_is_none_is_refused_with_what_is_allowed(api: httpx2.AsyncClient, text: str) -> None:
    if text:
        body = await problem(api, "/v1/why", 422, node="edge-7", at=text)
        assert "allowed" in body["detail"]
        assert body["field"] == "at"


async def test_the_offer_of_a_past_moment_is_the_one_in_force_then(api: httpx2.AsyncClient) -> None:
    now = (await answer(api, "/v1/nodes/edge-7/offers", at="-0s"))["items"]
    then = (await answer(api, "/v1/nodes/edge-7/offers", at="-6m"))["items"]
    assert len(now) == len(then) == 1
    assert then[0]["generation"] < now[0]["generation"]
    assert then[0]["batch"]["cpu_milli"] < now[0]["batch"]["cpu_milli"], "the surge lowers the offer"
    assert (await answer(api, "/v1/nodes/edge-7/offers", at="-1d"))["items"] == []


async def test_decisions_page_through_without_repeating_or_skipping(api: httpx2.AsyncClient) -> None:
    whole = [item["id"] for item in (await answer(api, "/v1/decisions", limit=500))["items"]]
    paged: list[str] = []
    cursor = None
    while True:
        page = await answer(api, "/v1/decisions", limit=7, **({"continue": cursor} if cursor else {}))
        paged += [item["id"] for item in page["items"]]
        cursor = page["continue"]
        if cursor is None:
            break
    assert paged == whole
    assert len(set(whole)) == len(whole) > 14


async def test_decisions_filter_by_node_kind_and_time(api: httpx2.AsyncClient) -> None:
    items = (await answer(api, "/v1/decisions", node="edge-7", kind="throttle"))["items"]
    assert {(item["node"], item["kind"]) for item in items} == {("edge-7", "throttle")}
    assert [item["relieved"] for item in items] == [True, False], "newest first: the second step brought relief"
    assert (await answer(api, "/v1/decisions", kind="throttle", since="-1m"))["items"] == []
    await problem(api, "/v1/decisions", 422, kind="guess")
    assert (await problem(api, "/v1/decisions", 400, **{"continue": "%%%"}))["field"] == "continue"


async def test_decisions_filter_by_reason_pod_and_end(api: httpx2.AsyncClient) -> None:
    every = (await answer(api, "/v1/decisions", limit=500))["items"]
    reason = "throttle_waterline_crossed"
    items = (await answer(api, "/v1/decisions", reason=reason))["items"]
    assert [each["id"] for each in items] == [each["id"] for each in every if each["reason"] == reason] != []
    pod = items[0]["actions"][0]["pod_name"]
    mine = (await answer(api, "/v1/decisions", pod=pod, limit=500))["items"]
    assert mine
    assert all(pod in {action["pod_name"] for action in each["actions"]} for each in mine)
    assert (await answer(api, "/v1/decisions", until="1d"))["items"] == []
    backwards = await problem(api, "/v1/decisions", 422, since="1m", until="2h")
    assert (backwards["code"], backwards["field"], "is after until" in backwards["detail"]) == (
        "invalid_time",
        "since",
        True,
    )
    assert "throttle_waterline_crossed" in (await problem(api, "/v1/decisions", 422, reason="bored"))["detail"]
    alone = await problem(api, "/v1/decisions", 422, spared=True)
    assert (alone["field"], "give pod=NAME" in alone["detail"]) == ("spared", True)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/nodes",
        "/v1/pods",
        "/v1/offers",
        "/v1/decisions",
        "/v1/pools/edge/offers",
        *(f"/v1/nodes/edge-7/{part}" for part in ("usage", "forecast", "pods", "offers")),
    ],
)
async def test_every_list_has_pages(api: httpx2.AsyncClient, path: str) -> None:
    whole = (await answer(api, path, limit=500))["items"]
    found: list[Any] = []
    token: dict[str, str] = {}
    while True:
        page = await answer(api, path, limit=2, **token)
        found += page["items"]
        if page["continue"] is None:
            break
        token = {"continue": page["continue"]}
    assert found == whole[: len(found)] == whole
    for wrong in (0, 1001, "many", -1):
        await problem(api, path, 422, limit=wrong)
    body = await problem(api, path, 400, **{"continue": "bm9uZQ"})
    assert (body["code"], body["field"]) == ("invalid_continue", "continue")


async def test_nodes_pods_and_offers_are_filtered_by_what_they_are(api: httpx2.AsyncClient) -> None:
    nodes = (await answer(api, "/v1/nodes"))["items"]
    pool = nodes[0]["facts"]["pool"]
    expected = [each["name"] for each in nodes if each["facts"]["pool"] == pool]
    assert [each["name"] for each in (await answer(api, "/v1/nodes", pool=pool))["items"]] == expected
    assert [each["node"] for each in (await answer(api, "/v1/offers", pool=pool))["items"]] == expected
    assert (await answer(api, "/v1/nodes", pool="none"))["items"] == []
    assert (await answer(api, "/v1/nodes", label="none=1"))["items"] == []
    assert (await answer(api, "/v1/nodes", liveness="lost"))["items"] == []
    pods = (await answer(api, "/v1/pods", tier="batch", node="edge-7"))["items"]
    assert {(each["tier"], each["node"]) for each in pods} == {("batch", "edge-7")}
    workload = pods[0]["workload"]
    same = (await answer(api, "/v1/pods", workload=workload))["items"]
    assert {each["workload"] for each in same} == {workload}
    assert "batch" in (await problem(api, "/v1/pods", 422, tier="silver"))["detail"]
    assert (await problem(api, "/v1/nodes", 422, label="=x"))["field"] == "label"


async def test_an_offer_has_an_etag_that_is_its_generation(api: httpx2.AsyncClient) -> None:
    first = await api.get("/v1/nodes/edge-7/offer")
    assert first.headers["etag"] == f'"{first.json()["generation"]}"'
    again = await api.get("/v1/nodes/edge-7/offer", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await api.get("/v1/nodes/edge-7/offer", headers={"If-None-Match": '"0"'})
    assert other.json() == first.json()


async def test_an_offer_has_mid_zones_reason_strategies_and_four_records(api: httpx2.AsyncClient) -> None:
    offer = await answer(api, "/v1/nodes/edge-9/offer")
    assert offer["mid"]["cpu_milli"] == 300
    assert sum(zone["batch"]["cpu_milli"] for zone in offer["zones"]) <= offer["batch"]["cpu_milli"]
    assert [zone["name"] for zone in offer["zones"]] == ["node0", "node1"]
    assert offer["reason"] == "offer_changed"
    assert offer["strategies"] == ["cluster@3", "pool/edge@2", "node-annotation"]
    for subject, identity in offer["decision_ids"].items():
        record = await answer(api, f"/v1/decisions/{identity}")
        tier, resource = subject.split("-")
        unit = "cpu_milli" if resource == "cpu" else "memory_bytes"
        assert (record["subject"], record["result"]) == (subject, offer[tier][unit])
    assert set(offer["decision_ids"]) == {"batch-cpu", "batch-memory", "mid-cpu", "mid-memory"}


async def test_a_pool_has_the_sums_of_all_its_offers_on_every_page(api: httpx2.AsyncClient) -> None:
    whole = await answer(api, "/v1/pools/edge/offers")
    assert whole["items"] == (await answer(api, "/v1/offers", pool="edge"))["items"]
    assert whole["pool"] == "edge"
    for tier, resource in product(("batch", "mid"), ("cpu_milli", "memory_bytes")):
        assert whole["sums"][tier][resource] == sum(item[tier][resource] for item in whole["items"])
    counts = {name: whole["sums"][name] for name in ("nodes", "offering", "degraded", "overoffered")}
    assert counts == {"nodes": len(FLEET), "offering": len(FLEET), "degraded": 0, "overoffered": 0}
    first = await answer(api, "/v1/pools/edge/offers", limit=1)
    assert len(first["items"]) == 1
    assert first["sums"] == whole["sums"]


async def test_an_empty_pool_is_a_problem_that_names_similar_pools(api: httpx2.AsyncClient) -> None:
    body = await problem(api, "/v1/pools/egde/offers", 404)
    assert (body["code"], body["field"]) == ("pool_not_found", "pool")
    assert "did you mean 'edge'" in body["detail"]


async def test_the_offers_of_a_pool_have_an_etag_that_stays_while_nothing_changes(api: httpx2.AsyncClient) -> None:
    first = await api.get("/v1/pools/edge/offers")
    again = await api.get("/v1/pools/edge/offers", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    other = await api.get(
        "/v1/pools/edge/offers", params={"limit": 1}, headers={"If-None-Match": first.headers["etag"]}
    )
    assert other.status_code == 200


async def test_why_adds_up_and_names_its_sources(api: httpx2.AsyncClient) -> None:
    body = await answer(api, "/v1/why", node="edge-7", subject="batch-cpu")
    assert body["adds_up"] is True
    assert body["waterfall"][-1]["running_after"] == body["result"] == sum(row["value"] for row in body["waterfall"])
    assert body["waterfall"][0]["source"] == "node.described"
    assert body["record"]["terms"]


async def test_why_of_the_past_is_the_record_in_force_then(api: httpx2.AsyncClient) -> None:
    body = await answer(api, "/v1/why", node="edge-7", subject="batch-cpu", at="-6m")
    assert body["in_force_since"] < body["at"]
    assert body["result"] < (await answer(api, "/v1/why", node="edge-7"))["result"]


async def test_why_says_what_is_known_when_the_question_is_not(api: httpx2.AsyncClient) -> None:
    assert "batch-cpu" in (await problem(api, "/v1/why", 404, node="edge-7", subject="batch-cup"))["detail"]
    assert (await problem(api, "/v1/why", 404, node="edge-7", at="-1d"))["code"] == "nothing_in_force"


async def test_the_chain_runs_from_the_report_to_the_effect(api: httpx2.AsyncClient) -> None:
    second = SURGE[0] + 25
    body = await answer(api, f"/v1/decisions/{identifier('edge-7', 'throttle', second)}/chain")
    assert [step["kind"] for step in body["steps"]] == [
        "usage.reported",
        "decision.recorded",
        "intent.observed",
        "effect.measured",
    ]
    assert [step["seconds"] for step in body["steps"]] == pytest.approx([0, 0.05, 0.3, 5.0])
    assert body["complete"] is True
    assert "encode-video-0 0.6 cores" in body["steps"][2]["summary"]


async def test_an_unknown_decision_is_a_problem(api: httpx2.AsyncClient) -> None:
    for path in ("/v1/decisions/nope", "/v1/decisions/nope/chain"):
        assert (await problem(api, path, 404))["code"] == "decision_not_found"


async def test_counts_agree_with_the_lists(api: httpx2.AsyncClient) -> None:
    counts = await answer(api, "/v1/counts")
    assert counts["nodes"] == len(FLEET)
    decisions = (await answer(api, "/v1/decisions", limit=500))["items"]
    assert sum(each["count"] for each in counts["decisions"]) == len(decisions)
    assert counts["reports"] > counts["predictions"] == counts["offers"] > 0


async def test_the_whole_record_comes_back_unchanged(
    api: httpx2.AsyncClient, told: MemoryReadModel, clock: FakeClock
) -> None:
    record = await told.decision_at("edge-7", "cpu", clock.now() + timedelta(days=1))
    assert record is not None
    assert await answer(api, f"/v1/decisions/{record.id}") == record.model_dump(mode="json")

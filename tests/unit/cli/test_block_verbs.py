"""`slackwater block`, `unblock` and `get blocked` against the routes of ingestion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx2
import pytest
from fastapi import APIRouter
from served_routes import Do, doing, served
from tests.support.clock import FakeClock
from tests.support.ingestion.blocks import MemoryBlocks
from tests.support.ingestion.ledger import Books
from tests.support.store import MemoryDatabase

from slackwater.ingestion.edge.block_routes import block_router
from slackwater.ingestion.usecases.block_agents import BlockAgents


async def routers() -> Sequence[APIRouter]:
    return [block_router(BlockAgents(MemoryDatabase(), MemoryBlocks().books(), Books().ledgers(), FakeClock()))]


@pytest.fixture
def url() -> Iterator[str]:
    with served(routers) as url:
        yield url


@pytest.fixture
def do(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    return doing(url, tmp_path, monkeypatch)


@pytest.fixture
def client(url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=url, trust_env=False) as client:
        yield client


def test_an_agent_is_blocked_listed_and_unblocked(do: Do) -> None:
    tried = do("block", "edge.7", "--reason", "sends poison", "--dry-run")
    assert (tried.exit_code, "would be blocked" in tried.output) == (0, True)
    assert "sends poison" not in do("get", "blocked").output
    done = do("block", "edge.7", "--reason", "sends poison")
    assert "the agent of edge.7 is blocked" in done.output
    assert "has never described itself" in done.output
    listed = do("get", "blocked").output
    assert [word in listed for word in ("NODE", "edge.7", "BY", "local", "REASON", "sends poison")] == [True] * 6
    shown = json.loads(do("get", "blocked", "edge.7", "-o", "json").output)
    assert (shown["node"], shown["generation"], shown["blocked"]) == ("edge.7", 1, True)
    assert "already" in do("block", "edge.7", "--reason", "sends poison").output
    assert do("unblock", "edge.7").exit_code == 0
    again = do("unblock", "edge.7")
    assert again.exit_code != 0
    assert "is not blocked" in again.output


def test_a_block_needs_a_reason(do: Do) -> None:
    assert do("block", "n").exit_code == 2
    assert do("block", "n", "--reason", " ").exit_code == 2


def test_a_change_is_refused_for_another_etag(client: httpx2.Client) -> None:
    path, body = "/v1/nodes/n/block", {"reason": "poison"}
    assert client.put(path, json=body, headers={"If-Match": '"3"'}).status_code == 412
    first = client.put(path, json=body, headers={"If-Match": '"0"'})
    assert (first.status_code, first.headers["etag"]) == (200, '"1"')
    assert client.get(path).headers["etag"] == '"1"'
    assert client.get(path, headers={"If-None-Match": '"1"'}).status_code == 304
    refused = client.delete(path, headers={"If-Match": '"2"'})
    assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert client.delete(path, headers={"If-Match": '"1"'}).json()["generation"] == 2
    gone = client.get(path)
    assert (gone.status_code, gone.json()["code"]) == (404, "block_not_found")


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "x" * 501}, {"reason": "\x00"}, {"reasons": "x"}, []])
def test_a_body_that_is_no_block_is_refused(client: httpx2.Client, body: object) -> None:
    assert client.put("/v1/nodes/n/block", json=body).status_code in (400, 422)
    assert client.get("/v1/blocks").json() == {"items": []}

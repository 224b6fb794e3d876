"""One list of problem codes: whatever is raised is on it, and each has a page that this server serves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from slackwater.runtime.http import build_app
from slackwater.runtime.problem_codes import PROBLEMS
from slackwater.runtime.settings import HttpSettings

ROOT = Path(__file__).resolve().parents[3]
NEVER_ANSWERED = frozenset(
    {
        # of the agent, which has no API
        "write_refused",
        "cgroups_not_writable",
        "cgroup_not_entered",
        "not_launched",
        "cpus_exhausted",
        "memory_exhausted",
        "nic_exhausted",
        "numa_exhausted",
        "checkpoint_damaged",
        "not_placed",
        "plugin_registered",
        "plugin_silent",
        "plugin_unreachable",
        "plugin_answer",
        "plugin_refused",
        "plugin_lacks",
        "no_kubepods",
        # of writes to the API server of a cluster
        "definition_outdated",
        # of prediction's own snapshots
        "snapshot_corrupt",
        "model_state_unusable",
        # of rows in quarantine, and of events that become dead letters
        "unreadable",
        "uncomputable",
        # of a bus message: reasons of dead letters
        "invalid_payload",
        "wrong_version",
        "unknown_type",
        "missing_attribute",
        "invalid_attribute",
        "implausible",
        "window_out_of_range",
        "malformed_text",
        "malformed_json",
        "wrong_subject",
        "roster_missing",
        "unknown_value",
        "message_too_large",
        "subject_malformed",
        "subject_too_long",
        # of a Kubernetes API server's answers
        "version_expired",
        "fields_owned",
        "disruption_budget",
        "eviction_refused",
        "kind_not_served",
        # of gRPC calls only
        "exhausted",
        "too_slow",
        "stopping",
        # of starting a server
        "nats_server_missing",
        # of metrics of others' distributions, which no service loads yet
        "metric_unusable",
        "metric_twice",
        # of the demo, which is a client
        "broken_promise",
    }
)
"""Codes of errors that no HTTP request can cause."""


def codes_in(source: str) -> Iterator[str]:
    """String literals given as `code=`, or to something called `code`."""
    if not re.search(r"\bcode\s*=", source):
        return
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.keyword) and node.arg == "code") or (
            isinstance(node, ast.Assign) and "code" in {getattr(target, "id", "") for target in node.targets}
        ):
            yield from _texts(node.value)


def _texts(node: ast.AST) -> Iterator[str]:
    """A literal, or both sides of `a if … else b`."""
    if isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def test_every_code_that_is_raised_is_on_the_list_or_never_leaves_the_process() -> None:
    found = {
        code: str(file.relative_to(ROOT))
        for root in ("services", "libs")
        for file in (ROOT / root).rglob("*.py")
        for code in codes_in(file.read_text())
    }
    unknown = {code: file for code, file in found.items() if code not in PROBLEMS and code not in NEVER_ANSWERED}
    assert unknown == {}, "add them to slackwater.runtime.problem_codes (or say here that no request causes them)"
    assert set(found) >= NEVER_ANSWERED, "these are gone"


def test_the_scan_finds_codes_where_they_are() -> None:
    source = 'class A:\n    code = "a"\nraise E("x", code="b" if y else "c")\n'
    assert set(codes_in(source)) == {"a", "b", "c"}


async def _no_checks() -> list[Any]:
    return []


@pytest.fixture
def client() -> httpx2.AsyncClient:
    app = build_app([], _no_checks, HttpSettings.local())
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")


async def test_the_type_of_a_problem_is_a_page_of_the_server_for_people_and_programs(
    client: httpx2.AsyncClient,
) -> None:
    async with client:
        refused = (await client.get("/nowhere")).json()
        document = (await client.get(refused["type"])).json()
        page = await client.get(refused["type"], headers={"accept": "text/html,*/*;q=0.8"})
        unknown = await client.get("/v1/problems/none")
        every = (await client.get("/v1/problems")).json()["items"]
    assert (document["code"], document["status"]) == ("not_found", 404)
    assert document["remedy"]
    assert page.headers["content-type"].startswith("text/html")
    assert "404 Not Found: not_found" in page.text
    assert (unknown.status_code, unknown.json()["code"]) == (404, "problem_not_found")
    assert [each["code"] for each in every] == list(PROBLEMS)


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/problems/a%00b", "path"), ("/v1/problems?x=1&node=a%00", "node"), ("/?%00=1", "query")]
)
async def test_a_nul_character_is_refused_before_any_route_with_its_parameter_named(
    client: httpx2.AsyncClient, path: str, field: str
) -> None:
    async with client:
        answer = await client.get(path)
    assert answer.status_code == 400
    assert (answer.json()["code"], answer.json()["field"]) == ("invalid_character", field)


def test_statuses_are_errors_and_every_code_says_what_to_do() -> None:
    for code, problem in PROBLEMS.items():
        assert 400 <= problem.status < 600
        assert problem.meaning.endswith(".")
        assert problem.remedy.endswith(".")
        assert code == problem.code

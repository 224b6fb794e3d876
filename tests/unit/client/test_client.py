"""The Python client against a console that tells the story, and against answers of our own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from served import Served, served

from slackwater.cli.openapi import document
from slackwater.client import AsyncClient, Client, Conflict, InvalidInput, Misconfigured, NotFound, Unavailable
from slackwater.client.generated import models
from slackwater.client.generated.operations import Operations

ROOT = Path(__file__).resolve().parents[3]
VERBS = (
    *("apply", "block", "check", "delete", "find", "get", "list", "make", "put", "release", "replay", "start"),
    *("submit", "unblock", "watch"),
)
ALONE = """
import importlib.abc, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
sys.meta_path.insert(0, Finder())
"""
SERVER_ONLY = (
    "alembic,asyncpg,fastapi,grpc,jinja2,lightkube,msgspec,nats,numpy,opentelemetry,prometheus_client,"
    "pydantic_settings,yaml,rich,sqlalchemy,sse_starlette,structlog,typer,uvicorn,starlette"
)


@pytest.fixture(scope="module")
def console() -> Iterator[Served]:
    with served() as running:
        yield running


@pytest.fixture
def client(console: Served) -> Iterator[Client]:
    with Client(console.url) as running:
        yield running


def answering(answer: Callable[[httpx2.Request], httpx2.Response]) -> Client:
    return Client("http://127.0.0.1", transport=httpx2.MockTransport(answer))


def test_operations_are_verbs_and_every_one_is_a_method() -> None:
    operations = [each["operationId"] for methods in document()["paths"].values() for each in methods.values()]
    assert {name.partition("_")[0] for name in operations} == set(VERBS)
    assert [name for name in operations if not hasattr(Client, name) or not hasattr(AsyncClient, name)] == []
    assert not hasattr(Operations, "watch_events"), "by hand: it resumes"


def test_objects_have_types_and_fields_by_their_names(client: Client) -> None:
    nodes = list(client.list_nodes())
    assert nodes[0].liveness == "stale"
    node = client.get_node(nodes[0].name)
    assert isinstance(node, models.NodeView)
    assert node.usage is not None
    assert node.usage.usage.cpu_milli > 0
    assert node.usage.sampled_at.tzinfo is not None


def test_lists_are_all_pages_and_are_read_as_they_are_needed() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url.query, "ascii"))
        page = int(request.url.params.get("continue") or 0)
        more = str(page + 1) if page < 2 else None
        return httpx2.Response(200, json={"items": [{"name": f"edge-{page}"}], "continue": more})

    with answering(answer) as client:
        nodes = client.list_nodes(pool="web", limit=1)
        assert next(nodes).name == "edge-0"
        assert asked == ["pool=web&limit=1"]
        assert [node.name for node in nodes] == ["edge-1", "edge-2"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFound), (412, Conflict), (422, InvalidInput), (403, Misconfigured), (503, Unavailable)],
)
def test_errors_have_the_class_of_the_reaction_and_the_code_of_the_problem(status: int, error: type[Exception]) -> None:
    problem = {"detail": "no", "code": "some_code", "field": "spec.max"}
    with (
        answering(lambda _: httpx2.Response(status, json=problem)) as client,
        pytest.raises(error, match="no") as raised,
    ):
        client.get_node("edge-1")
    assert (raised.value.code, raised.value.field) == ("some_code", "spec.max")  # type: ignore[attr-defined]


def test_an_unknown_node_is_not_found_by_code(client: Client) -> None:
    with pytest.raises(NotFound) as raised:
        client.get_node("no-such-node")
    assert raised.value.code == "node_not_found"


def test_a_name_is_one_segment_of_the_path() -> None:
    paths: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        paths.append(str(request.url.raw_path, "ascii"))
        return httpx2.Response(200, json={"name": "x"})

    with answering(answer) as client:
        client.get_node("../v1/quotas?x=1")
    assert paths == ["/v1/nodes/..%2Fv1%2Fquotas%3Fx%3D1"]


def test_a_document_that_is_read_changed_and_put_keeps_what_only_the_server_knows() -> None:
    stored = {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "team-a", "generation": 3},
        "spec": {"min": {"cpu": "2"}, "invented": {"later": True}},
    }
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json=stored, headers={"etag": '"3"'})

    with answering(answer) as client:
        quota = client.get_elastic_quota("team-a")
        quota.spec.max = {"cpu": "4"}
        client.put_elastic_quota("team-a", quota, if_match=quota.etag)
    body = json.loads(sent[1].content)
    assert body == {**stored, "spec": {"min": {"cpu": "2"}, "max": {"cpu": "4"}, "invented": {"later": True}}}
    assert sent[1].headers["if-match"] == '"3"'


def test_a_dry_run_is_a_method_of_its_own_with_its_own_type() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url.query, "ascii"))
        return httpx2.Response(200, json={"document": None, "changes": [], "runtimes": None})

    with answering(answer) as client:
        tried = client.dry_run_delete_elastic_quota("team-a")
    assert tried.changes == []
    assert asked == ["dryRun=true"]


def test_values_of_a_newer_server_are_kept_and_a_missing_field_names_what_to_do() -> None:
    with answering(lambda _: httpx2.Response(200, json={"name": "a", "liveness": "asleep", "new": 1})) as client:
        node = client.get_node("a")
        assert (node.liveness, node.model_extra) == ("asleep", {"new": 1})
    with (
        answering(lambda _: httpx2.Response(200, json={})) as client,
        pytest.raises(Misconfigured, match=r"name: .*use the version of the server"),
    ):
        client.get_node("a")


def test_the_asynchronous_client_answers_the_same(console: Served, client: Client) -> None:
    async def ask() -> tuple[list[models.NodeView], models.NodeView, str]:
        async with AsyncClient(console.url) as other:
            nodes = [node async for node in other.list_nodes(limit=2)]
            with pytest.raises(NotFound) as raised:
                await other.get_node("no-such-node")
            return nodes, await other.get_node(nodes[0].name), raised.value.code

    nodes, first, code = asyncio.run(ask())
    assert nodes == list(client.list_nodes())
    assert first == client.get_node(nodes[0].name)
    assert code == "node_not_found"


def test_the_token_is_sent_and_shown_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_TOKEN", "s3cret-token")
    sent: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.headers["authorization"])
        return httpx2.Response(200, json={"name": "a"})

    with answering(answer) as client:
        client.get_node("a")
        assert "s3cret" not in repr(client.transport)
    assert sent == ["Bearer s3cret-token"]


@pytest.mark.parametrize("server", ["ftp://x", "127.0.0.1:8460", "http://x?y"])
def test_an_address_of_another_form_is_refused(server: str) -> None:
    with pytest.raises(InvalidInput, match="is not an address"):
        Client(server)


def alone(code: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", ALONE + code, SERVER_ONLY]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_needs_none_of_the_servers_packages(console: Served) -> None:
    code = (
        "from slackwater.client import AsyncClient, Client\n"
        f"with Client({console.url!r}) as client:\n"
        "    print(next(client.list_nodes()).name, next(client.watch_events(since='1h')).type)\n"
    )
    done = alone(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("edge-")


def test_the_command_without_the_extra_says_how_to_install_it() -> None:
    done = alone("import slackwater.cli.program as program\nprogram.main()")
    assert done.returncode == 1
    assert "pip install 'slackwater[server]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1

"""Options of the program before and behind the verb, and `get` by namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from slackwater.cli import quota_columns
from slackwater.cli.diff import change_lines
from slackwater.cli.main import app
from slackwater.resources.kinds import elastic_quota

Run = Callable[..., Result]
SERVER = "http://127.0.0.1:1"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The token of each request; the answer is an empty list."""
    tokens: list[str] = []

    def answer(self: httpx2.Client, method: str, path: str, **_: object) -> httpx2.Response:
        tokens.append(self.headers.get("authorization", ""))
        return httpx2.Response(200, json={"items": [], "continue": None}, request=self.build_request(method, SERVER))

    monkeypatch.setattr(httpx2.Client, "request", answer)
    monkeypatch.setenv("SLACKWATER_TOKEN", "of-the-environment")
    monkeypatch.delenv("SLACKWATER_SERVER", raising=False)
    return tokens


@pytest.mark.parametrize(
    ("arguments", "token"),
    [
        (("--token", "a", "--server", SERVER, "get", "nodes"), "a"),
        (("get", "nodes", "--token", "a", "--server", SERVER), "a"),
        (("--token", "a", "get", "nodes", "--server", SERVER, "--token", "b"), "b"),
        (("--server", SERVER, "get", "nodes"), "of-the-environment"),
        (("--server", "http://127.0.0.1:2", "get", "nodes", "--server", SERVER), "of-the-environment"),
    ],
)
def test_the_last_one_counts_on_either_side(sent: list[str], arguments: tuple[str, ...], token: str) -> None:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    assert sent == [f"Bearer {token}"]


def test_a_file_behind_the_verb_replaces_a_token_before_it(sent: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKWATER_TOKEN")
    done = CliRunner().invoke(
        app, ["--token", "a", "get", "nodes", "--server", SERVER, "--token-file", "/no/such/file"]
    )
    assert done.exit_code == 1
    assert "--token-file: /no/such/file" in done.stderr
    assert sent == []


def test_a_server_for_a_verb_without_one_is_refused() -> None:
    done = CliRunner().invoke(app, ["--server", SERVER, "secrets", "--help"])
    assert done.exit_code == 0
    done = CliRunner().invoke(app, ["--server", SERVER, "openapi"])
    assert done.exit_code != 0
    assert "openapi talks to no server" in str(done.exception or done.stderr)


def test_the_command_of_exec_keeps_its_own_options() -> None:
    done = CliRunner().invoke(app, ["exec", "--workload", "w", "--", "echo", "--token", "x"])
    assert "--tier: missing" in done.stderr


def test_pods_are_listed_by_namespace(run: Run) -> None:
    everywhere = run("get", "pods", "-o", "name").stdout.splitlines()
    shop = run("get", "pods", "-n", "shop", "-o", "name").stdout.splitlines()
    assert shop
    assert set(shop) < set(everywhere)
    none = run("get", "pods", "-n", "nowhere")
    assert "no pods with namespace nowhere" in none.stderr
    refused = run("get", "nodes", "-n", "default")
    assert (refused.exit_code, "nodes have none; allowed: pods, workloads" in refused.stderr) == (2, True)


def test_what_no_pool_has_is_printed_as_no_limit() -> None:
    assert elastic_quota.maximum({"spec": {"max": {"cpu": 10**9, "memory": 2**53, "gpu": 4}}}) == (
        "cpu=unlimited,memory=unlimited,gpu=4"
    )
    assert quota_columns.shown_amount("memory", 2**53) == "unlimited"
    assert quota_columns.shown_amount("cpu", 10**12) == "unlimited"


def test_the_difference_of_a_new_document_is_what_it_says() -> None:
    changes = [
        {"field": "kind", "before": None, "after": "ElasticQuota"},
        {"field": "metadata.name", "before": None, "after": "a"},
        {"field": "spec.max.cpu", "before": None, "after": 4},
        {"field": "spec.tree", "before": None, "after": None},
    ]
    assert list(change_lines(changes)) == ["would be created", "spec.max.cpu: 4"]
    assert list(change_lines(changes[2:])) == ["spec.max.cpu: null -> 4", "spec.tree: null -> null"]


def commands(program: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb, those of groups included."""
    if not hasattr(program, "commands"):
        yield path, program
        return
    for name, command in program.commands.items():
        yield from commands(command, (*path, name))


VERBS = {" ".join(path): command for path, command in commands(typer.main.get_command(app))}
OF_THE_PROGRAM = {"--token", "--token-file", "--ca", "--cert", "--key"}
OF_PROMETHEUS = {"assess": {"--ca", "--cert", "--key"}}
"""It has options of these kinds for Prometheus, with names of their own."""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_options_of_the_program(verb: str) -> None:
    options = {name for parameter in VERBS[verb].params for name in parameter.opts}
    assert OF_THE_PROGRAM - OF_PROMETHEUS.get(verb, set()) <= options
    before = CliRunner().invoke(app, ["--token", "a", "--ca", "/none", *verb.split(), "--help"])
    assert (before.exit_code, "Usage" in before.output) == (0, True)


def test_there_are_verbs() -> None:
    assert len(VERBS) > 30

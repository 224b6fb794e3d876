"""Completion of kinds and names from the server: through the scripts of each shell, and silent without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from served import Served
from typer.testing import CliRunner

from slackwater.cli import complete
from slackwater.cli.list_kinds import all_kinds
from slackwater.cli.main import app

Complete = Callable[[str, str], Result]


def bash(line: str) -> dict[str, str]:
    words = line.split()
    return {
        "_SLACKWATER_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - (not line.endswith(" "))),
    }


def zsh(line: str) -> dict[str, str]:
    return {"_SLACKWATER_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}


def fish(line: str) -> dict[str, str]:
    action = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {"_SLACKWATER_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": line, **action}


SHELLS = (bash, zsh, fish)


def completed(environment: dict[str, str]) -> Result:
    return CliRunner().invoke(app, [], prog_name="slackwater", env=environment)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offered", "left_out"),
    [
        ("slackwater get no", "nodes", "pods"),
        ("slackwater get nodes edge-", "edge-7", "nodes"),
        ("slackwater get node/edge-7", "node/edge-7", "node/edge-8"),
        ("slackwater get pods --node edge-", "edge-7", "pods"),
        ("slackwater get pods -o j", "json", "yaml"),
        ("slackwater describe node edge-", "edge-8", "describe"),
        ("slackwater top w", "workloads", "nodes"),
        ("slackwater why n", "node/", "pod/"),
        ("slackwater why node/edge-7", "node/edge-7", "node/edge-8"),
        ("slackwater block edge-", "edge-9", "block"),
        ("slackwater history node", "nodeqos", "podqos"),
    ],
)
def test_a_shell_is_offered_what_fits(
    shell: Callable[[str], dict[str, str]], line: str, offered: str, left_out: str, console: Served
) -> None:
    result = completed({**shell(line), "SLACKWATER_SERVER": console.url})
    words = result.stdout.replace('"', " ").replace(")", " ").split()
    assert offered in words
    assert left_out not in words
    assert result.stderr == ""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "line", ["slackwater get nodes e", "slackwater get nonsense x", "slackwater get pods --pool p"]
)
def test_without_an_answer_it_is_silent(shell: Callable[[str], dict[str, str]], line: str, tmp_path: Path) -> None:
    for server in ("http://127.0.0.1:1", "", "no-address"):
        result = completed({**shell(line), "SLACKWATER_SERVER": server, "SLACKWATER_STATE_DIR": str(tmp_path / "none")})
        assert "edge" not in result.stdout
        assert result.stderr == ""
        assert result.exception is None or isinstance(result.exception, SystemExit)
    assert not (tmp_path / "none").exists(), "completion starts nothing"


def test_every_kind_that_has_a_list_completes_its_names(console: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_SERVER", console.url)
    for kind in ("nodes", "pods", "workloads", "offers", "decisions"):
        assert complete.names_of(kind), kind
    for kind in all_kinds():
        assert complete.names_of(kind.names[0]) == sorted(complete.names_of(kind.names[0]))


def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(complete, "SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        monkeypatch.setenv("SLACKWATER_SERVER", f"http://127.0.0.1:{hanging.getsockname()[1]}")
        assert complete.names_of("nodes") == []

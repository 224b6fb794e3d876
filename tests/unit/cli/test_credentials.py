"""Options before the verb reach the request; the environment counts where they are silent."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from slackwater.cli.main import app, main

PREFIX = "Bearer "


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """An address, and the Authorization of each request that came there."""
    seen: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization", ""))
            self.send_response(200)
            self.send_header("Content-Length", "24")
            self.end_headers()
            self.wfile.write(b'{"items":[],"next":null}')

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", seen
        listening.shutdown()
        thread.join()


def sent(server: tuple[str, list[str]], *options: str) -> str:
    with pytest.raises(SystemExit):
        main([*options, "get", "nodes", "-o", "json", "--server", server[0]])
    return server[1][-1]


def test_a_token_given_before_the_verb_is_sent(
    server: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-a-file\n")
    monkeypatch.delenv("SLACKWATER_TOKEN_FILE", raising=False)
    monkeypatch.setenv("SLACKWATER_TOKEN", "of-the-environment")
    assert sent(server) == PREFIX + "of-the-environment"
    assert sent(server, "--token", "an-option") == PREFIX + "an-option"
    monkeypatch.delenv("SLACKWATER_TOKEN")
    assert sent(server, "--token-file", str(tmp_path / "token")) == PREFIX + "of-a-file"
    assert sent(server) == "", "what one command line said is not kept for the next"


@pytest.mark.parametrize("address", ["127.0.0.1:8460", "ftp://127.0.0.1", "http://", "http:// x", "https:///v1"])
def test_an_address_of_another_form_is_named_with_where_it_came_from(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = CliRunner().invoke(app, ["get", "nodes", "--server", address])
    assert (done.exit_code, done.stderr) == (
        2,
        f"slackwater: --server: {address!r} is not an address; use the form http://127.0.0.1:8460\n",
    )
    monkeypatch.setenv("SLACKWATER_SERVER", address)
    assert "slackwater: SLACKWATER_SERVER: " in CliRunner().invoke(app, ["events"]).stderr


def test_what_no_header_can_carry_is_no_token(tmp_path: Path) -> None:
    for name, content in {"umlaut": "gehäim".encode(), "lines": b"one\ntwo\n", "binary": b"\xff\xfe"}.items():
        file = tmp_path / name
        file.write_bytes(content)
        done = CliRunner().invoke(app, ["--token-file", str(file), "get", "nodes", "--server", "http://127.0.0.1:1"])
        assert (done.exit_code, done.stderr.startswith(f"slackwater: --token-file: {file}: is no")) == (1, True)
        assert "two" not in done.stderr
    done = CliRunner().invoke(app, ["--token", "gehäim", "get", "nodes", "--server", "http://127.0.0.1:1"])
    assert (done.exit_code, "gehäim" in done.stderr) == (1, False)


@pytest.mark.parametrize(
    ("environment", "arguments", "said"),
    [
        ({}, ["--token", "wrong"], "it was given by --token"),
        ({"SLACKWATER_TOKEN": "wrong"}, [], "it was given by SLACKWATER_TOKEN"),
        ({"SLACKWATER_TOKEN_FILE": "token"}, [], "it was given by SLACKWATER_TOKEN_FILE"),
        ({}, ["--token-file", "token"], "it was given by --token-file"),
        ({}, [], "give --token-file, or set SLACKWATER_TOKEN"),
    ],
)
def test_a_refused_token_is_named_by_its_origin(
    environment: dict[str, str], arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("wrong\n")
    monkeypatch.chdir(tmp_path)

    def refuse(self: httpx2.Client, method: str, path: str, **_: object) -> httpx2.Response:
        return httpx2.Response(
            401, json={"detail": "the token is unknown"}, request=self.build_request("GET", "http://127.0.0.1:1/")
        )

    monkeypatch.setattr(httpx2.Client, "request", refuse)
    command = [*arguments, "get", "nodes", "--server", "http://127.0.0.1:1"]
    result = CliRunner().invoke(
        app, command, env={"SLACKWATER_TOKEN": None, "SLACKWATER_TOKEN_FILE": None} | environment
    )
    assert result.exit_code == 1
    assert said in result.stderr
    assert "wrong" not in result.stderr

"""A command that is newer than its server: a missing field is shown as missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx2
import pytest
import yaml
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.client.answers import Answer, answer_of
from slackwater.model.errors import Misconfigured

OLD = {"items": [{"name": "edge-1"}], "continue": None}
"""A node of which only the name is known."""


class _Old(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(OLD).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Nothing: the test's output is its own."""


@pytest.fixture(scope="module")
def old_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Old)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("command", [("get", "decisions"), ("get", "offers", "-o", "wide")])
def test_the_missing_field_is_named_in_one_line_with_what_to_do(old_server: str, command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--server", old_server])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("slackwater: the server's answer has no field '")
    assert "upgrade the server" in result.stderr


def test_the_object_itself_is_printed_as_it_came(old_server: str) -> None:
    runner = CliRunner()
    assert json.loads(runner.invoke(app, ["get", "nodes", "-o", "json", "--server", old_server]).stdout) == OLD
    assert yaml.safe_load(runner.invoke(app, ["get", "nodes", "-o", "yaml", "--server", old_server]).stdout) == OLD


def test_objects_within_objects_know_it_too_and_what_may_be_missing_still_may() -> None:
    answer = answer_of(httpx2.Response(200, json={"facts": {"pool": "edge", "zones": [{"name": "0"}]}}))
    assert answer["facts"].get("labels", {}) == {}
    assert isinstance(answer["facts"]["zones"][0], Answer)
    with pytest.raises(Misconfigured, match="no field 'capacity'"):
        answer["facts"]["zones"][0]["capacity"]

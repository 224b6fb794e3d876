"""Watching over connections that break, and what changes before a watch is open."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import Result
from typer.testing import CliRunner

from slackwater.cli.main import app

OPENED = b"retry: 2000\nid: STATE:1\n: open\n\n"


@contextmanager
def console(*, torn: bool) -> Iterator[str]:
    """Offers of one generation more whenever they are asked for; a stream that opens, tells nothing and ends."""
    asked = iter(range(1, 100))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith("/v1/stream"):
                self.answer(json.dumps({"items": [{"node": "edge-7", "generation": next(asked)}]}).encode(), 0)
                return
            self.answer(OPENED, 1 if torn else 0)

        def answer(self, body: bytes, missing: int) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body) + missing))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("command", [("get", "offers", "-w", "-o", "json"), ("events",)])
def test_a_connection_that_breaks_is_one_line_and_no_traceback(command: tuple[str, ...]) -> None:
    with console(torn=True) as url:
        done = run(*command, "--server", url)
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert done.stderr.startswith(f"slackwater: the stream of {url} ended: ")
    assert done.stderr.count("\n") == 1


def test_a_server_without_events_is_one_line_without_a_traceback() -> None:
    done = run("events", "--server", "http://127.0.0.1:9")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "see `slackwater doctor`" in done.stderr


def test_what_changed_before_the_watch_was_open_is_printed_though_no_news_comes() -> None:
    with console(torn=False) as url:
        done = run("get", "offers", "-w", "-o", "json", "--server", url)
    assert done.exit_code == 0, done.output
    assert done.stdout.count('"generation"') == 2
    assert '"generation": 2' in done.stdout

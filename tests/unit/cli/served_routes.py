"""Routes of a service on a port of their own, in a thread of their own, and verbs that talk to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result
from fastapi import APIRouter
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.runtime.http import HttpServer, build_app
from slackwater.runtime.service import Check
from slackwater.runtime.settings import HttpSettings

Do = Callable[..., Result]


async def no_checks() -> list[Check]:
    return []


@contextmanager
def served(routers: Callable[[], Awaitable[Sequence[APIRouter]]]) -> Iterator[str]:
    """The URL; `routers` is called in the thread of the server."""
    settings = HttpSettings(host="127.0.0.1", port=0)
    server, ready, runner = HttpServer(settings), threading.Event(), asyncio.Runner()

    async def serve() -> None:
        await server.run(build_app(await routers(), no_checks, settings), ready.set)

    serving = runner.get_loop().create_task(serve())
    thread = threading.Thread(target=lambda: runner.get_loop().run_until_complete(asyncio.wait([serving])))
    thread.start()
    try:
        assert ready.wait(20)
        yield server.url
    finally:
        runner.get_loop().call_soon_threadsafe(serving.cancel)
        thread.join(20)
        runner.close()


def doing(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    """`do("apply", GOLD)`: a verb with a document; `do("get", "predictors")`: one without."""
    monkeypatch.setenv("SLACKWATER_SERVER", url)

    def run(verb: str, *words: str) -> Result:
        if words and "kind:" in words[0]:
            (tmp_path / "policy.yaml").write_text(words[0])
            words = ("-f", str(tmp_path / "policy.yaml"), *words[1:])
        return CliRunner().invoke(app, [verb, *words])

    return run

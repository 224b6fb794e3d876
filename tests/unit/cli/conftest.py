"""The reading verbs against a console that tells the story, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from served import Served, served
from typer.testing import CliRunner

from slackwater.cli.main import app

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def console() -> Iterator[Served]:
    """At the end of the story; tests only read it."""
    with served() as running:
        yield running


@pytest.fixture
def run(console: Served, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("get", "nodes")`: one command against that console."""
    monkeypatch.setenv("SLACKWATER_SERVER", console.url)
    return lambda *arguments: CliRunner().invoke(app, [str(each) for each in arguments])

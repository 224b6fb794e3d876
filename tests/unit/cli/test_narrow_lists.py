"""Every list fits a narrow terminal: what has no room beside stands below, and nothing is cut."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from slackwater.cli import output

Run = Callable[..., Result]
NOUNS = ("nodes", "pods", "workloads", "offers", "decisions", "events", "shards", "quarantine", "deadletters")
"""Lists of the console of these tests."""


@pytest.fixture(params=[40, 60])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    columns: int = request.param
    monkeypatch.setattr(output, "ENDLESS", columns)
    return columns


@pytest.mark.parametrize("form", ["table", "wide"])
@pytest.mark.parametrize("noun", NOUNS)
def test_a_list_fits_the_terminal(run: Run, width: int, noun: str, form: str) -> None:
    done = run("get", noun, "-o", form)
    assert done.exit_code == 0, done.output
    wide = [line for line in done.stdout.splitlines() if len(line) > width and max(map(len, line.split())) < width - 4]
    assert wide == []

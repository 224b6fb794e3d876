"""The pages of a simulation and of an assessment, opened from the disk: they fit, are drawn, and make no request."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools import Page
from small_histories import write_strategy, write_trace
from test_console_in_a_browser import BACKGROUND, CONTRASTS, LOOKS, OUTSIDE, UNNAMED, VISIBLE_CHARTS
from typer.testing import CliRunner

from slackwater.cli.main import app

pytestmark = pytest.mark.browser
CHARTS = {"simulation": 1 + 2 * 2, "assessment": 2 * 3}


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    trace = write_trace(folder / "usage.csv", hours=80)
    bold = write_strategy(folder / "bold.yaml", "bold", cpuReclaimThresholdPercent=120, midReclaimMode="dynamic")
    shared = ["--trace", str(trace), "--format", "csv", "--vms-per-node", "3", "--model", "max"]
    made = {}
    for name, verb, more in (("simulation", "simulate", ["-f", str(bold)]), ("assessment", "assess", [])):
        made[name] = folder / f"{name}.html"
        done = CliRunner().invoke(app, [verb, *shared, *more, "--html", str(made[name])])
        assert done.exit_code == 0, done.output
    return made


@pytest.mark.parametrize("name", sorted(CHARTS))
def test_the_page_fits_with_every_picture_in_it(page: Page, reports: dict[str, Path], name: str) -> None:
    page.open(reports[name].as_uri())
    for width, scheme in LOOKS:
        page.look(width, scheme=scheme)
        assert page.ask("document.documentElement.scrollWidth") <= width
        assert page.ask(OUTSIDE) == []
        assert len(page.ask(VISIBLE_CHARTS)) == CHARTS[name]
        red, green, blue = page.ask(BACKGROUND)
        assert (red + green + blue < 150) == (scheme == "dark")
        assert page.ask(CONTRASTS) == []
        assert page.ask(UNNAMED) == []


@pytest.mark.parametrize("name", sorted(CHARTS))
def test_the_page_makes_no_request_and_logs_nothing(page: Page, reports: dict[str, Path], name: str) -> None:
    page.open(reports[name].as_uri())
    asked = [sent["request"]["url"] for sent in page.heard("Network.requestWillBeSent")]
    assert asked == [reports[name].as_uri()]
    assert page.heard("Runtime.exceptionThrown") == []
    assert [entry["entry"]["text"] for entry in page.heard("Log.entryAdded")] == []

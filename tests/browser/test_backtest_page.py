"""The page of a backtest, opened from the disk: it fits, is drawn, boxes show and hide curves, it makes no request."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools import Page
from test_console_in_a_browser import BACKGROUND, CONTRASTS, LOOKS, OUTSIDE, UNNAMED, VISIBLE_CHARTS
from typer.testing import CliRunner

from slackwater.cli.main import app

pytestmark = pytest.mark.browser
EXAMPLE = Path(__file__).parents[2] / "examples" / "backtest_usage.csv"


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backtest") / "report.html"
    models = "borg-default,resource-central,histogram,workload-profile:knob=0.15"
    arguments = ["--trace", str(EXAMPLE), "--format", "csv", "--vms-per-node", "2", "--seeds", "2", "--models", models]
    done = CliRunner().invoke(app, ["backtest", *arguments, "--html", str(path)])
    assert done.exit_code == 0, done.output
    return path


def test_the_page_fits_with_every_picture_in_it(page: Page, report: Path) -> None:
    page.open(report.as_uri())
    for width, scheme in LOOKS:
        page.look(width, scheme=scheme)
        assert page.ask("document.documentElement.scrollWidth") <= width
        assert page.ask(OUTSIDE) == []
        shown = page.ask(VISIBLE_CHARTS)
        assert shown[0] == "Violation rate against savings of every model, beside the oracle"
        assert len(shown) == 1 + 3 + 2
        red, green, blue = page.ask(BACKGROUND)
        assert (red + green + blue < 150) == (scheme == "dark")
        assert page.ask(CONTRASTS) == []
        assert page.ask(UNNAMED) == []


def test_boxes_show_and_hide_curves_without_a_script(page: Page, report: Path) -> None:
    page.open(report.as_uri())
    visible = """[...document.querySelectorAll('.curve:not(.oracle)')]
      .filter(e => getComputedStyle(e).display !== 'none').length"""
    assert page.ask(visible) == 3, "the default model on three machines"
    page.ask("document.getElementById('pick1').click()")
    assert page.ask(visible) == 6
    page.ask("document.getElementById('pick3').click()")
    assert page.ask(visible) == 3


def test_the_page_makes_no_request_and_logs_nothing(page: Page, report: Path) -> None:
    page.open(report.as_uri())
    asked = [sent["request"]["url"] for sent in page.heard("Network.requestWillBeSent")]
    assert asked == [report.as_uri()]
    assert page.heard("Runtime.exceptionThrown") == []
    assert [entry["entry"]["text"] for entry in page.heard("Log.entryAdded")] == []

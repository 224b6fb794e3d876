"""Every figure of docs/how-to that is made of recorded data is what its command prints (tools/figures.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

from figures import DATA, Figure, differences, figures, output_of  # noqa: E402 - needs the path above

PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
ALL = list(figures(PAGES))
FOLDER = (ROOT / DATA).resolve()


def test_there_are_figures() -> None:
    assert {figure.page.name for figure in ALL} >= {"simulate-moves.md", "simulate-a-policy.md", "simulate-quotas.md"}


@pytest.mark.timeout(900)  # a minute and a half alone
@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no recorded data in {FOLDER}")
@pytest.mark.parametrize("figure", ALL, ids=lambda figure: f"{figure.page.stem}-{ALL.index(figure)}")
def test_a_figure_is_what_its_command_prints(figure: Figure) -> None:
    assert differences(figure.lines, output_of(figure, FOLDER)) == []

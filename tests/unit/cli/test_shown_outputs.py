"""Outputs of a running instance in the pages have the tables that this version prints; their numbers are examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
SOURCES = (*(ROOT / "services/slackwater/cli").glob("*.py"), *(ROOT / "libs/slackwater/resources/kinds").glob("*.py"))
_BLOCK = re.compile(r"```\n(\$ .*?|(?:[A-Z][A-Z-]+ {2,}){2}.*?)```", re.DOTALL)
_HEADING = re.compile(r"[A-Z][A-Z0-9-]+(?: {2,}[A-Z][A-Z0-9-]+){2,}")
_TITLE = re.compile(r'"([A-Z][A-Z0-9-]+)"|_text\("([a-z_]+)"|"name": "([A-Z][a-z-]+)"')
"""A title of a table of the command line, or of a column that kubectl prints."""
REPEATED = "../shared/data"
"""Blocks that read it are repeated whole: tools/figures.py."""
OF_KUBECTL = {"AGE", "FOLLOWED"}
"""Of every custom resource: contracts/crds.py."""


def headings() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if REPEATED not in block:
                yield from ((page.name, line) for line in block.splitlines() if _HEADING.fullmatch(line.strip()))


def titles() -> set[str]:
    found = [match for source in SOURCES for match in _TITLE.findall(source.read_text(encoding="utf-8"))]
    return {name.upper() for names in found for name in names if name}


def test_there_are_such_tables() -> None:
    assert {page for page, _ in headings()} >= {"read-offers.md", "use-kubectl.md"}


@pytest.mark.parametrize(("page", "heading"), list(headings()))
def test_a_table_of_a_running_instance_has_the_titles_that_are_printed(page: str, heading: str) -> None:
    unknown = set(heading.split()) - titles() - OF_KUBECTL
    assert not unknown, f"{page}: no table has {', '.join(sorted(unknown))}"

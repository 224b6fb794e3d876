"""docs/architecture.md names modules that are there."""

from __future__ import annotations

import re

from sources import ROOT

PAGE = ROOT / "docs" / "architecture.md"
_MODULE = re.compile(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)`")


def test_every_module_that_the_page_names_is_there() -> None:
    named = _MODULE.findall(PAGE.read_text())
    places = [ROOT / "libs" / "slackwater", ROOT / "services" / "slackwater", ROOT]
    assert len(named) > 40, "the page is read"
    assert [module for module in named if not any((place / module).is_file() for place in places)] == []


def test_every_library_is_on_the_page() -> None:
    text = PAGE.read_text()
    libraries = [path.parent.name for path in (ROOT / "libs" / "slackwater").glob("*/__init__.py")]
    assert [name for name in libraries if f"`{name}`" not in text and name != "v1"] == []

"""Relative links of the documentation name files that exist, and headings that those have."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)")
_HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, by GitHub's rule. A repeated heading gets a number."""
    seen: dict[str, int] = {}
    found: set[str] = set()
    for heading in _HEADING.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
        seen[slug] = seen.get(slug, 0) + 1
    return found


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target in _LINK.findall(_CODE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"{page.name}: no file {target}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(text if file == page else file.read_text()):
            yield f"{page.name}: no heading {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert not list(broken_links(page, page.read_text()))


def test_a_planted_broken_link_is_found() -> None:
    text = "# Here\n[a](absent.md) [b](#here) [c](#there) [d](https://example.org/x#y)\n"
    assert list(broken_links(ROOT / "README.md", text)) == [
        "README.md: no file absent.md",
        "README.md: no heading #there",
    ]

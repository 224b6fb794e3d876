"""README and docs name what is there: files, headings, modules, services, commands, make targets.

Commands with all their options are parsed by tests/unit/cli/test_commands_in_docs.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from docstrings import repeated_words
from sources import ROOT, tracked

from slackwater.cli.main import VERBS
from slackwater.runtime.service_list import service_list

ARCHITECTURE = ROOT / "docs" / "architecture.md"
INDEX = ROOT / "docs" / "README.md"
README_LINES = 60
TREES = tuple(f"{root}/" for root in ("contracts", "deploy", "docs", "examples", "libs", "services", "tests", "tools"))
"""Code that begins so is a path from the root of the checkout."""

_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\(\s*([^)\s]+)\s*\)")
_HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)
_MODULE = re.compile(r"(?:[a-z_0-9]+/)+[a-z_0-9]+\.py")
_PATH = re.compile(r"[a-z0-9_./*-]+")
_TARGET = re.compile(r"^([a-z0-9-]+):", re.MULTILINE)
_VERB = re.compile(r"slackwater ([a-z][a-z-]*)\b(?!=)")
_MAKE = re.compile(r"make ([a-z][a-z0-9-]*)\b(?!=)")

Rule = Callable[[Path, str], Iterable[str]]


def pages() -> list[Path]:
    """Every Markdown file of the repository that a person writes for readers."""
    return [ROOT / path for path in tracked() if path.suffix == ".md"]


def code(text: str) -> Iterator[str]:
    """Lines of fenced blocks, and spans between backticks, each as one line."""
    for block in _FENCED.findall(text):
        yield from (line.strip() for line in block.splitlines()[1:-1])
    yield from (" ".join(span.split()) for span in _QUOTED.findall(prose(text, keep_quoted=True)))


def commands(text: str) -> Iterator[str]:
    """Commands of a page: lines and spans of code, divided as a shell divides them."""
    yield from (command.strip() for span in code(text) for command in re.split(r"&&|[|;]", span))


def prose(text: str, *, keep_quoted: bool = False) -> str:
    """A page without fenced blocks and, unless kept, without quoted code."""
    text = _FENCED.sub("", text)
    return text if keep_quoted else _QUOTED.sub("`", text)


@cache
def anchors(text: str) -> frozenset[str]:
    """Anchors of a page's headings, by GitHub's rule. A repeated heading gets a number."""
    repeated: dict[str, int] = {}
    names: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        names.add(f"{slug}-{repeated[slug]}" if slug in repeated else slug)
        repeated[slug] = repeated.get(slug, 0) + 1
    return frozenset(names)


def broken_links(page: Path, text: str) -> Iterator[str]:
    for link in _LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            yield f"no file {link}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(text if file == page else file.read_text()):
            yield f"no heading {link}"


def absent_paths(page: Path, text: str) -> Iterator[str]:
    """Paths in code, from the root of the checkout. Modules are named by the end of their path.

    Pages called `add-…` name modules that their reader writes.
    """
    for word in (word.strip("'\"(),;:").partition("::")[0] for span in code(text) for word in span.split()):
        if _MODULE.fullmatch(word):
            if word not in _endings() and not page.name.startswith("add-"):
                yield word
        elif word.startswith(TREES) and _PATH.fullmatch(word) and not any(ROOT.glob(word.rstrip("/"))):
            yield word


@cache
def _endings() -> frozenset[str]:
    """Every module's path, and all its endings from a folder on."""
    modules = [path.parts for path in tracked() if path.suffix == ".py"]
    return frozenset("/".join(parts[start:]) for parts in modules for start in range(len(parts) - 1))


def absent_verbs(_page: Path, text: str) -> Iterator[str]:
    yield from (match[0] for match in map(_VERB.match, commands(text)) if match and match[1] not in VERBS)


def absent_targets(_page: Path, text: str) -> Iterator[str]:
    targets = frozenset(_TARGET.findall((ROOT / "Makefile").read_text()))
    yield from (match[0] for match in map(_MAKE.match, commands(text)) if match and match[1] not in targets)


def doubled_words(_page: Path, text: str) -> Iterable[str]:
    return repeated_words(_FENCED.sub("", text))


@pytest.mark.parametrize(
    "rule", [broken_links, absent_paths, absent_verbs, absent_targets, doubled_words], ids=lambda rule: rule.__name__
)
def test_pages_keep_the_rule(rule: Rule) -> None:
    """One test per rule: a parameter for each page would be three hundred tests."""
    violations = {page.relative_to(ROOT).as_posix(): list(rule(page, page.read_text())) for page in pages()}
    assert {page: texts for page, texts in violations.items() if texts} == {}
    assert len(violations) > 90


@pytest.mark.parametrize(
    ("rule", "text", "violations"),
    [
        (broken_links, "[a](absent.md) [b](#here) [d](https://example.org/x#y)\n# Here", ["no file absent.md"]),
        (broken_links, "# Here\n[c](#there) `[e](absent.md)`", ["no heading #there"]),
        (absent_paths, "`tests/absent` `tests/*/bus` `bus/absent.py` `bus/port.py`", ["tests/absent", "bus/absent.py"]),
        (
            absent_verbs,
            "```\nx && slackwater vanish\nkubectl -n slackwater wait\n```\n`slackwater get`",
            ["slackwater vanish"],
        ),
        (absent_targets, "`make vanish` `make run SECONDS=90`\n\nto make sure", ["make vanish"]),
        (doubled_words, "it is the\nthe end, `tier tier`, and ever-ever\n", ["the the"]),
    ],
)
def test_a_planted_violation_is_found(rule: Rule, text: str, violations: list[str]) -> None:
    assert list(rule(ROOT / "README.md", text)) == violations


def test_the_readme_fits_on_one_screen_and_has_six_links() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= README_LINES
    assert len([link for link in _LINK.findall(prose(text)) if not link.endswith(".svg")]) == 6


def test_every_page_is_in_the_index() -> None:
    indexed = {(INDEX.parent / link).resolve() for link in _LINK.findall(prose(INDEX.read_text()))}
    written = {page for page in pages() if page.is_relative_to(INDEX.parent) and page.parent.name != "decisions"}
    assert written - indexed == {INDEX}


def test_the_table_of_services_has_every_service() -> None:
    rows = re.findall(r"^\| `?([a-z]+)`?[ |]", ARCHITECTURE.read_text(), re.MULTILINE)
    services = service_list()
    names = {*services.deployed, *services.node_services}
    assert set(rows) - {"service"} == names


def edges(text: str) -> set[str]:
    """`a -- event --> b` of flow charts; `a & b` stands for both."""
    return {
        f"{publisher} -- {event} --> {consumer}"
        for publishers, event, consumers in re.findall(r"^  ([a-z& ]+) -- (\S+) --> ([a-z& ]+)$", text, re.MULTILINE)
        for publisher in publishers.split(" & ")
        for consumer in consumers.split(" & ")
    }


def test_the_loop_has_edges_of_the_published_flow_only() -> None:
    loop = edges(ARCHITECTURE.read_text())
    assert len(loop) > 10
    assert loop - edges((ROOT / "contracts" / "flow.md").read_text()) == set()


def test_every_library_is_on_the_page_of_the_architecture() -> None:
    text = ARCHITECTURE.read_text()
    libraries = {path.parent.name for path in (ROOT / "libs" / "slackwater").glob("*/__init__.py")}
    assert [name for name in libraries if f"`{name}`" not in text and name != "v1"] == []

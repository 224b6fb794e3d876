"""Docstrings name modules and definitions that are there, and repeat no word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from docstrings import Tree, doubled_words, read_tree, repeated_words, unresolved
from sources import ROOT, Source, sources

CONTRACTS = ROOT / "contracts"
_VALUE = re.compile(r'"(slackwater(?:\.\w+)+)"')
TREE = [
    Source(PurePosixPath("libs/slackwater/bus/__init__.py"), ""),
    Source(PurePosixPath("libs/slackwater/bus/port.py"), "class Bus:\n  async def latest(self): ...\n  size: int\n"),
    Source(PurePosixPath("services/slackwater/quota/service.py"), "def build(): ..."),
]


def whole_tree() -> Tree:
    """Services and libraries. Other dotted names are events, and values of the code: groups of entry points, spans."""
    events = [path.name.removesuffix(".json").rpartition(".")[0] for path in (CONTRACTS / "events").glob("*.json")]
    code = sources("services", "libs")
    return read_tree(code, [*events, *(value for source in code for value in _VALUE.findall(source.text))])


def test_names_in_docstrings_resolve() -> None:
    tree = whole_tree()
    assert sorted(name for source in sources("services", "libs") for name in unresolved(source, tree)) == []


def test_no_docstring_repeats_a_word() -> None:
    tree = sources("services", "libs", "contracts", "deploy", "tests", "tools")
    assert sorted(text for source in tree for text in doubled_words(source)) == []


def texts(value: object) -> Iterator[str]:
    """Strings of a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


def test_no_published_schema_repeats_a_word() -> None:
    files = [*CONTRACTS.glob("events/*.json"), *CONTRACTS.glob("openapi/*.json")]
    assert len(files) > 30
    repeated = {file.name: repeated_words(" | ".join(texts(json.loads(file.read_text())))) for file in files}
    assert {name: words for name, words in repeated.items() if words} == {}


def test_planted_names_and_words_are_found() -> None:
    text = (
        '"""slackwater.bus.encoding, slackwater.bus.port.Bus.first, slackwater.io/tier, `nats`, the\nthe `bus bus`"""'
    )
    planted = Source(PurePosixPath("libs/slackwater/bus/__init__.py"), text)
    assert unresolved(planted, read_tree(TREE)) == {
        "slackwater.bus: slackwater.bus.encoding",
        "slackwater.bus: slackwater.bus.port.Bus.first",
        "slackwater.bus: nats",
    }
    assert doubled_words(planted) == {"slackwater.bus: the the"}


def test_names_of_the_package_are_not_found() -> None:
    text = '"""slackwater.bus.port.Bus.latest, slackwater.quota, `port`, `Bus`, `latest`, `port.Bus`, `quota`."""'
    planted = Source(PurePosixPath("libs/slackwater/bus/__init__.py"), text)
    assert unresolved(planted, read_tree(TREE)) == set()


def test_another_service_is_no_name_of_a_service() -> None:
    planted = Source(PurePosixPath("services/slackwater/ensurance/__init__.py"), '"""The schema `quota`."""')
    assert unresolved(planted, read_tree([*TREE, planted])) == {"slackwater.ensurance: quota"}

"""Commands that README, docs, the console and messages show are ones that the command line takes when pasted."""

from __future__ import annotations

import ast
import html
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from slackwater.cli.decision_list import question
from slackwater.cli.list_kinds import kind_of, split_target
from slackwater.cli.main import app
from slackwater.demo.scenes.catalog import ALL, chosen
from slackwater.demo.summary import EXITS

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
TEMPLATES = sorted((ROOT / "services" / "slackwater").glob("*/edge/templates/*.html"))
_BLOCK = re.compile(r"```(?:bash|sh)?\n(.*?)```", re.DOTALL)
SOURCES = sorted(path for root in ("services", "libs") for path in (ROOT / root).rglob("*.py"))
_CODE = re.compile(r"<code>(slackwater [a-z][^<]*)</code>")
_TEMPLATED = re.compile(r"\{\{.*?\}\}")
_QUOTED = re.compile(r"`(slackwater [a-z][^`]*)`")
QUOTE = "`slackwater "
FRAGMENTS = frozenset(
    {
        *("slackwater apply -f", "slackwater diff -f", "slackwater delete -f", "slackwater run --help"),
        *("slackwater backup --dated", "slackwater block NODE", "slackwater simulate --since"),
        *("slackwater simulate -o json", "slackwater backtest -o json"),
    }
)
"""Text that names an option of a command and is no hint."""
MANY = 100
_NO_COMMAND = ("…", "$(", "`", "[", "<")


def commands() -> Iterator[tuple[str, str]]:
    """File and command line: in blocks of pages, and whole commands in code of templates and messages."""
    yield from _of_pages()
    for template in TEMPLATES:
        for found in _CODE.findall(template.read_text()):
            if len(found.split()) > 2:  # else it names a command
                yield template.name, html.unescape(_TEMPLATED.sub("kind/name", found))
    for source in SOURCES:
        code = source.read_text()
        for text in texts(code) if QUOTE in code else ():
            for found in _QUOTED.findall(" ".join(text.split())):
                if is_whole(found):
                    yield source.name, found


def _of_pages() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text()
        for block in _BLOCK.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("slackwater ") and not any(sign in line for sign in _NO_COMMAND):
                    yield page.name, line
        for found in _QUOTED.findall(_BLOCK.sub("", text)):
            command = " ".join(found.split())
            if is_whole(command):
                yield page.name, command


def is_whole(text: str) -> bool:
    """Whether quoted text is a command to paste, and not the name of one or a template."""
    return text not in FRAGMENTS and len(text.split()) > 2 and not any(sign in text for sign in _NO_COMMAND)


def texts(code: str) -> Iterator[str]:
    """The strings of a module, as a reader sees them: values of f-strings are `x`."""
    inside = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


@cache
def the_group() -> Any:
    """The whole command line; building it takes 30 ms."""
    return typer.main.get_command(app)


def parse(arguments: Sequence[str]) -> None:
    """Raises click's UsageError, or InvalidInput of a filter, for a command line that would be refused."""
    with the_group().make_context("slackwater", list(arguments)) as context:
        name, command, rest = the_group().resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None
        try:
            made = command.make_context(name, rest, parent=context)
        except typer.Exit:  # an option that prints a list and ends
            return
        with made:
            if name == "get" and made.params["where"]:
                path = kind_of(split_target(made.params["what"], None)[0]).path
                question(path, made.params["node"], made.params["pool"], made.params["where"], 1)


def test_every_command_is_taken() -> None:
    """One test: a parameter for each command would parse all sources while tests are collected, in each lane."""
    lines = sorted(set(commands()))
    assert len(lines) > MANY
    refused = [(file, line, why) for file, line in lines if (why := refusal(line))]
    assert refused == []


def refusal(line: str) -> str:
    """Returns why a command line is refused; empty if it is taken."""
    words = re.split(r"\s[|>&;]", line)[0]
    try:
        parse(shlex.split(words, comments=True)[1:])
    except Exception as error:  # noqa: BLE001 - whatever refuses it
        return repr(error)
    return ""


@pytest.mark.parametrize(
    "line", ["slackwater get nodes --no-such-option", "slackwater no-such-verb", "slackwater 'get"]
)
def test_a_command_that_does_not_exist_is_refused(line: str) -> None:
    assert refusal(line)


GETTING_STARTED = ROOT / "docs" / "getting-started.md"


def test_getting_started_asks_for_throttles_and_names_every_scene_of_the_demo() -> None:
    text = GETTING_STARTED.read_text()
    assert "slackwater get decisions --where kind=throttle" in text
    group = typer.main.get_command(app)
    [demo] = [option for option in group.commands["up"].params if option.name == "demo"]  # type: ignore[attr-defined]
    for scene in chosen(ALL):
        assert re.search(rf"\n\| {scene.name}\b", text)
        assert scene.name in demo.help


def test_getting_started_names_every_exit_status_as_the_program_says_it() -> None:
    text = GETTING_STARTED.read_text()
    lines = [f"`{status}: {words}`" for status, words in EXITS.items() if status is not None]
    assert [line for line in lines if line not in text] == []


def test_the_help_separates_subjects_that_need_a_decision() -> None:
    group = typer.main.get_command(app)
    [subject] = [each for each in group.commands["why"].params if each.name == "subject"]  # type: ignore[attr-defined]
    always, _, later = subject.help.partition("after the first decision")
    assert later
    assert "cpu and scheduling" in always[-30:]

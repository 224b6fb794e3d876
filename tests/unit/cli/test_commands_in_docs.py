"""Commands that README, pages and the console show are ones that the command line takes."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer

from slackwater.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
TEMPLATES = sorted((ROOT / "services" / "slackwater").glob("*/edge/templates/*.html"))
_BLOCK = re.compile(r"```(?:bash|sh)?\n(.*?)```", re.DOTALL)
_CODE = re.compile(r"<code>(slackwater [a-z][^<{]*)</code>")
_NO_COMMAND = ("…", "$(", "`", "[", "<")


def commands() -> Iterator[tuple[str, str]]:
    """File and command line, of blocks and of code in templates that hold a whole command."""
    for page in PAGES:
        for block in _BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith("slackwater ") and not any(sign in line for sign in _NO_COMMAND):
                    yield page.name, line
    for template in TEMPLATES:
        for found in _CODE.findall(template.read_text()):
            if len(found.split()) > 2:  # else it names a command
                yield template.name, html.unescape(found)


def parse(arguments: Sequence[str]) -> None:
    """Raises click's UsageError for a command line that would be refused."""
    group = typer.main.get_command(app)
    with group.make_context("slackwater", list(arguments)) as context:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]  # a click group
        assert name is not None
        with command.make_context(name, rest, parent=context):
            pass


@pytest.mark.parametrize(("file", "line"), sorted(set(commands())), ids=lambda text: text[:60])
def test_it_is_taken(file: str, line: str) -> None:
    words = re.split(r"\s[|>&;]", line)[0]
    parse(shlex.split(words, comments=True)[1:])


def test_readme_asks_for_throttles_and_names_as_many_surges_as_there_are() -> None:
    text = (ROOT / "README.md").read_text()
    assert "slackwater get decisions --where kind=throttle" in text
    assert "four times" in text
    group = typer.main.get_command(app)
    [demo] = [option for option in group.commands["up"].params if option.name == "demo"]  # type: ignore[attr-defined]
    assert "four times" in demo.help


def test_the_help_separates_subjects_that_need_a_decision() -> None:
    group = typer.main.get_command(app)
    [subject] = [each for each in group.commands["why"].params if each.name == "subject"]  # type: ignore[attr-defined]
    always, _, later = subject.help.partition("after the first decision")
    assert later
    assert "cpu and scheduling" in always[-30:]

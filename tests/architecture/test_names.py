"""Names and texts follow the style guide: no refused verbs or words, no bare gerunds, no class name for two things."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

import pytest
from names import (
    RULES,
    checked,
    classes_named_twice,
    classes_outside_the_glossary,
    functions_with_refused_verbs,
    modules_named_after_moods,
    read_by_developers,
    refused_words_in_test_names,
    texts_with_refused_words,
)
from sources import Source

Rule = Callable[[Iterable[Source]], set[str]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_names_keep_the_rule(rule: Rule) -> None:
    assert sorted(rule(checked())) == []


@pytest.mark.parametrize(
    "rule", [refused_words_in_test_names, texts_with_refused_words], ids=lambda rule: rule.__name__
)
def test_tests_and_tools_keep_the_rule(rule: Rule) -> None:
    assert sorted(rule(read_by_developers())) == []


def planted(path: str, text: str) -> Source:
    return Source(PurePosixPath(path), text)


@pytest.mark.parametrize(
    ("rule", "tree"),
    [
        (functions_with_refused_verbs, [planted("libs/slackwater/bus/planted.py", "def tell_all(): ...")]),
        (functions_with_refused_verbs, [planted("libs/slackwater/bus/planted.py", "def _told(): ...")]),
        (
            functions_with_refused_verbs,
            [planted("libs/slackwater/bus/planted.py", "class A:\n  async def _take_all(self): ...")],
        ),
        (modules_named_after_moods, [planted("libs/slackwater/bus/hearing.py", "")]),
        (modules_named_after_moods, [planted("services/slackwater/agent/domain/alone.py", "")]),
        (modules_named_after_moods, [planted("services/slackwater/agent/domain/wandering.py", "")]),
        (
            classes_named_twice,
            [
                planted("libs/slackwater/bus/planted.py", "class Part: ..."),
                planted("services/slackwater/cli/planted.py", "class Part: ..."),
            ],
        ),
        (classes_outside_the_glossary, [planted("libs/slackwater/bus/planted.py", "class MemoryDesk: ...")]),
        (refused_words_in_test_names, [planted("tests/unit/bus/test_planted.py", "def test_who_reads(): ...")]),
        (texts_with_refused_words, [planted("libs/slackwater/bus/planted.py", '"""Who reads it."""')]),
        (texts_with_refused_words, [planted("libs/slackwater/bus/planted.py", "raise E(f'{x} for nobody')")]),
        (texts_with_refused_words, [planted("libs/slackwater/bus/planted.py", "x = 1  # as he left it")]),
    ],
)
def test_a_planted_name_is_found(rule: Rule, tree: list[Source]) -> None:
    assert rule(tree)


@pytest.mark.parametrize(
    ("rule", "tree"),
    [
        (
            functions_with_refused_verbs,
            [planted("libs/slackwater/bus/planted.py", "def _intake(): ...\ndef untold(): ...")],
        ),
        (modules_named_after_moods, [planted("services/slackwater/ingestion/domain/windowing.py", "")]),
        (classes_named_twice, [planted("libs/slackwater/bus/planted.py", "class _Part: ...\nclass _Part: ...")]),
        (classes_outside_the_glossary, [planted("libs/slackwater/bus/planted.py", "class Year: ...")]),
        (
            texts_with_refused_words,
            [planted("libs/slackwater/bus/planted.py", '"""The `nobody` account, the hero"""')],
        ),
    ],
)
def test_a_name_of_the_field_is_not_found(rule: Rule, tree: list[Source]) -> None:
    assert not rule(tree)

"""YAML that users give: what is read, and how a file that would exhaust time or memory is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slackwater.model.errors import InvalidInput
from slackwater.runtime import yaml_files
from slackwater.runtime.yaml_files import MOST_BYTES, MOST_LEVELS, MOST_VALUES, yaml_documents, yaml_value

LAUGHS = "a: &a [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
"""Nine to the tenth values in 400 bytes."""
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name}\n  <<: [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def written(folder: Path, text: str) -> Path:
    file = folder / "policy.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (LAUGHS, f"line 6: too many keys and values: at most {MOST_VALUES} in a file, with every alias written out"),
        (MERGES, f"too many keys and values: at most {MOST_VALUES}"),
        (f"a: &a {'x' * 3000}\nb: [{'*a,' * 3000}]\n", "line 2: too large: at most 8 MiB in a file, with every alias"),
        ("#" * (MOST_BYTES + 1), "policy.yaml: is above 8 MiB, the limit of a file; split it"),
        ("\n" + "[" * 20_000, f"line 2: is nested too deeply: at most {MOST_LEVELS} levels"),
        ("- &a0 [0]\n" + "".join(f"- &a{n} [*a{n - 1}]\n" for n in range(1, 2000)), "is nested too deeply"),
        ("a: &a [*a]", "line 1: contains itself; write the value out"),
        (f"a: 1{':1' * 50_000}", "line 1: a number of 100001 characters; put it in quotes"),
        (f"a: 0b{'1' * 50_000}", "line 1: a number of 50002 characters; put it in quotes"),
    ],
)
def test_what_would_exhaust_the_reader_is_refused_in_time(tmp_path: Path, text: str, problem: str) -> None:
    file, began = written(tmp_path, text), time.process_time()
    with pytest.raises(InvalidInput) as refused:
        yaml_documents(file)
    assert problem in refused.value.message
    assert str(file) in refused.value.message
    assert time.process_time() - began < 60


@pytest.mark.parametrize(
    ("text", "line"), [("[\n1,\n1,\n1,\n1,\n1]", 6), ("--- [1]\n" * 3, 3), ("a: &a [1, 2]\nb: *a\n", 2)]
)
def test_values_are_counted_in_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int
) -> None:
    monkeypatch.setattr(yaml_files, "MOST_VALUES", 5)
    with pytest.raises(InvalidInput, match=f"line {line}: too many keys and values: at most 5 in a file"):
        yaml_documents(written(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        f"a: !!set {{{', '.join(f'k{number}' for number in range(9000))}}}",
        f"a: !!binary {'QUFB' * 9000}",
        f"a: !{'t' * 90_000} 1",
        f"a: *{'x' * 90_000}",
        f"a: [&{'x' * 90_000} 1, &{'x' * 90_000} 2]",
        f"? '{'k' * 90_000}'\n: .inf\n",
        f"? '{'k' * 90_000}'\n: 1\n? '{'k' * 90_000}'\n: 1\n",
    ],
)
def test_what_is_refused_is_named_in_a_short_text(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        yaml_documents(written(tmp_path, text))
    assert len(refused.value.message) + len(refused.value.field or "") < 2000


def test_aliases_and_merges_of_a_usual_file_are_read(tmp_path: Path) -> None:
    text = "common: &common {labels: {team: a}}\nfirst: {<<: *common, cpu: 1}\nsecond: *common\n"
    text += "---\n---\n- [0x1F, 1e3]\n"
    file = written(tmp_path, text)
    labels = {"labels": {"team": "a"}}
    assert yaml_documents(file) == [
        (f"{file} document 1", {"common": labels, "first": {**labels, "cpu": 1}, "second": labels}),
        (f"{file} document 3", [[31, "1e3"]]),
    ]


def test_a_single_value_is_read_as_it_is() -> None:
    assert yaml_value(b"a: [1, 2026-01-05]", "file") != {}
    assert yaml_value(b"", "file") is None
    for content, problem in (
        (b"--- 1\n--- 2\n", "file: has 2 documents; one is allowed"),
        (b"\xff", "file: is not YAML"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            yaml_value(content, "file")

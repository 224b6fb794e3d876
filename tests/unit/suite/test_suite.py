"""The suite runs files in lanes, names failures and skips, and its status is that of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import flaky
from tests.explore import examples
from tests.suite.results import Reader, TestResult
from tests.suite.tiers import ROOT

PASSES = "def test_one():\n    pass\n\n\ndef test_two():\n    pass\n"
FAILS = "def test_three():\n    assert 'left' == 'right'\n"
SKIPS = """import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_four(number):
    pytest.skip("no left: install it")
"""
BREAKS = "import nothing_of_this_name\n"


def suite(folder: Path, **files: str) -> tuple[int, str]:
    """Exit status and output of the suite on these files, without checks."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    program = "import sys; from tests.suite import __main__ as suite; suite._check = lambda *_: 0; "
    program += "sys.exit(suite.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "quick", "--lanes", "2", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_lanes_are_summed_up_with_a_line_per_reason_of_a_skip(tmp_path: Path) -> None:
    status, output = suite(tmp_path, passes=PASSES, skips=SKIPS)
    assert status == 0
    assert "chosen tests: 2 passed, 0 failed, 2 skipped" in output
    assert output.count("no left: install it") == 1
    assert "skipped 2: no left: install it\n" in output
    assert output.endswith("\n2 passed, 0 failed, 2 skipped\n")


def test_a_failure_is_named_at_once_shown_whole_and_decides_the_status(tmp_path: Path) -> None:
    status, output = suite(tmp_path, passes=PASSES, fails=FAILS)
    assert status == 1
    assert "FAILED " in output
    assert "assert 'left' == 'right'" in output
    assert output.endswith("\n2 passed, 1 failed, 0 skipped\n")


def test_a_file_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    status, output = suite(tmp_path, passes=PASSES, breaks=BREAKS)
    assert status == 1
    assert "nothing_of_this_name" in output
    assert output.endswith("\n2 passed, 1 failed, 0 skipped\n")


def test_a_reader_takes_whole_lines_and_a_failure_outlasts_a_success(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    reader = Reader(file)
    assert reader.read() == []
    failed = b'{"name":"test_a.py::test","outcome":"failed","seconds":1,"reason":""}\n'
    file.write_bytes(failed + b'{"name":"test_a.py::te')
    assert reader.read() == [TestResult("test_a.py::test", "failed", 1.0)]
    file.write_bytes(failed + b'{"name":"test_a.py::test","outcome":"passed","seconds":2,"reason":""}\n')
    assert [result.outcome for result in reader.read()] == ["passed"]
    assert reader.results["test_a.py::test"].outcome == "failed"


@pytest.mark.parametrize(
    "output",
    [
        "Falsifying example: test_sums(\n    left=1,\n    right=[2, 3],\n)\n",
        "E   Falsifying example: test_sums(\nE       left=1,\nE       right=[2, 3],\nE   )\n",
    ],
)
def test_a_falsifying_example_becomes_a_decorator(output: str) -> None:
    assert examples(output) == ["@example(left=1, right=[2, 3])  # of test_sums"]


def test_arguments_of_flaky_do_not_reach_make_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Makefile").write_text('test:\n\t@echo "with <$(ARGS)>"\n')
    monkeypatch.setattr(flaky, "ROOT", tmp_path)
    monkeypatch.setenv("MAKEFLAGS", " -- ARGS=2")
    status, _, _ = flaky.run(tmp_path / "log")
    assert status == 0
    assert (tmp_path / "log").read_text() == "with <>\n"

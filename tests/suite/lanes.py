"""Runs test files in lanes: processes of pytest that share nothing, each with its own files in a fixed order.

A lane collects its own files only. (pytest-xdist has every lane collect every file: 12 s of CPU a lane, and all tests
had to be compiled before.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.suite.progress import Progress
from tests.suite.results import VARIABLE, Reader, TestResult
from tests.suite.tiers import ROOT

_POLL_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 30.0
_PASSED: Final = (0, 5)
"""Exit statuses of a lane without a failure; 5 is a lane whose files were all left out."""


@dataclass(slots=True)
class Lane:
    """One process of pytest, with what it printed and what it says about its tests."""

    process: subprocess.Popen[bytes]
    output: Path
    reader: Reader

    def failures(self) -> str:
        """Returns what pytest printed about failures, or the end of its output where it did not come that far."""
        text = self.output.read_text(errors="replace")
        starts = [start for heading in ("= ERRORS =", "= FAILURES =") if (start := text.find(heading)) >= 0]
        return text[text.rfind("\n", 0, min(starts)) + 1 :] if starts else text[-6000:]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results of a run. `broken` is the output of lanes that failed."""

    results: Sequence[TestResult]
    broken: Sequence[str]
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.broken and not any(result.outcome == "failed" for result in self.results)


def run(parts: Sequence[Sequence[str]], options: Sequence[str]) -> Outcome:
    """Run each part in a lane, all at once, and print progress. The lanes end with this process."""
    began = time.monotonic()
    progress = Progress(sys.stdout)
    with (
        tempfile.TemporaryDirectory(prefix="slackwater-suite-") as folder,
        _started(parts, options, Path(folder)) as lanes,
    ):
        while True:
            running = [lane for lane in lanes if lane.process.poll() is None]
            for lane in lanes:
                progress.add(lane.reader.read())
            if not running:
                break
            progress.show(len(running))
            time.sleep(_POLL_SECONDS)
        progress.end()
        results = [result for lane in lanes for result in lane.reader.results.values()]
        broken = [lane.failures() for lane in lanes if lane.process.returncode not in _PASSED]
    return Outcome(results, broken, time.monotonic() - began)


@contextmanager
def _started(parts: Sequence[Sequence[str]], options: Sequence[str], folder: Path) -> Iterator[list[Lane]]:
    """Starts the lanes, and ends them with all that they started where this process leaves early."""
    lanes = [_start(number, files, options, folder) for number, files in enumerate(parts, 1)]
    try:
        yield lanes
    finally:
        for signal_number in (signal.SIGINT, signal.SIGKILL):
            running = [lane.process for lane in lanes if lane.process.poll() is None]
            for process in running:
                os.killpg(process.pid, signal_number)
            _wait(running)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _start(number: int, files: Sequence[str], options: Sequence[str], folder: Path) -> Lane:
    """Starts a lane. Sets of strings have one order in all runs."""
    output, results = folder / f"lane-{number}.log", folder / f"lane-{number}.jsonl"
    environment = os.environ | {VARIABLE: str(results), "PYTHONHASHSEED": "0"}
    pytest = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", "--rootdir", str(ROOT)]
    command = [*pytest, "-p", "tests.suite.results", *options, *files]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    return Lane(process, output, Reader(results))

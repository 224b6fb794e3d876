"""What a lane says about its tests: a line of JSON each, which the suite follows. A pytest plugin and its reader."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import msgspec
import pytest

VARIABLE: Final = "SLACKWATER_TEST_RESULTS"


@dataclass(frozen=True, slots=True)
class TestResult:
    """The outcome of a test, or of a file that could not be collected. `reason` is why it was skipped."""

    __test__ = False

    name: str
    outcome: str
    seconds: float
    reason: str = ""

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Writer:
    """Appends results to the file that VARIABLE names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        self._ended: set[str] = set()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(TestResult(report.nodeid, "failed", 0.0))
        elif report.skipped:
            self._write(TestResult(report.nodeid, "skipped", 0.0, _reason(report.longrepr)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A result for what failed or was skipped in any phase, and for what passed them all."""
        seconds = self._seconds.pop(report.nodeid, 0.0) + report.duration
        if report.failed:
            self._write(TestResult(report.nodeid, "failed", seconds))
        elif report.skipped:
            self._write(TestResult(report.nodeid, "skipped", seconds, _reason(report.longrepr)))
        elif report.when == "teardown":
            if report.nodeid not in self._ended:
                self._write(TestResult(report.nodeid, "passed", seconds))
            return
        else:
            self._seconds[report.nodeid] = seconds
            return
        self._ended.add(report.nodeid)

    def _write(self, result: TestResult) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(asdict(result)) + b"\n")


def _reason(longrepr: object) -> str:
    """The reason of a skip, of which pytest makes (path, line, "Skipped: reason")."""
    text = longrepr[-1] if isinstance(longrepr, tuple) else longrepr
    return str(text).removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get(VARIABLE):
        config.pluginmanager.register(Writer(Path(path)), "slackwater-results")


class Reader:
    """Reads the results of a lane as they come. The last result of a test counts, and a failure outlasts a success."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.results: dict[str, TestResult] = {}

    def read(self) -> list[TestResult]:
        """Returns the results that are new."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            lines = file.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._position += len(complete)
        fresh = [msgspec.json.decode(line, type=TestResult) for line in complete.splitlines()]
        for result in fresh:
            former = self.results.get(result.name)
            if former is None or former.outcome != "failed":
                self.results[result.name] = result
        return fresh

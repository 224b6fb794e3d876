"""Mutants that tests find, in a process of pytest: it collects the tests of all of them once, and runs those of each in
a child in which the mutant is planted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from tests.world.mutants.mutant import Mutant
from tests.world.run import Child

NAMES, RESULT = "SLACKWATER_MUTANTS", "SLACKWATER_MUTANTS_FOUND"


def tests_that_find(mutants: Sequence[Mutant]) -> Mapping[str, str]:
    """Returns for each mutant the first test that fails with it and passes without; empty if there is none."""
    if not mutants:
        return {}
    files = sorted({f"tests/{file}" for mutant in mutants for file in mutant.tests})
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "found"
        environment = {**os.environ, NAMES: json.dumps([mutant.name for mutant in mutants]), RESULT: str(result)}
        command = [sys.executable, "-m", "pytest", "-p", "tests.world.mutants.tested", "-p", "no:cacheprovider", "-q"]
        done = subprocess.run([*command, *files], env=environment, capture_output=True, text=True, check=False)
        if not result.exists():
            raise SystemExit(f"the tests of mutants do not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        found: dict[str, str] = json.loads(result.read_text())
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the tests of each mutant in a child, after those of each file without any."""
    from tests.world.mutants.registry import MUTANTS

    settings.register_profile("mutants", settings.get_profile("fixed"), phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")
    by_file: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        by_file.setdefault(item.nodeid.partition("::")[0].removeprefix("tests/"), []).append(item)
    failing = {file for file, items in by_file.items() if _first_failure(session, items, lambda: None)}
    names, found = json.loads(os.environ[NAMES]), {}
    for mutant in MUTANTS:
        if mutant.name in names:
            items = [item for file in mutant.tests if file not in failing for item in by_file[file]]
            found[mutant.name] = _first_failure(session, items, mutant.plant)
    Path(os.environ[RESULT]).write_text(json.dumps(found))
    return True


def _first_failure(session: pytest.Session, items: Sequence[pytest.Item], plant: Callable[[], None]) -> str:
    """Returns the first of these tests that fails in a child, after `plant`; empty if all pass."""

    def work() -> str:
        plant()
        failed: list[str] = []

        class Reports:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    failed.append(report.nodeid)

        session.config.pluginmanager.register(Reports())
        for item, following in zip(items, [*items[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=None if failed else following)
            if failed:
                session._setupstate.teardown_exact(None)
                break
        return failed[0] if failed else ""

    try:
        return Child(work).result()
    except (RuntimeError, TimeoutError):  # it does not fit, or ends its process: no test has failed
        return ""

"""`make test` and `make test-all`: checks and tests, a line for each part with its time.

    python -m tests.suite quick                 checks, and the tests of the quick tier
    python -m tests.suite all                   the same, then types and the tests of the slow tier
    python -m tests.suite quick tests/unit/bus  checks, and the tests of these files and folders
    python -m tests.suite all --record          keeps the seconds of each file, by which lanes are balanced

What begins with a dash goes to pytest. Ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.suite import lanes, partition
from tests.suite.lanes import Outcome
from tests.suite.results import TestResult
from tests.suite.tiers import ROOT, Tier, files_of


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if every part passed. A part that failed does not keep the next one from running."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__.partition("\n")[0])
    parser.add_argument("scope", choices=("quick", "all"))
    parser.add_argument("--lanes", default="auto", help="processes at a time; auto: one more than cores")
    parser.add_argument("--record", action="store_true", help="keep the seconds of each file")
    options, rest = parser.parse_known_args(arguments)
    chosen = [argument for argument in rest if (ROOT / argument.partition("::")[0]).exists()]
    passed_on = [argument for argument in rest if argument not in chosen]
    count = len(os.sched_getaffinity(0)) + 1 if options.lanes == "auto" else max(1, int(options.lanes))
    began = time.monotonic()
    statuses = [_check(*(("--types",) if options.scope == "all" else ()))]
    outcomes = []
    for tier in Tier if options.scope == "all" and not chosen else (Tier.QUICK,):
        files = _expanded(chosen) if chosen else files_of(tier)
        parts = partition.partition(files, partition.recorded_seconds(), count)
        outcomes.append(_tests("chosen" if chosen else tier, parts, passed_on))
        if options.record:
            _record(outcomes[-1], files)
    _summarize(outcomes, time.monotonic() - began)
    return 0 if all(status == 0 for status in statuses) and all(outcome.passed for outcome in outcomes) else 1


def _check(*options: str) -> int:
    began = time.monotonic()
    status = subprocess.run([sys.executable, "tools/checks.py", *options], cwd=ROOT, check=False).returncode
    _say_part("checks", "passed" if status == 0 else "failed", time.monotonic() - began)
    return status


def _tests(name: str, parts: Sequence[Sequence[str]], options: Sequence[str]) -> Outcome:
    outcome = lanes.run(parts, options)
    _say_part(f"{name} tests", _counts(outcome.results), outcome.seconds)
    for text in outcome.broken:
        sys.stdout.write(f"\n{text}\n")
    return outcome


def _say_part(name: str, state: str, seconds: float) -> None:
    sys.stdout.write(f"{name}: {state}, {seconds:.0f} s\n")
    sys.stdout.flush()


def _counts(results: Sequence[TestResult]) -> str:
    outcomes = Counter(result.outcome for result in results)
    return ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))


def _summarize(outcomes: Sequence[Outcome], seconds: float) -> None:
    """Print the skips by reason, the failures, and the counts of all tests."""
    results = [result for outcome in outcomes for result in outcome.results]
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        if result.outcome == "skipped":
            reasons[result.reason].append(result.name)
    for reason, names in sorted(reasons.items()):
        sys.stdout.write(f"skipped {len(names)}: {reason}\n")
    for result in results:
        if result.outcome == "failed":
            sys.stdout.write(f"failed: {result.name}\n")
    sys.stdout.write(f"{seconds:.0f} s\n{_counts(results)}\n")


def _record(outcome: Outcome, files: Sequence[str]) -> None:
    seconds: defaultdict[str, float] = defaultdict(float)
    for result in outcome.results:
        seconds[result.file] += result.seconds
    partition.record(seconds, files)


def _expanded(paths: Sequence[str]) -> list[str]:
    """Returns the test files of these files, folders and test ids."""
    files: list[str] = []
    for path in paths:
        below = sorted(os.path.relpath(file, ROOT) for file in (ROOT / path).glob("**/test_*.py"))
        files += below or [path]
    return files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

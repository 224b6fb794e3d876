"""`make faults`: runs all or selected scenarios in sequence, with progress, one JSON line each, and a page."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.faults.report import LINES, Outcome, write_line, write_page
from tests.faults.scenario import FULL, Result, Scenario, Skipped, Strictness
from tests.faults.scenarios import SCENARIOS

FOLDER = Path(".slackwater") / "faults"
WHOLE_SECONDS = 45 * 60
_LONGEST_FACTOR, _LEAST_SECONDS = 5, 300


def run_one(scenario: Scenario, strictness: Strictness, keep: Path | None = None) -> Outcome:
    """Run a scenario in a new folder. It is moved to `keep`, if given, after a failure."""
    folder = Path(tempfile.mkdtemp(prefix=f"faults-{scenario.name}-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user below it
    began = time.monotonic()
    if scenario.needs_root and os.geteuid() != 0:
        return Outcome(scenario, 0.0, skipped="needs root")
    try:
        limit = max(_LEAST_SECONDS, scenario.minutes * 60 * _LONGEST_FACTOR)
        result = _in_a_loop(_bounded(scenario, folder, strictness, limit))
    except Skipped as reason:
        outcome = Outcome(scenario, time.monotonic() - began, skipped=str(reason))
    except Exception as error:
        logging.getLogger(__name__).exception("%s broke", scenario.name)
        outcome = Outcome(scenario, time.monotonic() - began, failure=f"{type(error).__name__}: {error}")
    else:
        outcome = Outcome(scenario, time.monotonic() - began, result)
    if outcome.word == "failed" and keep is not None:
        shutil.rmtree(keep / scenario.name, ignore_errors=True)
        shutil.copytree(folder, keep / scenario.name, ignore=_only_logs)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _in_a_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Like asyncio.run, which would unset the event loop of pytest-asyncio."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _bounded(scenario: Scenario, folder: Path, strictness: Strictness, seconds: float) -> Result:
    async with asyncio.timeout(seconds):
        return await scenario.run(folder, strictness)


def _only_logs(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not (Path(folder) / name).is_dir() and not name.endswith((".log", ".jsonl"))} | (
        {"database", "store", "data"} & set(names)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="scenarios, wildcards allowed; default: all but kill-moves")
    parser.add_argument("--times", type=int, default=1, metavar="N", help="run each chosen scenario so often")
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument("--json", action="store_true", help="also print the JSON line of each scenario")
    parser.add_argument("--verbose", action="store_true", help="show the log of the harness")
    options = parser.parse_args()
    patterns = options.names or ["*"]
    chosen = [one for one in SCENARIOS if any(fnmatch.fnmatch(one.name, pattern) for pattern in patterns)]
    chosen = [one for one in chosen if not one.by_name or one.name in patterns]
    if options.list:
        for one in SCENARIOS:
            more = ", root" * one.needs_root + ", only by this name" * one.by_name
            print(f"  {one.name:22} {one.title} (about {one.minutes:g} min{more})")  # noqa: T201
        return 0
    if not chosen:
        sys.stderr.write(f"no scenario is called {' or '.join(options.names)}; see make faults ARGS=--list\n")
        return 2
    logging.basicConfig(level=logging.INFO if options.verbose else logging.CRITICAL)
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not options.names:
        (FOLDER / LINES).unlink(missing_ok=True)
    return _run_all(chosen * options.times, as_json=options.json, whole=not options.names)


def _run_all(chosen: list[Scenario], *, as_json: bool, whole: bool) -> int:
    minutes = sum(one.minutes for one in chosen)
    print(f"  {len(chosen)} scenarios, about {minutes:.0f} minutes", flush=True)  # noqa: T201
    began, failed = time.monotonic(), 0
    for number, scenario in enumerate(chosen, 1):
        print(f"  [{number:2}/{len(chosen)}] {scenario.name:22} ", end="", flush=True)  # noqa: T201
        outcome = run_one(scenario, FULL, FOLDER)
        write_line(FOLDER, outcome)
        page = write_page(FOLDER, SCENARIOS)
        failed += outcome.word == "failed"
        line = outcome.line()
        print(f"{outcome.word:8} {line['seconds']:6} s  lost {line['lost']} doubled {line['duplicates']} "  # noqa: T201
              f"phantom {line['phantom']}  recovery p99 {line['recovery_p99_seconds']} s", flush=True)  # fmt: skip
        if reason := line["skipped"] or line["failure"]:
            print(f"          {reason}", flush=True)  # noqa: T201
        for text in outcome.result.lines if outcome.result is not None else ():
            print(text, flush=True)  # noqa: T201
        if as_json:
            print(json.dumps(line, default=str), flush=True)  # noqa: T201
    took = time.monotonic() - began
    print(f"  {took:.0f} s, {failed} of {len(chosen)} failed; {FOLDER / LINES}; {page}")  # noqa: T201
    if whole and took > WHOLE_SECONDS:
        print(f"  the whole set must take less than {WHOLE_SECONDS / 60:g} minutes")  # noqa: T201
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

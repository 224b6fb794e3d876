"""`make explore`: draws anew what `make test` keeps fixed, until its minutes are over.

A step is a process: the properties of some files with 1,000 fresh examples each, hostile requests with a fresh seed, or
new seeds of the three worlds. A finding is printed as the one line that makes it a regression: an `@example(...)`
of its test, or a command that writes the smallest plan into tests/world/regressions. Ends with 1 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SEED_VARIABLE: Final = "SLACKWATER_TEST_SEED"
"""Seed of what tests draw without Hypothesis; unset in `make test`, which draws the same each time."""
EXAMPLES_VARIABLE: Final = "SLACKWATER_SCHEMATHESIS_EXAMPLES"
"""Requests per route of the described API; unset in `make test-all`, which draws the same few each time."""
WORLDS: Final = ("", "--quotas", "--moves")
_SEEDS_PER_STEP: Final = 4
_FILES_PER_STEP: Final = 3
_EXAMPLE: Final = re.compile(r"Falsifying example: (?P<test>\w+)\((?P<arguments>.*?)\n(?:E +)?\)", re.DOTALL)
_VIOLATION: Final = re.compile(r"^seed (?P<seed>\d+): (?P<what>.*)$", re.MULTILINE)
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A process that draws, and how its findings are kept."""

    title: str
    command: Sequence[str]
    seed: int
    world: str | None = None

    def findings(self, output: str) -> list[str]:
        """Returns a line for each finding in the output of a step that failed."""
        if self.world is not None:
            return [self._plan(int(match["seed"]), match["what"]) for match in _VIOLATION.finditer(output)]
        return examples(output) or [
            f"{SEED_VARIABLE}={self.seed} .venv/bin/python -m pytest --hypothesis-seed={self.seed} "
            f"--hypothesis-profile=thorough {test}"
            for test in dict.fromkeys(match["test"] for match in _FAILED.finditer(output))
        ]

    def _plan(self, seed: int, what: str) -> str:
        options = f"--seed {seed} {self.world}".strip()
        file = f"tests/world/regressions/seed{self.world}-{seed}.json"
        return f'make world ARGS="{options} --shrink --smallest {file}"  # {what}'


def examples(output: str) -> list[str]:
    """Returns the falsifying examples that Hypothesis printed, each as the decorator that repeats it."""
    found = []
    for match in _EXAMPLE.finditer(output):
        lines = (re.sub(r"^E? +", "", line).strip() for line in match["arguments"].splitlines())
        found.append(f"@example({' '.join(line for line in lines if line).rstrip(',')})  # of {match['test']}")
    return list(dict.fromkeys(found))


def steps(draw: random.Random) -> Iterator[Step]:
    """Yields steps without an end: files of properties, and after each of them a world."""
    properties = sorted(
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(r"^from hypothesis import|SLACKWATER_TEST_SEED", path.read_text(), re.MULTILINE)
    )
    turn = 0
    while True:
        draw.shuffle(properties)
        for start in range(0, len(properties), _FILES_PER_STEP):
            yield _properties(properties[start : start + _FILES_PER_STEP], draw.getrandbits(32))
            yield _world(WORLDS[turn % len(WORLDS)], draw.getrandbits(32))
            turn += 1


def _properties(files: Sequence[str], seed: int) -> Step:
    options = (
        "-q",
        "-p",
        "no:cacheprovider",
        "--timeout=600",
        "--hypothesis-profile=thorough",
        f"--hypothesis-seed={seed}",
    )
    return Step(f"properties of {', '.join(files)}", ("pytest", *options, *files), seed)


def _world(world: str, seed: int) -> Step:
    options = ("--first", str(seed), "--seeds", str(_SEEDS_PER_STEP), *([world] if world else []))
    return Step(f"world {world.lstrip('-') or 'of all'} from seed {seed}", ("tests.world", *options), seed, world)


def explore(minutes: float, seed: int) -> int:
    """Perform steps for so many minutes. Returns the number of findings."""
    deadline, found = time.monotonic() + 60 * minutes, 0
    for step in steps(random.Random(seed)):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        began, status, output = time.monotonic(), 0, ""
        environment = os.environ | {SEED_VARIABLE: str(step.seed), EXAMPLES_VARIABLE: "100"}
        try:
            done = subprocess.run(
                [sys.executable, "-m", *step.command],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=left,
                check=False,
            )
            status, output = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            break
        state = "nothing found" if status == 0 else "found something"
        print(f"{step.title}: {state}, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
        if status:
            lines = step.findings(output) or [output[-4000:]]
            found += len(lines)
            print("\n".join(f"  {line}" for line in lines), flush=True)  # noqa: T201
    print(f"{found} findings in {minutes:g} minutes, drawn from --seed {seed}")  # noqa: T201
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().getrandbits(32), help="repeats the same steps"
    )
    options = parser.parse_args()
    return 1 if explore(options.minutes, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())

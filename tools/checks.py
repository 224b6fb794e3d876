"""Runs the checks of `make check`, two at a time: style, import contracts, generated files, and types with `--types`.

Prints each check with its duration, and the output of those that fail. Exit status 1 if one failed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 2
_PYTHON = (sys.executable, "-m")


@dataclass(frozen=True)
class Check:
    """A name and the commands that must succeed, one after the other."""

    name: str
    commands: Sequence[Sequence[str]]


CHECKS = (
    Check("generated contracts", [(*_PYTHON, "contracts.generate", "--check")]),
    Check(
        "ruff", [(*_PYTHON, "ruff", "check", "--quiet", "."), (*_PYTHON, "ruff", "format", "--quiet", "--check", ".")]
    ),
    Check(
        "import contracts",
        [(str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--cache-dir", ".mypy_cache/imports")],
    ),
    Check("gRPC contract", [(*_PYTHON, "contracts.protos")]),
)
"""The longest first."""
TYPES = Check("mypy", [(*_PYTHON, "mypy", "--no-error-summary")])
"""From nothing it takes 60 s of CPU, and its answer is the same on every machine."""


def chosen(arguments: Sequence[str]) -> Sequence[Check]:
    """Returns the checks that the arguments ask for."""
    return (TYPES, *CHECKS) if "--types" in arguments else CHECKS


def run(check: Check) -> bool:
    """Run the commands of a check and print its outcome. Returns whether all succeeded."""
    began, output = time.monotonic(), ""
    for command in check.commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            output = f"{done.stdout}{done.stderr}" or f"exit status {done.returncode}"
            break
    failed = "failed, " if output else ""
    sys.stdout.write(f"  {check.name}: {failed}{time.monotonic() - began:.1f} s\n{output}")
    sys.stdout.flush()
    return not output


def main(arguments: Sequence[str]) -> int:
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        return 0 if all(list(lanes.map(run, chosen(arguments)))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs the checks of `make check`, two at a time: style, types, import contracts, generated files.

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
    Check("mypy", [(*_PYTHON, "mypy", "--no-error-summary")]),
    Check(
        "ruff", [(*_PYTHON, "ruff", "check", "--quiet", "."), (*_PYTHON, "ruff", "format", "--quiet", "--check", ".")]
    ),
    Check(
        "import contracts",
        [(str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--cache-dir", ".mypy_cache/imports")],
    ),
    Check("generated contracts", [(*_PYTHON, "contracts.generate", "--check")]),
    Check("gRPC contract", [(*_PYTHON, "contracts.protos")]),
)
"""The longest first."""
COMPILED = Check("tests are imported", [(*_PYTHON, "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")])
"""Writes the bytecode of the tests. In a new checkout each lane would compile all of them at the same time."""


def needed(root: Path) -> Sequence[Check]:
    """Returns all checks; in a new checkout, the import of the tests beside mypy."""
    is_compiled = any((root / "tests").glob("unit/*/__pycache__/test_*-pytest-*.pyc"))
    return CHECKS if is_compiled else (CHECKS[0], COMPILED, *CHECKS[1:])


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


def main() -> int:
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        return 0 if all(list(lanes.map(run, needed(ROOT)))) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Histories of the whole control plane from seeds: the same hash twice, and regressions that seeds have found."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.world.plan import Plan
from tests.world.swarm import draw

REGRESSIONS = (
    (3, "an event that still waited in the outbox was committed again after the answer of its commit was lost"),
    (1015, "a relay asked PostgreSQL without a pause for a subject that another replica had sent"),
)
"""Seeds that once violated an invariant, with what was wrong. What a seed draws changes with the kinds of faults, so
tests/unit/store has a test of its own for each."""
SMALL = ("--nodes", "3", "--seconds", "120")


def line_of(seed: int, *, junk: int = 0) -> str:
    """The line that a run in a process of its own prints; `junk` objects lie in its memory before it."""
    program = (
        f"import sys; junk = [object() for _ in range({junk})]; from tests.world.__main__ import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "--seed", str(seed), *SMALL]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "0"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[0]


def test_two_processes_find_one_hash_for_a_seed() -> None:
    first, second = line_of(11), line_of(11, junk=12_345)
    assert first == second
    assert line_of(12) != first


@pytest.mark.parametrize(("seed", "what"), REGRESSIONS)
def test_regressions(seed: int, what: str) -> None:
    assert "holds" in line_of(seed), what


def test_a_plan_survives_its_file() -> None:
    plan = draw(7)
    assert Plan.from_json(plan.to_json()) == plan
    assert draw(7) == plan
    assert draw(8) != plan
